#include "engine/models/presets.h"

#include <cmath>

#include "engine/gradients/apply_gradients.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/graph_def.h"
#include "engine/models/variables.h"
#include "engine/session/session.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

int64_t Parameters(const ModelDef& model) {
  int64_t sum = 0;
  for (const ModelVariable& variable : model.variables) sum += variable.spec.shape.elements();
  return sum;
}

std::vector<std::string> VariableNames(const ModelDef& model) {
  std::vector<std::string> names;
  for (const ModelVariable& variable : model.variables) names.push_back(variable.name);
  return names;
}

// A batch that any model can learn by heart: image i is bright in rows of its own.
Session::Feeds Batch() {
  Tensor image(DType::kFloat32, Shape{8, 28, 28, 1});
  Tensor label(DType::kInt64, Shape{8});
  for (int i = 0; i < 8; ++i) {
    label.flat<int64_t>()[static_cast<size_t>(i)] = i;
    for (int at = 0; at < 3 * 28; ++at) image.flat<float>()[static_cast<size_t>(i * 784 + i * 84 + at)] = 1;
  }
  return {{"image", image}, {"label", label}};
}

class PresetTest : public ::testing::TestWithParam<std::pair<const char*, int64_t>> {};

TEST_P(PresetTest, Built_HasThePublishedNumberOfParameters) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset(GetParam().first));
  EXPECT_EQ(Parameters(model), GetParam().second);
  EXPECT_EQ(model.input.spec, (TensorSpec{DType::kFloat32, Shape{kUnknownDim, 28, 28, 1}}));
  EXPECT_EQ(model.label.spec, (TensorSpec{DType::kInt64, Shape{kUnknownDim}}));
  EXPECT_EQ(model.classes, 10);
}

TEST_P(PresetTest, SerializedAndParsed_GivesTheSameBytes) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset(GetParam().first));
  const std::string bytes = SerializeGraph(model.graph);
  ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(bytes));
  EXPECT_TRUE(SerializeGraph(again) == bytes);
}

TEST_P(PresetTest, TrainedOnOneBatch_LearnsItByHeart) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset(GetParam().first));
  std::vector<Output> handles;
  for (const ModelVariable& variable : model.variables) {
    ASSERT_OK_AND_ASSIGN(const Output handle, FindVariable(model.graph, variable.name));
    handles.push_back(handle);
  }
  ASSERT_OK_AND_ASSIGN(const Output loss, model.graph.FindOutput(model.train_loss));
  ASSERT_OK_AND_ASSIGN(const std::vector<Output> gradients, ComputeGradients(model.graph, loss, handles));
  OptimizerSpec optimizer;
  optimizer.learning_rate = 0.1;
  ASSERT_OK_AND_ASSIGN(const Node* step, ApplyGradients(Scope(model.graph), optimizer, handles, gradients));
  const std::string target = step->name();
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(model.graph), {.seed = 7}));
  ASSERT_OK(session->Run({}, {}, {model.init_target}));

  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> before, session->Run(Batch(), {"loss"}));
  EXPECT_NEAR(before[0].flat<float>()[0], std::log(10.0f), 0.7f);  // knows nothing yet
  for (int i = 0; i < 60; ++i) ASSERT_OK(session->Run(Batch(), {}, {target}));
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> after, session->Run(Batch(), {"loss", "accuracy"}));
  EXPECT_LT(after[0].flat<float>()[0], 0.5f);
  EXPECT_EQ(after[1].flat<float>()[0], 1.0f);
}

INSTANTIATE_TEST_SUITE_P(All, PresetTest,
                         ::testing::Values(std::pair{"logistic_regression", int64_t{7'850}},
                                           std::pair{"mlp", int64_t{199'210}},
                                           std::pair{"mnist_cnn", int64_t{1'663'370}}),
                         [](const auto& param) { return std::string(param.param.first); });

TEST(PresetsTest, MnistCnn_NamesVariablesInOrderOfLayers) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset("mnist_cnn"));
  EXPECT_THAT(VariableNames(model), ElementsAre("conv1/kernel", "conv1/bias", "conv2/kernel", "conv2/bias",
                                                "dense1/kernel", "dense1/bias", "dense2/kernel", "dense2/bias"));
}

TEST(PresetsTest, UnknownName_NamesTheNearest) {
  EXPECT_THAT(Preset("mnist_cn"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("Did you mean 'mnist_cnn'?")));
}

}  // namespace
}  // namespace rivulet
