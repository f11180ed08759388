// The output of Print, and the error of an Assert that ends a run.
#include <gmock/gmock.h>

#include "engine/graph/scope.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

// Runs `fetch` of a graph with one Print of placeholder "x" `times` times; returns what went to standard error.
std::string Written(const Tensor& x, AttrMap attrs, int times) {
  Graph graph;
  const Scope scope(graph);
  const Output in = scope.Placeholder("x", x.dtype(), x.shape());
  const Output out = scope.Op("Print", {in, in, scope.Const(Tensor::Of<bool>({1}, {true}))}, std::move(attrs));
  EXPECT_OK(scope.status());
  auto compiled = testing::CompiledGraph::Compile(graph, {{"x", x}}, {out.name()});
  EXPECT_OK(compiled);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < times; ++i) {
    const auto values = compiled->Run({{"x", x}});
    EXPECT_OK(values);
    EXPECT_EQ(std::memcmp((*values)[0].data(), x.data(), x.bytes()), 0);
  }
  return ::testing::internal::GetCapturedStderr();
}

TEST(Print, FewAndManyElements_AreSummarised) {
  const Tensor x = Tensor::Of<float>({2, 2}, {1.5f, -2, 3, 4});
  EXPECT_EQ(Written(x, {{"message", std::string("x = ")}}, 1), "x = [1.5 -2 3...][1]\n");
  EXPECT_EQ(Written(x, {{"summarize", int64_t{-1}}}, 1), "[1.5 -2 3 4][1]\n");
  EXPECT_EQ(Written(x, {{"summarize", int64_t{0}}}, 1), "[...][...]\n");
}

TEST(Print, EveryType_IsWritten) {
  EXPECT_EQ(Written(Tensor::Of<int8_t>({2}, {-128, 127}), {}, 1), "[-128 127][1]\n");
  EXPECT_EQ(Written(Tensor::Of<uint64_t>({1}, {18446744073709551615u}), {}, 1), "[18446744073709551615][1]\n");
  EXPECT_EQ(Written(Tensor::Of<double>({1}, {0.1}), {}, 1), "[0.1][1]\n");
}

TEST(Print, FirstN_StopsAfterThat) {
  EXPECT_EQ(Written(Tensor::Of<int32_t>({1}, {7}), {{"first_n", int64_t{2}}}, 5), "[7][1]\n[7][1]\n");
  EXPECT_EQ(Written(Tensor::Of<int32_t>({1}, {7}), {{"first_n", int64_t{0}}}, 2), "");
}

TEST(Print, ControlCharactersInTheMessage_DoNotReachTheTerminal) {
  EXPECT_EQ(Written(Tensor::Of<int32_t>({1}, {7}), {{"message", std::string("a\x1b[2J\n")}}, 1), "a [2J [7][1]\n");
}

// A graph whose output y = 2 x waits for an Assert that all of x is below 10.
StatusOr<std::vector<Tensor>> Guarded(const Tensor& x) {
  Graph graph;
  const Scope scope(graph);
  const Output in = scope.Placeholder("x", x.dtype(), x.shape());
  const Output below = scope.Op("Less", {in, scope.Const(10.0f)});
  const Output all = scope.Op("All", {below, scope.Const(Tensor::Of<int32_t>({1}, {0}))});
  Node* guard = scope.AddNode("Assert", {all, in, scope.Const(Tensor::Of<int64_t>({}, {10}))}, {}, "x_is_small");
  RIVULET_RETURN_IF_ERROR(scope.status());
  const Output y = scope.WithControl({guard}).Op("AddV2", {in, in});
  return testing::RunGraph(graph, {{"x", x}}, {y.name()});
}

TEST(Assert, TrueCondition_Passes) {
  const auto values = Guarded(Tensor::Of<float>({2}, {1, 9}));
  ASSERT_OK(values);
  EXPECT_EQ((*values)[0].flat<float>()[1], 18);
}

TEST(Assert, FalseCondition_EndsTheRunNamingNodeAndValues) {
  const Status status = Guarded(Tensor::Of<float>({4}, {1, 90, 3, 4})).status();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::AllOf(HasSubstr("x_is_small"), HasSubstr("the assertion failed: [1 90 3...] [10]"))));
}

TEST(Assert, ConditionThatIsNoScalar_IsRefused) {
  Graph graph;
  const Scope scope(graph);
  scope.AddNode("Assert", {scope.Const(Tensor::Of<bool>({2}, {true, true}))});
  EXPECT_THAT(scope.status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace rivulet
