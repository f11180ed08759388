// Stacks of lists whose length depends on values: sessions cut a run at them, programs refuse them.
#include "dataflow/session/session.h"
#include "engine/compile/compile.h"
#include "engine/graph/function_builder.h"
#include "engine/graph/scope.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Outputs = std::vector<Output>;

// A list of rows of two floats, which "stack" makes a tensor of.
class GrowingLists : public ::testing::Test {
 protected:
  Output Integer(int32_t value, const Scope& scope) { return scope.Const(Tensor::Scalar(value)); }
  Output Row(const Scope& scope) { return scope.Const(Tensor::Of<int32_t>({1}, {2})); }
  Output Empty(const Scope& scope) { return scope.Op("TensorListReserve", {Row(scope), Integer(0, scope)}, floats_); }
  Output Put(const Scope& scope, Output list, Output at, Output row) {
    return scope.Op("TensorListSetItem", {list, at, row},
                    {{"element_dtype", DType::kFloat32}, {"resize_if_index_out_of_bounds", true}});
  }
  Output Stack(const Scope& scope, Output list) {
    return scope.Op("TensorListStack", {list, Row(scope)}, floats_, "stack");
  }
  void SumRows(Output stack) { scope_.Op("Sum", {stack, Integer(0, scope_)}, {}, "sum"); }
  // Row number i is x times i, as many as the count; times a random number, if `draws`.
  Output Loop(const Scope& scope, Output count, Output x, bool draws = false) {
    const Outputs end = WhileLoop(
        scope,
        [&](const Scope& s, auto v) {
          return s.Op("Less", {v[0], count});
        },
        [&](const Scope& s, auto v) {
          Output row = s.Op("Mul", {x, s.Op("Cast", {v[0]}, {{"DstT", DType::kFloat32}})});
          if (draws) row = s.Op("Mul", {row, s.Op("RandomUniform", {Row(s)}, {{"dtype", DType::kFloat32}})});
          return Outputs{s.Op("AddV2", {v[0], Integer(1, s)}), Put(s, v[1], v[0], row)};
        },
        {Integer(0, scope), Empty(scope)});
    return Stack(scope, end[1]);
  }
  StatusOr<std::vector<Tensor>> Run(int32_t count, const std::vector<std::string>& fetches) {
    RIVULET_RETURN_IF_ERROR(scope_.status());
    if (session_ == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(session_, Session::Create(std::move(graph_)));
    }
    return session_->Run({{"count", Tensor::Scalar(count)}, {"x", Tensor::Of<float>({2}, {1, 10})}}, fetches);
  }

  const AttrMap floats_ = {{"element_dtype", DType::kFloat32}};
  Graph graph_;
  Scope scope_{graph_};
  Output count_ = scope_.Placeholder("count", DType::kInt32, {});
  Output x_ = scope_.Placeholder("x", DType::kFloat32, {2});
  std::unique_ptr<Session> session_;
};

TEST_F(GrowingLists, ListOfALoop_IsStackedWithTheLengthThatCame) {
  SumRows(Loop(scope_, count_, x_));
  ASSERT_OK_AND_ASSIGN(auto values, Run(3, {"stack", "sum"}));
  EXPECT_EQ(values[0].shape(), Shape({3, 2}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(0, 0, 1, 10, 2, 20));
  EXPECT_THAT(Values<float>(values[1]), ElementsAre(3, 30));
  ASSERT_OK_AND_ASSIGN(values, Run(1, {"stack"}));
  EXPECT_EQ(values[0].shape(), Shape({1, 2}));
  ASSERT_OK_AND_ASSIGN(values, Run(0, {"stack", "sum"}));
  EXPECT_EQ(values[0].shape(), Shape({0, 2}));
  EXPECT_THAT(Values<float>(values[1]), ElementsAre(0, 0));
}

TEST_F(GrowingLists, ListWithoutALoop_HasRowsUpToTheLargestIndex) {
  SumRows(Stack(scope_, Put(scope_, Put(scope_, Empty(scope_), count_, x_), Integer(0, scope_), x_)));
  ASSERT_OK_AND_ASSIGN(const auto values, Run(2, {"stack", "sum"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(1, 10, 0, 0, 1, 10));
  EXPECT_THAT(Values<float>(values[1]), ElementsAre(2, 20));
}

TEST_F(GrowingLists, FunctionThatStacksOne_IsCut) {
  const TensorSpec arguments[] = {{DType::kInt32, Shape{}}, {DType::kFloat32, Shape{2}}};
  const CapturingFunction rows =
      MakeFunction(scope_, "rows", arguments, [&](const Scope& s, auto v) { return Outputs{Loop(s, v[0], v[1])}; });
  SumRows(Call(scope_, rows, {count_, x_})[0]);
  ASSERT_OK_AND_ASSIGN(const auto values, Run(3, {"sum"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(3, 30));
}

// The list is made a second time behind the cut, which would draw other numbers than before it.
TEST_F(GrowingLists, LoopThatDraws_IsRefusedByName) {
  Loop(scope_, count_, x_, /*draws=*/true);
  EXPECT_THAT(Run(3, {"stack"}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("takes the list 'While:1'"), HasSubstr("cannot run again there"))));
}

TEST_F(GrowingLists, Programs_RefuseThemByName) {
  SumRows(Loop(scope_, count_, x_));
  ASSERT_OK(scope_.status());
  Signature signature;
  signature.feeds = {{"count", {DType::kInt32, Shape{}}}, {"x", {DType::kFloat32, Shape{2}}}};
  signature.fetches = {"sum"};
  EXPECT_THAT(CompileProgram(graph_, signature).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("TensorListStack 'stack'"),
                             HasSubstr("a session can run the graph, and training cannot"))));
}

}  // namespace
}  // namespace rivulet
