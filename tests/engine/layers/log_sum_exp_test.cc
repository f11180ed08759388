#include "engine/layers/log_sum_exp.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/gradient_check.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

TEST(LogSumExp, LargeAndInfiniteValues_DoNotOverflow) {
  const double inf = std::numeric_limits<double>::infinity();
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat64, {4, 2});
  const Output y = LogSumExp(scope, x, {1});
  ASSERT_OK(scope.status());
  const auto values = testing::RunGraph(
      graph, {{"x", Tensor::Of<double>({4, 2}, {1000, 1000, -inf, 2, -inf, -inf, inf, 1})}}, {y.name()});
  ASSERT_OK(values);
  const auto result = values->front().flat<double>();
  EXPECT_NEAR(result[0], 1000 + std::log(2.0), 1e-12);
  EXPECT_NEAR(result[1], 2, 1e-15);
  EXPECT_EQ(result[2], -inf);
  EXPECT_EQ(result[3], inf);
}

TEST(LogSumExp, Gradient_EqualsFiniteDifference) {
  for (const std::vector<int32_t>& axes : {std::vector<int32_t>{1}, {0, -1}, {}})
    for (bool keep : {false, true}) {
      const Status status = testing::CheckGradients(
          {testing::RandomTensor({2, 3, 2}, 4)},
          [&](const Scope& s, const std::vector<Output>& x) { return std::vector{LogSumExp(s, x[0], axes, keep)}; });
      EXPECT_OK(status);
    }
}

}  // namespace
}  // namespace rivulet
