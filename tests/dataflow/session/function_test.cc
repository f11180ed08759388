// Functions in sessions: their effects on variables, their random draws, and the end of loops.
#include "dataflow/session/session.h"
#include "engine/graph/function_builder.h"
#include "engine/graph/scope.h"
#include "engine/variables/variables.h"
#include "tests/dataflow/session/gates.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::OpenGate;
using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionFunctionTest : public ::testing::Test {
 protected:
  Output Scalar(float value, const std::string& name) { return scope_.Const(Tensor::Scalar(value), name); }
  // A handle, without an initialiser.
  Output Handle(const std::string& name) {
    return scope_.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{}}}, name);
  }
  // A target that assigns `value` to `handle` where `predicate` holds, and `otherwise` (or nothing).
  void AssignIf(const std::string& name, Output predicate, Output handle, bool otherwise) {
    const Output one = Scalar(1, name + "/one"), two = Scalar(2, name + "/two");
    const auto assign = [&](const Scope& body, Output value) {
      Node* assigned = body.AddNode("AssignVariableOp", {handle, value});
      return std::vector{body.WithControl({assigned}).Op("Identity", {value})};
    };
    const auto chosen = Cond(
        scope_, predicate, [&](const Scope& body) { return assign(body, one); },
        [&](const Scope& body) { return otherwise ? assign(body, two) : std::vector{body.Op("Identity", {two})}; },
        name);
    scope_.Op("Identity", {chosen[0]}, {}, name + "/value");
  }
  void Make(const SessionConfig& config = {}) {
    ASSERT_OK(scope_.status());
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(std::move(graph_), config));
  }
  Graph graph_;
  Scope scope_{graph_};
  std::unique_ptr<Session> session_;
};

TEST_F(SessionFunctionTest, BothBranchesAssign_TheVariableHasAValue_OneIsNotEnough) {
  const Output yes = scope_.Placeholder("yes", DType::kBool, Shape{});
  const Output both = Handle("both"), perhaps = Handle("perhaps");
  AssignIf("a", yes, both, true);
  AssignIf("b", yes, perhaps, false);
  Make();
  const Session::Feeds no = {{"yes", Tensor::Scalar(false)}};
  ASSERT_OK(session_->Run(no, {"a/value"}));
  EXPECT_THAT(Values(session_->GetVariable("both").value()), ElementsAre(2.0f));
  ASSERT_OK(session_->Run(no, {"b/value"}));
  EXPECT_THAT(session_->GetVariable("perhaps"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no value")));
}

TEST_F(SessionFunctionTest, ReadInALoopBeforeAValue_NamesTheVariable) {
  const Output handle = Handle("w");
  const Output limit = Scalar(3, "limit");
  const auto loop = WhileLoop(
      scope_,
      [&](const Scope& body, auto v) {
        return body.Op("Less", {v[0], limit});
      },
      [&](const Scope& body, auto v) {
        return std::vector{body.Op("AddV2", {v[0], body.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}})})};
      },
      {Scalar(0, "zero")});
  scope_.Op("Identity", {loop[0]}, {}, "end");
  Make();
  EXPECT_THAT(session_->Run({}, {"end"}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'w' is read")));
  ASSERT_OK(session_->SetVariable("w", Tensor::Scalar(2.0f)));
  ASSERT_OK_AND_ASSIGN(const auto values, session_->Run({}, {"end"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(4.0f));
}

TEST_F(SessionFunctionTest, EndlessLoop_EndsWithItsTimeOrItsSteps) {
  const Output zero = Scalar(0, "zero");
  const auto loop = WhileLoop(
      scope_,
      [&](const Scope& body, auto v) {
        return body.Op("GreaterEqual", {v[0], zero});
      },
      [&](const Scope& body, auto v) { return std::vector{body.Op("Square", {v[0]})}; }, {Scalar(1, "one")}, "endless");
  scope_.Op("Identity", {loop[0]}, {}, "end");
  Make();
  RunOptions options;
  options.timeout = std::chrono::milliseconds(5);
  EXPECT_THAT(session_->RunWith(options, {}, {"end"}), StatusIs(absl::StatusCode::kDeadlineExceeded));
  options.timeout = std::chrono::milliseconds(0);
  options.max_loop_steps = 100;
  EXPECT_THAT(session_->RunWith(options, {}, {"end"}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("endless")));
}

// What a call draws goes by where the call stands in the whole graph, also when the run is cut.
TEST_F(SessionFunctionTest, CallsThatDraw_DrawTheSameInACutRun) {
  const auto build = [](const Scope& scope, bool gated) {
    const Output shape = scope.Const(Tensor::Of<int32_t>(Shape{1}, {4}));
    const auto draw = [&](const std::string& name) {
      const CapturingFunction function = MakeFunction(scope, name, {}, [&](const Scope& body, auto) {
        return std::vector{body.Op("RandomUniform", {shape}, {{"dtype", DType::kFloat32}})};
      });
      return scope.Op("Identity", {Call(scope, function, {}, name + "/call")[0]}, {}, name + "/value");
    };
    const Output first = draw("first");
    const Output between = gated ? scope.Op("TestOpen", {first}, {{"gate", std::string("calls")}}, "between")
                                 : scope.Op("Identity", {first}, {}, "between");
    scope.Op("AddV2", {between, draw("second")}, {}, "sum");
    return scope.status();
  };
  Graph plain;
  ASSERT_OK(build(Scope(plain), false));
  ASSERT_OK(build(scope_, true));
  ASSERT_OK_AND_ASSIGN(const auto whole, Session::Create(std::move(plain), {.seed = 3}));
  Make({.seed = 3});
  ASSERT_OK_AND_ASSIGN(const auto expected, whole->Run({}, {"sum", "second/value"}));
  ASSERT_OK_AND_ASSIGN(const auto values, session_->Run({}, {"sum", "second/value"}));
  EXPECT_EQ(Values(values[0]), Values(expected[0]));
  EXPECT_EQ(Values(values[1]), Values(expected[1]));
}

TEST_F(SessionFunctionTest, Extend_BringsItsFunctions) {
  Make();
  Graph more;
  const Scope scope(more);
  const Output two = scope.Const(Tensor::Scalar(2.0f), "two");
  const CapturingFunction square =
      MakeFunction(scope, "square", std::vector<TensorSpec>{{DType::kFloat32, Shape{}}},
                   [&](const Scope& body, auto arguments) { return std::vector{body.Op("Square", {arguments[0]})}; });
  scope.Op("Identity", {Call(scope, square, {two})[0]}, {}, "four");
  ASSERT_OK(scope.status());
  ASSERT_OK(session_->Extend(more));
  ASSERT_OK_AND_ASSIGN(const auto values, session_->Run({}, {"four"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(4.0f));
}

TEST_F(SessionFunctionTest, AsynchronousOpInAFunction_IsRefusedByName) {
  const Output one = Scalar(1, "one");
  const CapturingFunction waits = MakeFunction(scope_, "waits", {}, [&](const Scope& body, auto) {
    return std::vector{body.Op("TestGate", {one}, {{"gate", std::string("inside")}}, "gate")};
  });
  scope_.Op("Identity", {Call(scope_, waits, {})[0]}, {}, "value");
  Make();
  EXPECT_THAT(session_->Run({}, {"value"}), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("TestGate")));
}

}  // namespace
}  // namespace rivulet
