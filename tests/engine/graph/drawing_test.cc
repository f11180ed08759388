#include "engine/graph/drawing.h"

#include <gmock/gmock.h>

#include "engine/graph/scope.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph Small() {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{-1, 3});
  const Output y = scope.Op("MatMul", {x, scope.Const(Tensor(DType::kFloat32, {3, 2000}), "weights")}, {}, "y");
  scope.WithControl({x.node}).Op("Relu", {y}, {}, "z");
  EXPECT_OK(scope.status());
  return graph;
}

TEST(Drawing, Dot_HasANodePerOpAndAnEdgePerInput) {
  const std::string dot = ToDot(Small());
  EXPECT_THAT(dot, HasSubstr("n0 [label=\"Placeholder\\nx\\nfloat32[?,3]\", style=rounded];"));
  EXPECT_THAT(dot, HasSubstr("n2 [label=\"MatMul\\ny\\nfloat32[?,2000]\"];"));
  EXPECT_THAT(dot, HasSubstr("n0 -> n2;"));
  EXPECT_THAT(dot, HasSubstr("n0 -> n3 [style=dashed];"));
}

TEST(Drawing, WithOutputShapes_SaysThemAndLeavesLargeValuesOut) {
  ASSERT_OK_AND_ASSIGN(const Graph drawn, WithOutputShapes(Small()));
  EXPECT_THAT(drawn.Find("y")->attr<std::vector<Shape>>("_output_shapes"), ElementsAre(Shape({-1, 2000})));
  EXPECT_EQ(drawn.Find("weights")->type(), "Placeholder");
  EXPECT_EQ(drawn.Find("weights")->outputs()[0].shape, Shape({3, 2000}));
}

}  // namespace
}  // namespace rivulet::testing
