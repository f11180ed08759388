// Training of imported models: those exported from presets, and those written by PyTorch.
#include "engine/onnx/trainable.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dataflow/session/session.h"
#include "engine/base/file_system.h"
#include "engine/onnx/import.h"
#include "engine/presets/presets.h"
#include "tests/conformance/onnx/export_cases.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_step.h"

namespace rivulet {
namespace {

using ::rivulet::testing::AddTrainingStep;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

StatusOr<ModelDef> SmallCnn(const onnx::TrainableOptions& options = {}) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes,
                           FileSystem::Default().ReadAll(std::string(RIVULET_ONNX_TORCH) + "/small_cnn.onnx"));
  return onnx::ModelFromOnnx(bytes, options);
}

struct Trained {
  std::vector<float> losses;  // of each step
  float eval_loss = 0;        // after all
  std::map<std::string, Tensor> variables;
};

// Steps of SGD over one batch, with the updates that a step runs besides.
StatusOr<Trained> Train(ModelDef model, const std::map<std::string, Tensor>& weights, const Tensor& input, int steps) {
  OptimizerSpec sgd;
  sgd.learning_rate = 0.05;
  RIVULET_ASSIGN_OR_RETURN(const std::string step, AddTrainingStep(model, sgd));
  std::vector<std::string> targets = model.train_updates;
  targets.push_back(step);
  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(std::move(model.graph), {.seed = 9}));
  RIVULET_RETURN_IF_ERROR(session->Run({}, {}, {model.init_target}).status());
  for (const auto& [name, value] : weights) RIVULET_RETURN_IF_ERROR(session->SetVariable(name, value));
  Shape labels = model.label.spec.shape;
  labels.set_dim(0, input.shape().dim(0));
  Tensor label(DType::kInt64, labels);
  for (size_t i = 0; i < label.flat<int64_t>().size(); ++i)
    label.flat<int64_t>()[i] = static_cast<int64_t>(i * 7 + 1) % model.classes;
  const Session::Feeds feeds = {{model.input.placeholder, input}, {model.label.placeholder, label}};
  Trained trained;
  for (int i = 0; i < steps; ++i) {
    RIVULET_ASSIGN_OR_RETURN(const auto values, session->Run(feeds, {model.train_loss}, targets));
    trained.losses.push_back(values[0].flat<float>()[0]);
  }
  RIVULET_ASSIGN_OR_RETURN(const auto values, session->Run(feeds, {model.eval_loss}));
  trained.eval_loss = values[0].flat<float>()[0];
  for (const ModelVariable& variable : model.variables) {
    RIVULET_ASSIGN_OR_RETURN(trained.variables[variable.name], session->GetVariable(variable.name));
  }
  return trained;
}

// Written and read again, a preset is trained as it was: the same variables, losses and weights after three steps.
class TrainedFromOnnx : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainedFromOnnx, StepsAndStatistics_AreThePresets) {
  ASSERT_OK_AND_ASSIGN(const OnnxExportCase c, PresetCase(GetParam()));
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxFile file, onnx::ExportOnnx(c.graph, c.options));
  ASSERT_OK_AND_ASSIGN(ModelDef preset, Preset(GetParam()));
  onnx::TrainableOptions options;
  options.encoding = preset.input.encoding;
  if (options.encoding != FeatureEncoding::kInt64)
    options.input.assign(preset.input.spec.shape.dims().begin() + 1, preset.input.spec.shape.dims().end());
  ASSERT_OK_AND_ASSIGN(ModelDef model, onnx::ModelFromOnnx(file.model, options));
  ASSERT_EQ(model.variables.size(), preset.variables.size());
  for (size_t i = 0; i < model.variables.size(); ++i) {
    EXPECT_EQ(model.variables[i].name, preset.variables[i].name);
    EXPECT_EQ(model.variables[i].spec, preset.variables[i].spec) << model.variables[i].name;
    EXPECT_EQ(model.variables[i].segment, preset.variables[i].segment) << model.variables[i].name;
  }
  EXPECT_EQ(model.train_updates.size(), preset.train_updates.size());
  const auto trained = Train(std::move(model), {}, c.feeds[0].second, 3);
  ASSERT_OK(trained);
  const Trained& actual = *trained;
  ASSERT_OK_AND_ASSIGN(const Trained expected, Train(std::move(preset), c.options.weights, c.feeds[0].second, 3));
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(actual.losses[i], expected.losses[i], 2e-4 * expected.losses[i]) << i;
  EXPECT_NEAR(actual.eval_loss, expected.eval_loss, 2e-4 * expected.eval_loss);
  for (const auto& [name, value] : expected.variables)
    EXPECT_EQ(DifferenceOf(actual.variables.at(name), value, 1e-3), "") << name;
}

INSTANTIATE_TEST_SUITE_P(Onnx, TrainedFromOnnx,
                         ::testing::Values("logistic_regression", "lenet5", "mnist_cnn", "resnet8"),
                         [](const auto& info) { return info.param; });

TEST(TrainableOnnx, ModelOfPyTorchs_LearnsWithDropoutAndMovesItsStatistics) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, SmallCnn());
  EXPECT_EQ(model.input.spec.shape.ToString(), "[?,28,28,1]");
  EXPECT_EQ(model.classes, 10);
  EXPECT_NE(model.train_loss, model.eval_loss);
  std::vector<std::string> names, segments;
  for (const ModelVariable& variable : model.variables) {
    names.push_back(variable.name);
    segments.push_back(variable.segment);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean",
                                             "1.running_var", "4.weight", "4.bias", "8.weight", "8.bias"}));
  EXPECT_EQ(std::ranges::count(segments, "shared"), 2);
  // Filters and matrices lie as the engine's own: no step transposes them.
  EXPECT_EQ(model.variables[0].spec.shape.ToString(), "[5,5,1,8]");
  EXPECT_EQ(model.variables[8].spec.shape.ToString(), "[256,10]");
  EXPECT_EQ(model.train_updates.size(), 2u);
  Tensor input(DType::kFloat32, Shape{16, 28, 28, 1});
  for (size_t i = 0; i < input.flat<float>().size(); ++i)
    input.flat<float>()[i] = static_cast<float>(i * 37 % 101) / 101;
  ASSERT_OK_AND_ASSIGN(const Trained trained, Train(std::move(model), {}, input, 60));
  EXPECT_LT(trained.losses.back(), 0.7f * trained.losses.front());
  EXPECT_NE(trained.variables.at("1.running_mean").flat<float>()[0], 0.0f);
  EXPECT_NE(trained.variables.at("1.running_var").flat<float>()[0], 1.0f);
}

// Gradients and forward pass name the stored filters only: nothing transposes a weight.
TEST(TrainableOnnx, StoredWeights_AreNotTransposedInTheGraph) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, SmallCnn());
  for (const auto& node : model.graph.nodes()) {
    if (node->type() != "Transpose") continue;
    EXPECT_NE(node->input(0).node->type(), "ReadVariableOp") << node->name();
  }
}

TEST(TrainableOnnx, ImportedWeights_GoBackAsTheyCame) {
  ASSERT_OK_AND_ASSIGN(const std::string bytes,
                       FileSystem::Default().ReadAll(std::string(RIVULET_ONNX_TORCH) + "/small_cnn.onnx"));
  // In its form for training the file draws random numbers: in the other it is the same weights.
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxModel first, onnx::ImportOnnx(bytes));
  ASSERT_OK_AND_ASSIGN(const ModelDef model, onnx::ModelFromOnnx(bytes, {}));
  onnx::ExportOptions options;
  options.outputs = {"logits"};
  for (const onnx::OnnxWeight& weight : first.weights) options.weights[weight.variable] = weight.value;
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxFile file, onnx::ExportOnnx(model.graph, options));
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxModel second, onnx::ImportOnnx(file.model));
  ASSERT_EQ(first.weights.size(), second.weights.size());
  for (size_t i = 0; i < first.weights.size(); ++i) {
    EXPECT_EQ(first.weights[i].variable, second.weights[i].variable);
    EXPECT_EQ(DifferenceOf(second.weights[i].value, first.weights[i].value, 0), "") << first.weights[i].variable;
  }
}

TEST(TrainableOnnx, ExamplesThatDoNotFit_AreRefusedWithBothShapes) {
  onnx::TrainableOptions options;
  options.input = {32, 32, 3};
  EXPECT_THAT(SmallCnn(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                          ::testing::AllOf(HasSubstr("[32,32,3]"), HasSubstr("[?,1,28,28]"))));
  options.input = {784};
  EXPECT_OK(SmallCnn(options));
  options.input = {1, 28, 28};
  EXPECT_OK(SmallCnn(options));
  options.loss = "hinge";
  EXPECT_THAT(SmallCnn(options), StatusIs(absl::StatusCode::kNotFound, HasSubstr("hinge")));
}

}  // namespace
}  // namespace rivulet
