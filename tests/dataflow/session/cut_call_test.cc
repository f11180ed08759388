// Functions with a size that depends on values: sessions cut them, programs refuse them.
#include "dataflow/session/session.h"
#include "engine/compile/compile.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/function_builder.h"
#include "engine/graph/scope.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Outputs = std::vector<Output>;

class CutCalls : public ::testing::Test {
 protected:
  Output Integer(int32_t value, const Scope& scope) { return scope.Const(Tensor::Scalar(value)); }
  // The elements of x above `bound`.
  Output Above(const Scope& scope, Output x, Output bound) {
    const Output places = scope.Op("Squeeze", {scope.Op("Where", {scope.Op("Greater", {x, bound})})},
                                   {{"squeeze_dims", std::vector<int64_t>{1}}});
    return scope.Op("GatherV2", {x, places, Integer(0, scope)});
  }
  Output Sum(const Scope& scope, Output x) { return scope.Op("Sum", {x, scope.Const(Tensor::Of<int32_t>({1}, {0}))}); }
  StatusOr<std::vector<Tensor>> Run(const std::vector<float>& x, const std::vector<std::string>& fetches,
                                    const RunOptions& options = {}) {
    RIVULET_RETURN_IF_ERROR(scope_.status());
    if (session_ == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(session_, Session::Create(std::move(graph_)));
    }
    const Tensor fed = Tensor::Of<float>(Shape({static_cast<int64_t>(x.size())}), x);
    return session_->RunWith(options, {{"x", fed}}, fetches);
  }

  Graph graph_;
  Scope scope_{graph_};
  Output x_ = scope_.Placeholder("x", DType::kFloat32, {-1});
  Output zero_ = scope_.Const(0.0f);
  std::unique_ptr<Session> session_;
};

TEST_F(CutCalls, Branches_GiveTheSizeThatCame) {
  const Output large = scope_.Op("Greater", {Sum(scope_, x_), scope_.Const(10.0f)});
  const Outputs y = Cond(
      scope_, large, [&](const Scope& s) { return Outputs{Above(s, x_, zero_)}; },
      [&](const Scope& s) { return Outputs{s.Op("Identity", {x_})}; });
  scope_.Op("Mul", {y[0], scope_.Const(2.0f)}, {}, "y");
  ASSERT_OK_AND_ASSIGN(auto values, Run({-1, 20, 3}, {"y"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(40, 6));
  ASSERT_OK_AND_ASSIGN(values, Run({-1, 2}, {"y"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(-2, 4));
}

TEST_F(CutCalls, CallsWithinCalls_AreCutAtEveryDepth) {
  const TensorSpec vector{DType::kFloat32, Shape{-1}};
  const CapturingFunction inner = MakeFunction(scope_, "inner", std::span(&vector, 1), [&](const Scope& s, auto v) {
    Node* unique = s.AddNode("Unique", {v[0]});
    return Outputs{unique->output(0), s.Op("Identity", {v[0]})};
  });
  const CapturingFunction outer = MakeFunction(scope_, "outer", std::span(&vector, 1), [&](const Scope& s, auto v) {
    const Outputs made = Call(s, inner, {v[0]});
    return Outputs{s.Op("Neg", {made[0]}), v[0]};
  });
  const Outputs y = Call(scope_, outer, {x_});
  scope_.Op("Identity", {y[0]}, {}, "y");
  scope_.Op("Identity", {y[1]}, {}, "same");
  ASSERT_OK_AND_ASSIGN(const auto values, Run({3, 1, 3}, {"y", "same"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(-3, -1));
  EXPECT_THAT(Values<float>(values[1]), ElementsAre(3, 1, 3));
}

// x loses 1 in every turn, and what is not above 0 then.
TEST_F(CutCalls, Loops_ChangeTheSizeInEveryTurn) {
  const Output one = scope_.Const(1.0f);
  const Outputs end = WhileLoop(
      scope_,
      [&](const Scope& s, auto v) {
        return s.Op("Greater", {Sum(s, v[1]), s.Const(0.0f)});
      },
      [&](const Scope& s, auto v) {
        return Outputs{s.Op("AddV2", {v[0], Integer(1, s)}), Above(s, s.Op("Sub", {v[1], one}), zero_)};
      },
      {Integer(0, scope_), x_}, "While", {Shape{}, Shape{-1}});
  scope_.Op("Identity", {end[0]}, {}, "turns");
  scope_.Op("Identity", {end[1]}, {}, "left");
  ASSERT_OK_AND_ASSIGN(const auto values, Run({3, 1, 5, -4}, {"turns", "left"}));
  EXPECT_THAT(Values<int32_t>(values[0]), ElementsAre(5));
  EXPECT_EQ(values[1].shape(), (Shape{0}));
  RunOptions options;
  options.max_loop_steps = 3;
  EXPECT_THAT(Run({30}, {"turns"}, options),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("after 3 iterations")));
}

TEST_F(CutCalls, GradientOfABranch_GoesThroughTheMask) {
  const Output large = scope_.Op("Greater", {Sum(scope_, x_), zero_});
  const Outputs y = Cond(
      scope_, large, [&](const Scope& s) { return Outputs{Sum(s, s.Op("Square", {Above(s, x_, zero_)}))}; },
      [&](const Scope& s) { return Outputs{Sum(s, x_)}; });
  ASSERT_OK(scope_.status());
  ASSERT_OK_AND_ASSIGN(const Outputs gradients, ComputeGradients(graph_, y[0], Outputs{x_}));
  const std::string name = gradients[0].name();
  ASSERT_OK_AND_ASSIGN(auto values, Run({1, -2, 3}, {name}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(2, 0, 6));
  ASSERT_OK_AND_ASSIGN(values, Run({1, -2}, {name}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(1, 1));
}

TEST_F(CutCalls, Variables_AreReadAndChangedWhereTheyAre) {
  const Output v = scope_.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{}}}, "v");
  scope_.AddNode("AssignVariableOp", {v, scope_.Const(1.5f)}, {}, "init");
  const CapturingFunction count = MakeFunction(scope_, "count", {}, [&](const Scope& s, auto) {
    const Output bound = s.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat32}});
    const Output chosen = Above(s, x_, bound);
    Node* added = s.AddNode("AssignAddVariableOp", {v, Sum(s, chosen)});
    return Outputs{s.WithControl({added}).Op("Identity", {chosen})};
  });
  scope_.Op("Identity", {Call(scope_, count, {})[0]}, {}, "y");
  ASSERT_OK(scope_.status());
  ASSERT_OK_AND_ASSIGN(session_, Session::Create(std::move(graph_)));
  ASSERT_OK(session_->Run({}, {}, {"init"}).status());
  ASSERT_OK_AND_ASSIGN(auto values, Run({1, 2, 3}, {"y"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(2, 3));
  EXPECT_THAT(Values<float>(session_->GetVariable("v").value()), ElementsAre(6.5f));
  ASSERT_OK_AND_ASSIGN(values, Run({1, 2, 7}, {"y"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(7));
}

TEST_F(CutCalls, ErrorWithin_NamesItsNode) {
  const TensorSpec vector{DType::kFloat32, Shape{-1}};
  const CapturingFunction wrong = MakeFunction(scope_, "wrong", std::span(&vector, 1), [&](const Scope& s, auto v) {
    const Output to = s.Op("Cast", {v[0]}, {{"DstT", DType::kInt32}});
    return Outputs{s.AddNode("DynamicPartition", {v[0], to}, {{"num_partitions", int64_t{2}}}, "sent")->output(1)};
  });
  scope_.Op("Identity", {Call(scope_, wrong, {x_}, "caller")[0]}, {}, "y");
  const auto refused = Run({0, 5}, {"y"});
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("partitions[1] is 5")));
  EXPECT_THAT(refused.status().ToString(), HasSubstr("caller"));
}

TEST_F(CutCalls, Programs_RefuseThemByName) {
  const CapturingFunction masked =
      MakeFunction(scope_, "masked", {}, [&](const Scope& s, auto) { return Outputs{Above(s, x_, zero_)}; });
  scope_.Op("Identity", {Call(scope_, masked, {})[0]}, {}, "y");
  ASSERT_OK(scope_.status());
  Signature signature;
  signature.feeds.push_back({"x", {DType::kFloat32, Shape{2}}});
  signature.fetches = {"y"};
  const std::string refusal = CompileProgram(graph_, signature, {}).status().ToString();
  EXPECT_THAT(refusal, HasSubstr("Where '"));
  EXPECT_THAT(refusal, HasSubstr("a session can run the graph, and training cannot"));
}

}  // namespace
}  // namespace rivulet
