#include "engine/presets/presets.h"

#include <cmath>

#include "dataflow/session/session.h"
#include "engine/graphdef/graph_def.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_step.h"

namespace rivulet {
namespace {

using ::rivulet::testing::AddTrainingStep;
using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> NamesOfVariables(const ModelDef& model) {
  std::vector<std::string> names;
  for (const ModelVariable& variable : model.variables) names.push_back(variable.name);
  return names;
}

struct PresetCase {
  const char* name;
  int64_t parameters;  // trained ones
  std::vector<int64_t> input;
  int64_t classes;
};

int64_t TrainedParameters(const ModelDef& model) {
  int64_t sum = 0;
  for (const ModelVariable& variable : model.variables)
    if (variable.segment == "trainable") sum += variable.spec.shape.elements();
  return sum;
}

// A batch that any model can learn by heart: image i is bright in rows of its own.
Session::Feeds Batch(const std::vector<int64_t>& input) {
  Tensor image(DType::kFloat32, Shape{8, input[0], input[1], input[2]});
  Tensor label(DType::kInt64, Shape{8});
  const int64_t pixels = input[0] * input[1] * input[2], bright = pixels / 9;
  for (int64_t i = 0; i < 8; ++i) {
    label.flat<int64_t>()[static_cast<size_t>(i)] = i;
    for (int64_t at = 0; at < bright; ++at) image.flat<float>()[static_cast<size_t>(i * pixels + i * bright + at)] = 1;
  }
  return {{"image", image}, {"label", label}};
}

class PresetTest : public ::testing::TestWithParam<PresetCase> {};

TEST_P(PresetTest, Built_HasThePublishedNumberOfParameters) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset(GetParam().name));
  EXPECT_EQ(TrainedParameters(model), GetParam().parameters);
  std::vector<int64_t> shape = GetParam().input;
  shape.insert(shape.begin(), kUnknownDim);
  EXPECT_EQ(model.input.spec, (TensorSpec{DType::kFloat32, Shape(shape)}));
  EXPECT_EQ(model.label.spec, (TensorSpec{DType::kInt64, Shape{kUnknownDim}}));
  EXPECT_EQ(model.classes, GetParam().classes);
}

TEST_P(PresetTest, SerializedAndParsed_GivesTheSameBytes) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset(GetParam().name));
  const std::string bytes = SerializeGraph(model.graph);
  ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(bytes));
  EXPECT_TRUE(SerializeGraph(again) == bytes);
}

// Trained on a small input, where a preset's own is large.
TEST_P(PresetTest, TrainedOnOneBatch_LearnsItByHeart) {
  std::vector<int64_t> input = GetParam().input;
  if (input[0] > 100) input = {32, 32, 3};
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset(GetParam().name, {.classes = 10, .input = input}));
  OptimizerSpec optimizer;
  optimizer.learning_rate = 0.1;
  const bool deep = GetParam().name == std::string("mobilenet_v2");
  if (GetParam().name == std::string("lenet5") || deep) {
    optimizer.kind = "momentum";
    optimizer.learning_rate = 0.02;
  }
  ASSERT_OK_AND_ASSIGN(const std::string step, AddTrainingStep(model, optimizer));
  std::vector<std::string> targets = model.train_updates;
  targets.push_back(step);
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(model.graph), {.seed = 7}));
  ASSERT_OK(session->Run({}, {}, {model.init_target}));

  const Session::Feeds batch = Batch(input);
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> before, session->Run(batch, {"loss"}));
  EXPECT_NEAR(before[0].flat<float>()[0], std::log(10.0f), 0.7f);  // knows nothing yet
  for (int i = 0; i < 60; ++i) ASSERT_OK(session->Run(batch, {}, targets));
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> after, session->Run(batch, {"loss", "accuracy"}));
  EXPECT_LT(after[0].flat<float>()[0], 0.5f);
  EXPECT_EQ(after[1].flat<float>()[0], 1.0f);
}

const std::vector<int64_t> kDigit = {28, 28, 1}, kPhoto = {32, 32, 3};

INSTANTIATE_TEST_SUITE_P(
    All, PresetTest,
    ::testing::Values(PresetCase{"logistic_regression", 7'850, kDigit, 10}, PresetCase{"mlp", 199'210, kDigit, 10},
                      PresetCase{"mnist_cnn", 1'663'370, kDigit, 10}, PresetCase{"lenet5", 61'706, kDigit, 10},
                      PresetCase{"cifar_cnn", 1'626'442, kPhoto, 10}, PresetCase{"emnist_cnn", 1'206'590, kDigit, 62},
                      PresetCase{"femnist_cnn", 6'603'710, kDigit, 62}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(PresetsTest, Dropout_IsInTheTrainingGraphAlone) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset("cifar_cnn"));
  EXPECT_EQ(model.train_loss, "training/loss");
  EXPECT_EQ(model.eval_loss, "loss");
  const auto draws = [&](const std::string& loss) {
    Node* node = model.graph.Find(loss);
    int draws = 0;
    for (const Node* each : model.graph.TopologicalOrder({&node, 1})) draws += each->type() == "RandomUniform";
    return draws;
  };
  EXPECT_EQ(draws(model.train_loss), 2);
  EXPECT_EQ(draws(model.eval_loss), 0);
}

TEST(PresetsTest, ClassesAndInput_AreTheCallers) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset("mnist_cnn", {.classes = 62, .input = {32, 32, 3}}));
  EXPECT_EQ(model.classes, 62);
  EXPECT_EQ(model.label.upper_bound, 62);
  EXPECT_EQ(TrainedParameters(model), 2'432 + 51'264 + (4'096 * 512 + 512) + (512 * 62 + 62));
}

TEST(PresetsTest, OptionsThatDoNotFit_AreRefused) {
  EXPECT_THAT(Preset("mlp", {.normalization = "batch"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'mlp' has no normalization to choose")));
  EXPECT_THAT(Preset("resnet8", {.normalization = "bacth"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Did you mean 'batch'?")));
  EXPECT_THAT(Preset("mlp", {.classes = 1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two classes or more, not 1")));
  EXPECT_THAT(Preset("mlp", {.input = {784}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[height, width, channels], all at least 1")));
  EXPECT_THAT(Preset("lenet5", {.input = {4, 4, 1}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("conv2")));
}

TEST(PresetsTest, MnistCnn_NamesVariablesInOrderOfLayers) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset("mnist_cnn"));
  EXPECT_THAT(NamesOfVariables(model), ElementsAre("conv1/kernel", "conv1/bias", "conv2/kernel", "conv2/bias",
                                                   "dense1/kernel", "dense1/bias", "dense2/kernel", "dense2/bias"));
}

TEST(PresetsTest, UnknownName_NamesTheNearest) {
  EXPECT_THAT(Preset("mnist_cn"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("Did you mean 'mnist_cnn'?")));
}

}  // namespace
}  // namespace rivulet
