// A graph that TensorFlow froze (tensorflow/make_frozen.py): it computes what TensorFlow computed, and unfrozen it does
// so too and can be trained.
#include "engine/models/unfreeze.h"

#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "engine/models/model_def.h"
#include "engine/variables/variables.h"
#include "tests/engine/graphdef/tensorflow_file.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::ConstantNamed;
using ::testing::ElementsAre;
using testing::ReadTensorFlowGraph;

class FrozenGraphTest : public ::testing::Test {
 protected:
  Tensor Value(const std::string& name) const { return ConstantNamed(values_, name); }
  void ExpectTensorFlows(Session& session) {
    ASSERT_OK_AND_ASSIGN(const auto results, session.Run({{"image", Value("image")}}, {"probabilities"}));
    const Tensor expected = Value("probabilities");
    for (size_t i = 0; i < expected.flat<float>().size(); ++i)
      EXPECT_NEAR(results[0].flat<float>()[i], expected.flat<float>()[i], 1e-6f);
  }
  Graph values_ = ReadTensorFlowGraph("frozen.values.pb");
};

TEST_F(FrozenGraphTest, AsItCame_ComputesWhatTensorFlowDid) {
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(ReadTensorFlowGraph("frozen.pb")));
  ExpectTensorFlows(*session);
}

TEST_F(FrozenGraphTest, Unfrozen_ComputesTheSameAndHasGradients) {
  ASSERT_OK_AND_ASSIGN(UnfrozenGraph unfrozen, Unfreeze(ReadTensorFlowGraph("frozen.pb")));
  EXPECT_THAT(unfrozen.variables, ElementsAre("conv/kernel", "conv/bias", "bn/gamma", "bn/beta", "bn/mean",
                                              "bn/variance", "dense/kernel", "dense/bias"));
  ASSERT_OK_AND_ASSIGN(const auto variables, VariablesOf(unfrozen.graph));
  for (const ModelVariable& variable : variables)
    EXPECT_EQ(variable.segment, variable.name == "bn/mean" || variable.name == "bn/variance" ? "shared" : "trainable");

  const Scope scope(unfrozen.graph);
  ASSERT_OK_AND_ASSIGN(const Output probabilities, unfrozen.graph.FindOutput("probabilities"));
  const Output first =
      scope.Op("StridedSlice",
               {probabilities, scope.Const(Tensor::Of<int32_t>({2}, {0, 0})),
                scope.Const(Tensor::Of<int32_t>({2}, {1, 1})), scope.Const(Tensor::Of<int32_t>({2}, {1, 1}))},
               {{"shrink_axis_mask", int64_t{3}}});
  ASSERT_OK_AND_ASSIGN(const Output kernel, FindVariable(unfrozen.graph, "conv/kernel"));
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(unfrozen.graph, first, std::vector{kernel}));
  const std::string gradient = gradients[0].name();
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(unfrozen.graph)));
  ASSERT_OK(session->Run({}, {}, {kInitTarget}));
  ExpectTensorFlows(*session);
  ASSERT_OK_AND_ASSIGN(const auto slopes, session->Run({{"image", Value("image")}}, {gradient}));
  float largest = 0;
  for (float slope : slopes[0].flat<float>()) largest = std::max(largest, std::abs(slope));
  EXPECT_GT(largest, 1e-3f);
}

TEST(UnfreezeTest, ConstantsThatAreNoWeights_Stay) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {kUnknownDim, 4});
  const Output half = scope.Op("Mul", {x, scope.Const(0.5f, "half")});
  const Output table = scope.Const(Tensor::Of<float>({2, 2}, {1, 2, 3, 4}), "table");
  scope.Op("MatMul", {scope.Op("Reshape", {half, scope.Const(Tensor::Of<int32_t>({2}, {-1, 2}), "sizes")}), table});
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const UnfrozenGraph unfrozen, Unfreeze(graph));
  EXPECT_THAT(unfrozen.variables, ElementsAre("table"));
  EXPECT_EQ(unfrozen.graph.Find("half")->type(), "Const");
  EXPECT_EQ(unfrozen.graph.Find("sizes")->type(), "Const");
}

}  // namespace
}  // namespace rivulet
