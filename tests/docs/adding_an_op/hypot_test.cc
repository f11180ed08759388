#include <gmock/gmock.h>

#include "tests/testing/gradient_check.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Floats(Shape shape, std::vector<float> values) {
  return Tensor::Of<float>(std::move(shape), std::span<const float>(values));
}

TEST(Hypot, SidesOfTriangles_GiveTheThirdEvenWhereSquaresOverflow) {
  Graph graph;
  Scope scope(graph);
  const Output z = scope.Op("Hypot", {scope.Const(Floats({2, 2}, {3, 5, 0, 3e30f})),  //
                                      scope.Const(Floats({2, 1}, {4, 0}))});
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const auto values, testing::RunGraph(graph, {}, {z.name()}));
  EXPECT_THAT(values[0].flat<float>(), ElementsAre(5, std::sqrt(41.0f), 0, 3e30f));
}

TEST(Hypot, Gradient_IsTheFiniteDifference) {
  const auto hypot = [](const Scope& s, const std::vector<Output>& x) { return std::vector{s.Op("Hypot", x)}; };
  EXPECT_OK(testing::CheckGradients({testing::DistinctTensor({2, 3}, 1), testing::DistinctTensor({3}, 2)}, hypot));
}

TEST(Hypot, ShapesThatDoNotBroadcast_AreRefused) {
  Graph graph;
  Scope scope(graph);
  scope.Op("Hypot", {scope.Const(Floats({2}, {3, 5})), scope.Const(Floats({3}, {1, 2, 3}))}, {}, "third_side");
  EXPECT_THAT(scope.status(), testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("third_side")));
}

}  // namespace
}  // namespace rivulet
