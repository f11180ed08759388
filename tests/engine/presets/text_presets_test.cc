// The presets for text: sizes, the treatment of padding, and learning.
#include <cmath>

#include "dataflow/session/session.h"
#include "engine/datasets/characters.h"
#include "engine/graphdef/graph_def.h"
#include "engine/presets/presets.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_step.h"

namespace rivulet {
namespace {

using testing::AddTrainingStep;

// A window for each row: its characters and the next ones, padded where it is shorter.
Session::Feeds Text(std::vector<std::string> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  Tensor tokens(DType::kInt64, Shape{count, 80}), label(DType::kInt64, Shape{count, 80});
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t i = 0; i + 1 < rows[row].size() && i < 80; ++i) {
      tokens.flat<int64_t>()[row * 80 + i] = TokenOf(rows[row][i]);
      label.flat<int64_t>()[row * 80 + i] = TokenOf(rows[row][i + 1]);
    }
  }
  return {{"tokens", tokens}, {"label", label}};
}

const char kLine[] = "Now is the winter of our discontent made glorious summer by this sun of York; and all the clouds";

class TextPresetTest : public ::testing::TestWithParam<std::pair<const char*, int64_t>> {};

TEST_P(TextPresetTest, Built_HasThePublishedNumberOfParameters) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset(GetParam().first));
  int64_t parameters = 0;
  for (const ModelVariable& variable : model.variables) parameters += variable.spec.shape.elements();
  EXPECT_EQ(parameters, GetParam().second);
  EXPECT_EQ(model.input.spec, (TensorSpec{DType::kInt64, Shape{kUnknownDim, 80}}));
  EXPECT_EQ(model.label.spec, (TensorSpec{DType::kInt64, Shape{kUnknownDim, 80}}));
  EXPECT_EQ(model.classes, 90);
  const std::string bytes = SerializeGraph(model.graph);
  ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(bytes));
  EXPECT_TRUE(SerializeGraph(again) == bytes);
}

TEST_P(TextPresetTest, Padding_CountsForNothing) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset(GetParam().first));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(model.graph), {.seed = 7}));
  ASSERT_OK(session->Run({}, {}, {model.init_target}));
  ASSERT_OK_AND_ASSIGN(const auto alone, session->Run(Text({kLine}), {"loss", "accuracy"}));
  ASSERT_OK_AND_ASSIGN(const auto padded, session->Run(Text({kLine, "", ""}), {"loss", "accuracy"}));
  EXPECT_NEAR(alone[0].flat<float>()[0], padded[0].flat<float>()[0], 1e-5);
  EXPECT_NEAR(alone[1].flat<float>()[0], padded[1].flat<float>()[0], 1e-6);
  ASSERT_OK_AND_ASSIGN(const auto nothing, session->Run(Text({""}), {"loss", "accuracy"}));
  EXPECT_EQ(nothing[0].flat<float>()[0], 0);
  EXPECT_EQ(nothing[1].flat<float>()[0], 0);
}

TEST_P(TextPresetTest, WhatComesLater_DoesNotChangeWhatIsSaidBefore) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset(GetParam().first));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(model.graph), {.seed = 7}));
  ASSERT_OK(session->Run({}, {}, {model.init_target}));
  std::string other = kLine;
  other[40] = 'Q';
  ASSERT_OK_AND_ASSIGN(const auto logits, session->Run(Text({kLine, other}), {"logits"}));
  const auto values = logits[0].flat<float>();
  const size_t row = 80 * 90;
  for (size_t i = 0; i < 40 * 90; ++i) ASSERT_EQ(values[i], values[row + i]) << i;
  bool differs = false;
  for (size_t i = 40 * 90; i < 41 * 90; ++i) differs |= values[i] != values[row + i];
  EXPECT_TRUE(differs);
}

TEST_P(TextPresetTest, TrainedOnARepeatedPhrase_LearnsItByHeart) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset(GetParam().first));
  OptimizerSpec optimizer;
  optimizer.kind = "adam";
  optimizer.learning_rate = 0.01;
  ASSERT_OK_AND_ASSIGN(const std::string target, AddTrainingStep(model, optimizer));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(model.graph), {.seed = 7}));
  ASSERT_OK(session->Run({}, {}, {model.init_target}));
  std::string words;
  while (words.size() < 81) words += "to be, ";
  const Session::Feeds line = Text({words});
  ASSERT_OK_AND_ASSIGN(const auto before, session->Run(line, {"loss"}));
  EXPECT_NEAR(before[0].flat<float>()[0], std::log(90.0f), 0.7f);  // knows nothing yet
  // The transformer leaves its plateau between steps 50 and 90, when the last bits of its weights decide.
  for (int i = 0; i < 140; ++i) ASSERT_OK(session->Run(line, {}, {target}));
  ASSERT_OK_AND_ASSIGN(const auto after, session->Run(line, {"loss", "accuracy"}));
  EXPECT_LT(after[0].flat<float>()[0], 0.5f);
  EXPECT_GT(after[1].flat<float>()[0], 0.95f);
}

std::vector<std::string> VariableNames(std::string_view preset) {
  std::vector<std::string> names;
  if (const auto model = Preset(preset); model.ok())
    for (const ModelVariable& variable : model->variables) names.push_back(variable.name);
  return names;
}

// Names and their order are part of the digests of old models.
TEST(TextPresets, Variables_StandInOrderOfLayers) {
  EXPECT_THAT(
      VariableNames("char_lstm"),
      ::testing::ElementsAre("embedding/embeddings", "lstm1/kernel", "lstm1/recurrent_kernel", "lstm1/bias",
                             "lstm2/kernel", "lstm2/recurrent_kernel", "lstm2/bias", "dense/kernel", "dense/bias"));
  std::vector<std::string> names = {"embedding/embeddings", "embedding/positions"};
  for (const std::string block : {"block1", "block2"})
    for (const char* part :
         {"norm1/gamma", "norm1/beta", "attention/query_key_value/kernel", "attention/query_key_value/bias",
          "attention/output/kernel", "attention/output/bias", "norm2/gamma", "norm2/beta", "hidden/kernel",
          "hidden/bias", "output/kernel", "output/bias"})
      names.push_back(block + "/" + part);
  names.insert(names.end(), {"norm/gamma", "norm/beta"});
  EXPECT_EQ(VariableNames("tiny_transformer"), names);
}

INSTANTIATE_TEST_SUITE_P(All, TextPresetTest,
                         ::testing::Values(std::pair{"char_lstm", int64_t{820'522}},
                                           std::pair{"tiny_transformer", int64_t{110'976}}),
                         [](const auto& param) { return std::string(param.param.first); });

}  // namespace
}  // namespace rivulet
