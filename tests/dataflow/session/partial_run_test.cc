// A run in pieces: each node once, as soon as it can.
#include <thread>

#include "dataflow/session/session.h"
#include "engine/graph/scope.h"
#include "engine/variables/variables.h"
#include "tests/dataflow/session/gates.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::AwaitGate;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

// a → double; double + b → sum; `count` grows by one whenever `double` is computed.
class PartialRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Graph graph;
    const Scope scope(graph);
    const Output a = scope.Placeholder("a", DType::kFloat32, Shape{});
    const Output b = scope.Placeholder("b", DType::kFloat32, Shape{});
    const Output count = Variable(scope, "count", Shape{}, Constant(0));
    const Output doubled = scope.Op("AddV2", {a, a}, {}, "double");
    const Output one = scope.Const(Tensor::Scalar(1.0f), "one");
    const Scope after = scope.WithControl({doubled.node});
    after.AddNode("AssignAddVariableOp", {count.node->input(0), one}, {}, "grow");
    scope.Op("AddV2", {doubled, b}, {}, "sum");
    const Output draw = scope.Op("RandomUniform", {scope.Const(Tensor::Of<int32_t>(Shape{0}, {}))},
                                 {{"dtype", DType::kFloat32}}, "draw");
    scope.Op("Mul", {draw, b}, {}, "drawn");
    scope.Op("TestGate", {b}, {{"gate", std::string("partial")}}, "gate");
    ASSERT_OK(scope.status());
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(std::move(graph)));
    ASSERT_OK(session_->Run({}, {}, {"init"}));
  }
  static std::pair<std::string, Tensor> Feed(const std::string& name, float value) {
    return {name, Tensor::Scalar(value)};
  }
  static float Value(const StatusOr<std::vector<Tensor>>& values, size_t i = 0) {
    EXPECT_OK(values);
    return values.ok() ? (*values)[i].flat<float>()[0] : -1;
  }
  std::unique_ptr<Session> session_;
};

TEST_F(PartialRunTest, FeedsAndFetchesComeInPieces_NodesRunOnce) {
  ASSERT_OK_AND_ASSIGN(const auto run, session_->SetUpPartialRun({"a", "b"}, {"double", "sum"}, {"grow"}));
  EXPECT_EQ(Value(run->Run({Feed("a", 3)}, {"double:0"})), 6.0f);
  EXPECT_FALSE(run->done());
  EXPECT_EQ(Value(run->Run({Feed("b", 10)}, {"sum"})), 16.0f);
  EXPECT_TRUE(run->done());
  EXPECT_EQ(session_->GetVariable("count")->flat<float>()[0], 1.0f);
}

TEST_F(PartialRunTest, WhatWasDrawnOnce_IsDrawnOnce) {
  ASSERT_OK_AND_ASSIGN(const auto run, session_->SetUpPartialRun({"b"}, {"draw", "drawn"}));
  const float draw = Value(run->Run({}, {"draw"}));
  EXPECT_EQ(Value(run->Run({Feed("b", 2)}, {"drawn"})), 2 * draw);
}

TEST_F(PartialRunTest, MisuseIsRefusedByName_AndTheRunGoesOn) {
  ASSERT_OK_AND_ASSIGN(const auto run, session_->SetUpPartialRun({"a", "b"}, {"double", "sum"}));
  EXPECT_THAT(run->Run({}, {"sum"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'sum' needs 'a'")));
  EXPECT_THAT(run->Run({Feed("c", 1)}, {}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'c' was not")));
  EXPECT_THAT(run->Run({}, {"drawn"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'drawn' was not")));
  EXPECT_THAT(run->Run({{"a", Tensor(DType::kFloat32, Shape{2})}}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is fed float32[2]")));
  EXPECT_EQ(Value(run->Run({Feed("a", 1)}, {"double"})), 2.0f);
  EXPECT_THAT(run->Run({Feed("a", 1)}, {}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fed before")));
  EXPECT_THAT(run->Run({}, {"double"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fetched before")));
  EXPECT_EQ(Value(run->Run({Feed("b", 5)}, {"sum"})), 7.0f);
  EXPECT_THAT(session_->SetUpPartialRun({"zz"}, {"sum"}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'zz'")));
}

TEST_F(PartialRunTest, Failure_EndsTheRun) {
  session_->Reset();  // the count has no value now
  ASSERT_OK_AND_ASSIGN(const auto run, session_->SetUpPartialRun({"a", "b"}, {"double", "sum"}, {"grow"}));
  EXPECT_THAT(run->Run({Feed("a", 3), Feed("b", 1)}, {"double", "sum"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'count' is read before")));
  EXPECT_TRUE(run->done());
  EXPECT_THAT(run->Run({}, {}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has failed")));
}

TEST_F(PartialRunTest, GivenUpOrClosed_EndsWhatIsBlocked) {
  {
    ASSERT_OK_AND_ASSIGN(const auto run, session_->SetUpPartialRun({"b"}, {"gate"}));
    ASSERT_OK(run->Run({Feed("b", 1)}, {}));
    AwaitGate("partial");
  }  // the destructor does not hang
  ASSERT_OK_AND_ASSIGN(const auto run, session_->SetUpPartialRun({"b"}, {"gate"}));
  std::thread closer([&] {
    AwaitGate("partial");
    session_->Close();
  });
  EXPECT_THAT(run->Run({Feed("b", 1)}, {"gate"}), StatusIs(absl::StatusCode::kCancelled, HasSubstr("was closed")));
  closer.join();
}

}  // namespace
}  // namespace rivulet
