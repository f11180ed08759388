#include "engine/gradients/gradients.h"

#include "dataflow/session/session.h"
#include "engine/graph/op.h"
#include "engine/models/model_def.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/variables.h"
#include "tests/testing/gradient_check.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::CheckGradients;
using ::rivulet::testing::KnownShapes;
using ::rivulet::testing::RandomTensor;
using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RIVULET_OP("TestStep")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {float, double}")
    .Shape([](InferenceContext& c) {
      c.set_output(0, c.input(0));
      return absl::OkStatus();
    })
    .NotDifferentiable("it is a staircase")
    .Doc("Only for this test.");

// A gradient of the wrong shape: a bug in an op's definition.
RIVULET_OP("TestWrongGradient")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {float, double}")
    .Shape([](InferenceContext& c) {
      c.set_output(0, c.input(0));
      return absl::OkStatus();
    })
    .Gradient([](GradientContext& g) {
      g.set_input_grad(0, g.scope().Const(Tensor(DType::kFloat32, Shape{7})));
      return g.scope().status();
    })
    .Doc("Only for this test.");

Output SumAll(const Scope& scope, Output x) {
  Tensor axes(DType::kInt32, Shape{x.shape().rank()});
  for (int axis = 0; axis < x.shape().rank(); ++axis) axes.flat<int32_t>()[static_cast<size_t>(axis)] = axis;
  return scope.Op("Sum", {x, scope.Const(axes, "axes")});
}

// Runs what is fetched, after `init` where the graph has it.
StatusOr<std::vector<Tensor>> Evaluate(const Graph& graph, const Session::Feeds& feeds,
                                       std::span<const Output> fetches) {
  std::vector<std::string> names;
  for (const Output& fetch : fetches) names.push_back(fetch.name());
  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(graph.Clone()));
  if (graph.Find("init") != nullptr) RIVULET_RETURN_IF_ERROR(session->Run({}, {}, {"init"}).status());
  return session->Run(feeds, names);
}

TEST(GradientsTest, TensorUsedTwice_SumsItsGradients) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{2});
  const Output loss = SumAll(scope, scope.Op("AddV2", {scope.Op("Mul", {x, x}), x}));  // x² + x
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph, loss, std::vector<Output>{x}));
  ASSERT_OK_AND_ASSIGN(const auto values,
                       Evaluate(graph, {{"x", Tensor::Of<float>(Shape{2}, {3.0f, -1.0f})}}, gradients));
  EXPECT_THAT(Values(values[0]), ElementsAre(7.0f, -1.0f));
}

TEST(GradientsTest, LossIndependentOfX_GivesZerosOfItsShape) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{2});
  const Output y = scope.Placeholder("y", DType::kFloat32, Shape{kUnknownDim});
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph, SumAll(scope, x), std::vector<Output>{y, x}));
  ASSERT_OK_AND_ASSIGN(const auto values, Evaluate(graph,
                                                   {{"x", Tensor::Of<float>(Shape{2}, {3.0f, 4.0f})},
                                                    {"y", Tensor::Of<float>(Shape{3}, {1.0f, 2.0f, 3.0f})}},
                                                   gradients));
  EXPECT_THAT(Values(values[0]), ElementsAre(0.0f, 0.0f, 0.0f));
  EXPECT_THAT(Values(values[1]), ElementsAre(1.0f, 1.0f));
}

TEST(GradientsTest, LossItself_HasGradientOne) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{});
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph, x, std::vector<Output>{x}));
  ASSERT_OK_AND_ASSIGN(const auto values, Evaluate(graph, {{"x", Tensor::Scalar(5.0f)}}, gradients));
  EXPECT_THAT(Values(values[0]), ElementsAre(1.0f));
}

TEST(GradientsTest, VariableHandle_SumsOverAllItsReads) {
  Graph graph;
  const Scope scope(graph);
  const Output first = Variable(scope, "w", Shape{2}, Constant(3));
  const Output second = Variable(scope, "w", Shape{2}, Constant(0), {.sharing = VariableOptions::Sharing::kReuse});
  const Output x = scope.Const(Tensor::Of<float>(Shape{2}, {10.0f, 20.0f}));
  const Output loss = SumAll(scope, scope.Op("AddV2", {scope.Op("Mul", {first, first}), scope.Op("Mul", {second, x})}));
  ASSERT_OK_AND_ASSIGN(const Output handle, FindVariable(graph, "w"));
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph, loss, std::vector<Output>{handle, first}));
  ASSERT_OK_AND_ASSIGN(const auto values, Evaluate(graph, {}, gradients));
  EXPECT_THAT(Values(values[0]), ElementsAre(16.0f, 26.0f));  // 2w + x
  EXPECT_THAT(Values(values[1]), ElementsAre(6.0f, 6.0f));    // of the first read alone
}

TEST(GradientsTest, UnusedVariable_GetsZeros) {
  Graph graph;
  const Scope scope(graph);
  const Output used = Variable(scope, "used", Shape{}, Ones());
  Variable(scope, "idle", Shape{2}, Ones());
  ASSERT_OK_AND_ASSIGN(const Output idle, FindVariable(graph, "idle"));
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph, used, std::vector<Output>{idle}));
  ASSERT_OK_AND_ASSIGN(const auto values, Evaluate(graph, {}, gradients));
  EXPECT_THAT(Values(values[0]), ElementsAre(0.0f, 0.0f));
}

TEST(GradientsTest, StopGradient_HoldsItBack) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{2});
  const Output loss = SumAll(scope, scope.Op("Mul", {x, scope.Op("StopGradient", {x})}));
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph, loss, std::vector<Output>{x}));
  ASSERT_OK_AND_ASSIGN(const auto values,
                       Evaluate(graph, {{"x", Tensor::Of<float>(Shape{2}, {3.0f, 4.0f})}}, gradients));
  EXPECT_THAT(Values(values[0]), ElementsAre(3.0f, 4.0f));
}

TEST(GradientsTest, SecondDerivative_IsTheGradientOfTheGradient) {
  EXPECT_OK(CheckGradients({RandomTensor(Shape{3}, 1)},
                           [](const Scope& scope, const std::vector<Output>& x) -> std::vector<Output> {
                             const Output cube = scope.Op("Mul", {scope.Op("Mul", {x[0], x[0]}), x[0]});
                             const auto first = ComputeGradients(scope.graph(), SumAll(scope, cube), x);
                             if (!first.ok()) scope.Fail(first.status());
                             return first.ok() ? *first : std::vector<Output>{};
                           }));
}

TEST(GradientsTest, DenseLayerOfUnknownBatch_AgreesWithDifferences) {
  EXPECT_OK(CheckGradients({RandomTensor(Shape{4, 3}, 1), RandomTensor(Shape{3, 2}, 2), RandomTensor(Shape{2}, 3)},
                           [](const Scope& scope, const std::vector<Output>& x) {
                             const Output product = scope.Op("MatMul", {x[0], x[1]});
                             return std::vector<Output>{scope.Op("Tanh", {scope.Op("BiasAdd", {product, x[2]})})};
                           },
                           {.known_shapes = {KnownShapes::kRanks}}));
}

TEST(GradientsTest, GradientCheckItself_SeesAWrongGradient) {
  // StopGradient hides half of the derivative of x².
  EXPECT_FALSE(CheckGradients({RandomTensor(Shape{2}, 1)}, [](const Scope& scope, const std::vector<Output>& x) {
                 return std::vector<Output>{scope.Op("Mul", {x[0], scope.Op("StopGradient", {x[0]})})};
               }).ok());
}

TEST(GradientsTest, SameGraphTwice_GivesTheSameNames) {
  const auto build = [](std::vector<std::string>& names) {
    Graph graph;
    const Scope scope(graph);
    const Output x = scope.Placeholder("x", DType::kFloat32, Shape{2});
    const Output y = scope.Op("AddV2", {scope.Op("Mul", {x, x}), scope.Op("Mul", {x, x})});
    ASSERT_OK(ComputeGradients(graph, SumAll(scope, y), std::vector<Output>{x}));
    for (const auto& node : graph.nodes()) names.push_back(node->name());
  };
  std::vector<std::string> first, second;
  build(first);
  build(second);
  EXPECT_EQ(first, second);
}

TEST(GradientsTest, OpWithoutGradientOnThePath_IsNamedWithItsReason) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{2});
  const Output step = scope.Op("TestStep", {x}, {}, "stairs");
  EXPECT_THAT(ComputeGradients(graph, SumAll(scope, step), std::vector<Output>{x}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("TestStep 'stairs' (gradients_test.cc:"), HasSubstr("it is a staircase"))));
}

TEST(GradientsTest, OpWithoutGradientOffThePath_IsNoMatter) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{2});
  const Output c = scope.Op("TestStep", {scope.Const(Tensor::Of<float>(Shape{2}, {1.0f, 2.0f}))});
  EXPECT_OK(ComputeGradients(graph, SumAll(scope, scope.Op("Mul", {x, c})), std::vector<Output>{x}));
}

TEST(GradientsTest, GradientOfWrongShape_NamesTheNode) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{2});
  const Output y = scope.Op("TestWrongGradient", {x}, {}, "broken");
  EXPECT_THAT(
      ComputeGradients(graph, SumAll(scope, y), std::vector<Output>{x}),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("input 0 is float32[2], but its gradient is float32[7]")));
}

TEST(GradientsTest, LossThatIsNoScalar_IsRefused) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{2});
  EXPECT_THAT(ComputeGradients(graph, x, std::vector<Output>{x}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the loss 'x' must be a floating scalar, but is float32[2]; reduce it")));
}

TEST(GradientsTest, IntegerX_IsRefused) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{});
  const Output n = scope.Placeholder("n", DType::kInt32, Shape{});
  EXPECT_THAT(ComputeGradients(graph, x, std::vector<Output>{n}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'n' is int32 and has no gradient")));
}

// ApplyGradients: w = 1, gradient = 2, learning rate 0.5.
class ApplyGradientsTest : public ::testing::Test {
 protected:
  ApplyGradientsTest() : scope_(graph_) {
    w_ = Variable(scope_, "w", Shape{2}, Constant(1));
    handle_ = FindVariable(graph_, "w").value();
    gradient_ = scope_.Const(Tensor::Of<float>(Shape{2}, {2.0f, 2.0f}), "gradient");
  }
  // w after `steps` steps.
  std::vector<float> Train(const OptimizerSpec& optimizer, int steps) {
    const StatusOr<Node*> step = ApplyGradients(scope_, optimizer, std::vector<Output>{handle_}, {{gradient_}});
    EXPECT_OK(step);
    if (!step.ok()) return {};
    const auto session = Session::Create(graph_.Clone());
    EXPECT_OK(session);
    EXPECT_OK((*session)->Run({}, {}, {"init"}));
    for (int i = 0; i < steps; ++i) EXPECT_OK((*session)->Run({}, {}, {(*step)->name()}));
    return Values((*session)->GetVariable("w").value());
  }

  Graph graph_;
  Scope scope_;
  Output w_, handle_, gradient_;
};

TEST_F(ApplyGradientsTest, Sgd_MovesAgainstTheGradient) {
  EXPECT_THAT(Train({.learning_rate = 0.5}, 2), ElementsAre(-1.0f, -1.0f));
}

TEST_F(ApplyGradientsTest, Momentum_Accumulates) {
  // Accumulator 2, then 0.5 · 2 + 2 = 3; w = 1 - 0.5 · 2 - 0.5 · 3.
  EXPECT_THAT(Train({.kind = "momentum", .learning_rate = 0.5, .settings = {{"momentum", 0.5}}}, 2),
              ElementsAre(-1.5f, -1.5f));
}

TEST_F(ApplyGradientsTest, Nesterov_LooksAhead) {
  // First step moves by 2 + 0.5 · 2 = 3.
  EXPECT_THAT(Train({.kind = "momentum", .learning_rate = 0.5, .settings = {{"momentum", 0.5}, {"nesterov", true}}}, 1),
              ElementsAre(-0.5f, -0.5f));
}

TEST_F(ApplyGradientsTest, ZeroMomentum_IsSgd) {
  EXPECT_THAT(Train({.kind = "momentum", .learning_rate = 0.5, .settings = {{"momentum", 0.0}}}, 2),
              ElementsAre(-1.0f, -1.0f));
}

TEST_F(ApplyGradientsTest, SlotsAreNoVariablesOfTheModel) {
  ASSERT_OK(ApplyGradients(scope_, {.kind = "momentum"}, std::vector<Output>{handle_}, {{gradient_}}));
  ASSERT_OK_AND_ASSIGN(const auto variables, VariablesOf(graph_));
  ASSERT_EQ(variables.size(), 1u);
  EXPECT_EQ(variables[0].name, "w");
}

TEST_F(ApplyGradientsTest, FewerGradientsThanVariables_IsRefused) {
  EXPECT_THAT(ApplyGradients(scope_, {}, std::vector<Output>{handle_}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there are 1 variables, but 0 gradients")));
}

TEST_F(ApplyGradientsTest, ReadInsteadOfHandle_IsRefused) {
  EXPECT_THAT(ApplyGradients(scope_, {}, std::vector<Output>{w_}, {{gradient_}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("variable 0 is no VarHandleOp's output")));
}

TEST_F(ApplyGradientsTest, GradientOfAnotherShape_IsRefused) {
  const Output wrong = scope_.Const(Tensor::Of<float>(Shape{3}, {1.0f, 2.0f, 3.0f}));
  EXPECT_THAT(
      ApplyGradients(scope_, {}, std::vector<Output>{handle_}, {{wrong}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'w' is float32[2], but its gradient is float32[3]")));
}

TEST_F(ApplyGradientsTest, NegativeOrNanLearningRate_IsRefused) {
  for (double rate : {-0.1, std::nan("")})
    EXPECT_THAT(ApplyGradients(scope_, {.learning_rate = rate}, std::vector<Output>{handle_}, {{gradient_}}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("learning_rate must be")));
}

TEST_F(ApplyGradientsTest, MomentumOfOne_IsRefused) {
  EXPECT_THAT(
      ApplyGradients(scope_, {.kind = "momentum", .settings = {{"momentum", 1.0}}}, std::vector<Output>{handle_},
                     {{gradient_}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("momentum must be at least 0 and below 1, not 1")));
}

}  // namespace
}  // namespace rivulet
