// Memory budgets: the recomputed values, unchanged bits, and the error of a program that cannot fit.
#include <gmock/gmock.h>

#include <cstring>

#include "engine/gradients/gradients.h"
#include "tests/engine/passes/optimized.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Tanh after Exp after …: each value is kept for its gradient.
struct DeepModel : Build {
  Feeds feeds;
  explicit DeepModel(int depth = 12) {
    const Output x = Feed("x", {64, 64});
    Tensor values(DType::kFloat32, {64, 64});
    for (int64_t i = 0; float& v : values.flat<float>()) v = static_cast<float>(i++ * 37 % 101) * 0.01f - 0.5f;
    feeds = {{"x", values}};
    Output y = x;
    for (int i = 0; i < depth; ++i) {
      y = scope.Op("Tanh", {scope.Op("Mul", {y, scope.Op("Exp", {y})})});
      // A view in the chain.
      if (i == depth / 2) y = scope.Op("Reshape", {y, scope.Const(Tensor::Of<int32_t>({2}, {32, 128}))});
    }
    const Output loss = scope.Op("Sum", {y, scope.Const(Tensor::Of<int32_t>({2}, {0, 1}))}, {}, "loss");
    EXPECT_OK(scope.status());
    const auto gradients = ComputeGradients(graph, loss, std::vector{x});
    EXPECT_OK(gradients);
    Fetch(loss);
    Fetch((*gradients)[0]);
  }
  StatusOr<CompiledGraph> Compiled(size_t budget) const {
    CompileOptions options;
    options.passes.memory_budget_bytes = budget;
    return CompiledGraph::Compile(graph, feeds, signature.fetches, options);
  }
};

TEST(Recompute, UnderABudget_ThePeakFitsWithTheSameBits) {
  const DeepModel model;
  ASSERT_OK_AND_ASSIGN(auto whole, model.Compiled(0));
  ASSERT_OK_AND_ASSIGN(const auto expected, whole.Run(model.feeds));
  const size_t peak = whole.program().memory().arena_bytes, calls = whole.program().instructions().size();
  for (const size_t percent : {90, 70, 50}) {
    const size_t budget = peak * percent / 100;
    ASSERT_OK_AND_ASSIGN(auto small, model.Compiled(budget));
    EXPECT_LE(small.program().memory().arena_bytes, budget);
    EXPECT_GT(small.program().instructions().size(), calls);
    ASSERT_OK_AND_ASSIGN(const auto actual, small.Run(model.feeds));
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(std::memcmp(expected[i].data(), actual[i].data(), expected[i].bytes()), 0) << percent << " %: " << i;
  }
}

TEST(Recompute, BudgetThatIsLargeEnough_ChangesNothing) {
  const DeepModel model;
  ASSERT_OK_AND_ASSIGN(auto whole, model.Compiled(0));
  ASSERT_OK_AND_ASSIGN(auto same, model.Compiled(whole.program().memory().arena_bytes));
  EXPECT_EQ(same.program().instructions().size(), whole.program().instructions().size());
}

TEST(Recompute, BudgetThatCannotBeMet_IsASentenceWithPeakAndBudget) {
  const DeepModel model;
  const auto refused = model.Compiled(1000);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                AllOf(HasSubstr("bytes of memory at its peak"), HasSubstr("the budget is 1000"),
                                      HasSubstr("lower the batch size"))));
}

TEST(Recompute, LeftOut_RefusesWhatDoesNotFit) {
  const DeepModel model;
  ASSERT_OK_AND_ASSIGN(auto whole, model.Compiled(0));
  CompileOptions options;
  options.passes.memory_budget_bytes = whole.program().memory().arena_bytes - 1;
  options.passes.without = {"recompute"};
  EXPECT_THAT(CompiledGraph::Compile(model.graph, model.feeds, model.signature.fetches, options),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(Recompute, RandomNumbers_AreDrawnOnce) {
  Build b;
  const Output x = b.Feed("x", {64, 64});
  const Output noise = b.scope.Op("RandomUniform", {b.scope.Const(Tensor::Of<int32_t>({2}, {64, 64}))},
                                  {{"dtype", DType::kFloat32}}, "noise");
  Output y = b.scope.Op("Mul", {x, noise});
  for (int i = 0; i < 4; ++i) y = b.scope.Op("Mul", {b.scope.Op("Tanh", {y}), y});
  b.Fetch(b.scope.Op("Mul", {y, noise}));
  CompileOptions options;
  options.passes.memory_budget_bytes = 1;
  EXPECT_EQ(Count(b.Optimized(options), "RandomUniform"), 1);
}

}  // namespace
}  // namespace rivulet::testing
