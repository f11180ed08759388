#include "engine/variables/variable_scope.h"

#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/models/model_def.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Output Dense(const VariableScope& parent, Output x) {
  const VariableScope scope = parent.Enter("dense");
  return scope.ops().Op("MatMul", {x, scope.Get("kernel", {2, 2}, Constant(3))}, {}, "product");
}

TEST(VariableScopeTest, SecondUse_SharesVariablesAndNotNodeNames) {
  Graph graph;
  const Scope scope(graph);
  const VariableScope root(scope);
  const Output x = scope.Placeholder("x", DType::kFloat32, {1, 2});
  const Output first = Dense(root, x), second = Dense(root.Reusing(), first);
  ASSERT_OK(scope.status());
  EXPECT_EQ(first.node->name(), "dense/product");
  EXPECT_EQ(second.node->name(), "dense_1/product");
  EXPECT_EQ(VariablesOf(graph)->size(), 1u);

  // d (x W W) / dW counts both uses: with W = 3 everywhere and x = (1, 0), y = (18, 18), and the sum of y has the
  // gradient x^T (W 1)^T + (x W)^T 1^T.
  const Output sum = scope.Op("Sum", {second, scope.Const(Tensor::Of<int32_t>({2}, {0, 1}))}, {}, "sum");
  ASSERT_OK_AND_ASSIGN(const Output kernel, FindVariable(graph, "dense/kernel"));
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph, sum, std::vector{kernel}));
  const std::string gradient = gradients[0].name();
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  ASSERT_OK(session->Run({}, {}, {kInitTarget}));
  ASSERT_OK_AND_ASSIGN(const auto values, session->Run({{"x", Tensor::Of<float>({1, 2}, {1, 0})}}, {gradient}));
  EXPECT_THAT(values[0].flat<float>(), ElementsAre(9, 9, 3, 3));
}

TEST(VariableScopeTest, SecondUseWithoutReuse_IsRefused) {
  Graph graph;
  const Scope scope(graph);
  const VariableScope root(scope);
  const Output x = scope.Placeholder("x", DType::kFloat32, {1, 2});
  Dense(root, x);
  Dense(root, x);
  EXPECT_THAT(scope.status(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'dense/kernel'")));
}

TEST(VariableScopeTest, ReuseOfWhatIsNotThere_NamesTheNearest) {
  Graph graph;
  const Scope scope(graph);
  const VariableScope root(scope);
  Dense(root, scope.Placeholder("x", DType::kFloat32, {1, 2}));
  root.Enter("dense").Reusing().Get("kernels", {2, 2}, Zeros());
  EXPECT_THAT(scope.status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'dense/kernel'")));
}

TEST(VariableScopeTest, ReuseInAnotherShape_IsRefused) {
  Graph graph;
  const Scope scope(graph);
  const VariableScope root(scope, VariableScope::Sharing::kReuseOrCreate);
  root.Get("w", {2}, Zeros());
  root.Get("w", {2}, Zeros());
  ASSERT_OK(scope.status());
  root.Get("w", {3}, Zeros());
  EXPECT_THAT(scope.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2]")));
}

TEST(VariableScopeTest, NestedScopesAndSegments_NameAndPlaceVariables) {
  Graph graph;
  const Scope scope(graph);
  VariableScope(scope).Enter("block1").Enter("bn").WithSegment("shared").Get("mean", {4}, Zeros());
  ASSERT_OK_AND_ASSIGN(const auto variables, VariablesOf(graph));
  ASSERT_EQ(variables.size(), 1u);
  EXPECT_EQ(variables[0].name, "block1/bn/mean");
  EXPECT_EQ(variables[0].segment, "shared");
  VariableScope(scope).Enter("");
  EXPECT_THAT(scope.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs a name")));
}

}  // namespace
}  // namespace rivulet
