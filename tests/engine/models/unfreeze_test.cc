// A graph frozen by TensorFlow (tensorflow/make_frozen.py): it gives TensorFlow's results, also after unfreezing, and
// can then be trained.
#include "engine/models/unfreeze.h"

#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/function.h"
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

std::map<std::string, std::string> RolesIn(const Graph& graph) {
  const StatusOr<UnfrozenGraph> unfrozen = Unfreeze(graph);
  EXPECT_OK(unfrozen.status());
  std::map<std::string, std::string> roles;
  for (const FrozenConstant& constant : unfrozen->constants) roles[constant.name] = constant.role;
  return roles;
}

Output Floats(const Scope& scope, const Shape& shape, const std::string& name) {
  return scope.Const(Tensor(DType::kFloat32, shape), name);
}

TEST(Unfreeze, WeightsOfALoop_AreFoundInItsBody) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{2, 3});
  const Output kernel = Floats(scope, {3, 3}, "kernel"), bias = Floats(scope, {3}, "bias"),
               unused = Floats(scope, {3}, "unused");
  const auto function = [&](const std::string& name, bool body) {
    Graph inside;
    const Scope inner(inside);
    std::vector<Output> arguments;
    for (int64_t i = 0; i < 4; ++i) arguments.push_back(inner.Op("_Arg", {}, {{"T", DType::kFloat32}, {"index", i}}));
    std::vector<Output> results = {inner.Const(Tensor::Scalar(false))};
    if (body) {
      results = arguments;
      results[0] = inner.Op("BiasAdd", {inner.Op("MatMul", {arguments[0], arguments[1]}), arguments[2]});
    }
    EXPECT_OK(inner.status());
    const auto created = Function::Create(name, std::move(inside), std::move(results));
    EXPECT_OK(created.status());
    EXPECT_OK(graph.AddFunction(*created));
  };
  function("more", false);
  function("step", true);
  scope.Op("While", {x, kernel, bias, unused}, {{"cond", FunctionRef{"more"}}, {"body", FunctionRef{"step"}}}, "loop");
  ASSERT_OK(scope.status());
  EXPECT_EQ(RolesIn(graph),
            (std::map<std::string, std::string>{{"kernel", "weight"}, {"bias", "weight"}, {"unused", "constant"}}));
}

TEST(Unfreeze, NormalisationsThatWereTakenApart_HaveTheirParts) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 3});
  const auto read = [&](const std::string& name, const Shape& shape) {
    return scope.Op("Identity", {Floats(scope, shape, name)}, {}, name + "/read");
  };
  // y = x · k + (beta - mean · k), k = gamma · rsqrt(variance + ε), and a layer's normalisation behind it.
  const Output epsilon = scope.Const(Tensor::Scalar(1e-3f));
  const Output root = scope.Op("Rsqrt", {scope.Op("AddV2", {read("variance", {3}), epsilon})});
  const Output k = scope.Op("Mul", {root, read("gamma", {3})});
  const Output offset = scope.Op("Sub", {read("beta", {3}), scope.Op("Mul", {read("mean", {3}), k})});
  const Output y = scope.Op("AddV2", {scope.Op("Mul", {x, k}), offset});
  const Output shape = scope.Const(Tensor::Of<int32_t>({2}, {1, 3}));
  const Output layer = scope.Op("Reshape", {read("layer_gamma", {3}), shape});
  scope.Op("Mul", {y, layer});
  scope.Op("AddV2", {y, Floats(scope, {2, 3}, "table")});
  ASSERT_OK(scope.status());
  EXPECT_EQ(RolesIn(graph), (std::map<std::string, std::string>{{"variance", "running statistic"},
                                                                {"mean", "running statistic"},
                                                                {"gamma", "weight"},
                                                                {"beta", "weight"},
                                                                {"layer_gamma", "weight"},
                                                                {"table", "constant"}}));
}

}  // namespace
}  // namespace rivulet
