// Graphs that TensorFlow's Python wrote (tensorflow/make_graphs.py): they load, give TensorFlow's loss and gradients,
// and train.

#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/graphdef/graph_def.h"
#include "engine/models/model_def.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/variables.h"
#include "tests/engine/graphdef/tensorflow_file.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ConstantNamed;
using ::rivulet::testing::ReadTensorFlowFile;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class TensorFlowGraphTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_, ModelFromGraph(ReadTensorFlowFile(std::string(GetParam()) + ".pb"), {}));
    ASSERT_OK_AND_ASSIGN(values_, ParseGraph(ReadTensorFlowFile(std::string(GetParam()) + ".values.pb")));
    for (const ModelVariable& variable : model_.variables) {
      ASSERT_OK_AND_ASSIGN(const Output handle, FindVariable(model_.graph, variable.name));
      handles_.push_back(handle);
    }
    ASSERT_OK_AND_ASSIGN(const Output loss, model_.graph.FindOutput(model_.train_loss));
    ASSERT_OK_AND_ASSIGN(gradients_, ComputeGradients(model_.graph, loss, handles_));
  }
  const Tensor& Value(const std::string& name) const { return ConstantNamed(values_, name); }
  Session::Feeds Batch() const { return {{"image", Value("image")}, {"label", Value("label")}}; }

  ModelDef model_;
  Graph values_;
  std::vector<Output> handles_, gradients_;
};

// Both sum in float32, in different orders; sums here have at most some hundred terms of the order of one.
constexpr float kTolerance = 2e-6f;

TEST_P(TensorFlowGraphTest, LossAccuracyAndGradients_AreTensorFlows) {
  EXPECT_EQ(model_.classes, 4);
  for (const ModelVariable& variable : model_.variables)  // the optimiser's slots are left behind
    EXPECT_FALSE(variable.name.ends_with("/Momentum")) << variable.name;
  std::vector<std::string> fetches = {"loss", "accuracy"};
  for (const Output& gradient : gradients_) fetches.push_back(gradient.name());
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(model_.graph)));
  for (const ModelVariable& variable : model_.variables)
    ASSERT_OK(session->SetVariable(variable.name, Value("value/" + variable.name)));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> results, session->Run(Batch(), fetches));
  EXPECT_NEAR(results[0].flat<float>()[0], Value("loss").flat<float>()[0], kTolerance);
  EXPECT_EQ(results[1].flat<float>()[0], Value("accuracy").flat<float>()[0]);
  for (size_t i = 0; i < model_.variables.size(); ++i) {
    const Tensor& expected = Value("gradient/" + model_.variables[i].name);
    ASSERT_EQ(results[2 + i].shape(), expected.shape());
    for (size_t at = 0; at < expected.flat<float>().size(); ++at)
      EXPECT_NEAR(results[2 + i].flat<float>()[at], expected.flat<float>()[at], kTolerance)
          << model_.variables[i].name << " element " << at;
  }
}

TEST_P(TensorFlowGraphTest, FromItsOwnFirstValues_Learns) {
  OptimizerSpec optimizer;
  optimizer.learning_rate = 0.5;
  ASSERT_OK_AND_ASSIGN(const Node* step, ApplyGradients(Scope(model_.graph), optimizer, handles_, gradients_));
  const std::string target = step->name();
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(model_.graph)));
  ASSERT_OK(session->Run({}, {}, {model_.init_target}));
  ASSERT_OK_AND_ASSIGN(const auto before, session->Run(Batch(), {"loss"}));
  for (int i = 0; i < 200; ++i) ASSERT_OK(session->Run(Batch(), {}, {target}));
  ASSERT_OK_AND_ASSIGN(const auto after, session->Run(Batch(), {"loss"}));
  EXPECT_LT(after[0].flat<float>()[0], 0.5f * before[0].flat<float>()[0]);
}

TEST_P(TensorFlowGraphTest, WrittenAgain_IsTheSameModel) {
  ASSERT_OK_AND_ASSIGN(const ModelDef again, ModelFromGraph(SerializeGraph(model_.graph), {}));
  ASSERT_EQ(again.variables.size(), model_.variables.size());
  for (size_t i = 0; i < again.variables.size(); ++i) EXPECT_EQ(again.variables[i].name, model_.variables[i].name);
}

TEST_P(TensorFlowGraphTest, WholeFileWithItsSaver_IsRefusedByNameOfAnOp) {
  EXPECT_THAT(ParseGraph(ReadTensorFlowFile(std::string(GetParam()) + ".pb")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no op '")));
}

INSTANTIATE_TEST_SUITE_P(All, TensorFlowGraphTest,
                         ::testing::Values("softmax_reference", "mlp_resource", "cnn_reference", "cnn_resource"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace rivulet
