// Runs of several parts: the parts between asynchronous ops, their order, and the end of the run.
#include <thread>

#include "dataflow/session/session.h"
#include "engine/graph/scope.h"
#include "engine/variables/variables.h"
#include "tests/dataflow/session/gates.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::AwaitGate;
using ::rivulet::testing::OpenGate;
using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A graph under construction; gates are named after the test.
class AsyncTest : public ::testing::Test {
 protected:
  std::string GateName(std::string_view which = "") const {
    return fmt::format("{}/{}", ::testing::UnitTest::GetInstance()->current_test_info()->name(), which);
  }
  Output Gate(Output x, const std::string& name, std::string_view which = "") {
    return scope_.Op("TestGate", {x}, {{"gate", GateName(which)}}, name);
  }
  Output Open(Output x, const std::string& name, std::string_view which = "") {
    return scope_.Op("TestOpen", {x}, {{"gate", GateName(which)}}, name);
  }
  Output Scalar(float value, const std::string& name) { return scope_.Const(Tensor::Scalar(value), name); }
  void Make(const SessionConfig& config = {}) {
    ASSERT_OK(scope_.status());
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(std::move(graph_), config));
  }
  Graph graph_;
  Scope scope_{graph_};
  std::unique_ptr<Session> session_;
};

TEST_F(AsyncTest, PartsBeforeAndAfter_GiveWhatOneProgramWould) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{kUnknownDim});
  const Output doubled = scope_.Op("Mul", {x, Scalar(2, "two")}, {}, "doubled");
  const Output gated = Gate(doubled, "gated");
  scope_.Op("AddV2", {gated, x}, {}, "sum");
  Make();
  OpenGate(GateName());
  for (const int size : {2, 3, 2}) {
    Tensor fed(DType::kFloat32, Shape{size});
    for (int i = 0; i < size; ++i) fed.flat<float>()[static_cast<size_t>(i)] = static_cast<float>(i + 1);
    ASSERT_OK_AND_ASSIGN(const auto values, session_->Run({{"x", fed}}, {"sum", "gated", "x", "sum"}));
    for (int i = 0; i < size; ++i) {
      const size_t at = static_cast<size_t>(i);
      EXPECT_EQ(Values(values[0])[at], 3 * Values(fed)[at]);
      EXPECT_EQ(Values(values[1])[at], 2 * Values(fed)[at]);
      EXPECT_EQ(Values(values[2])[at], Values(fed)[at]);
      EXPECT_EQ(Values(values[3])[at], 3 * Values(fed)[at]);
    }
  }
  EXPECT_EQ(session_->programs(), 4u);  // two parts, two shapes each
}

// `a` waits for a gate that opens only after `b` went through: their parts must not be one.
TEST_F(AsyncTest, IndependentWaits_DoNotHoldEachOther) {
  const Output one = Scalar(1, "one");
  const Output a = scope_.Op("Neg", {Gate(one, "a", "a")}, {}, "neg_a");
  const Output b = scope_.Op("Neg", {Gate(one, "b", "b")}, {}, "neg_b");
  const Output opened = Open(b, "opens_a", "a");
  scope_.Op("AddV2", {a, opened}, {}, "sum");
  Make();
  OpenGate(GateName("b"));
  ASSERT_OK_AND_ASSIGN(const auto values, session_->Run({}, {"sum"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(-2.0f));
}

TEST_F(AsyncTest, ConstantsAndShapes_AreKnownInEveryPart) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 2});
  const Output negated = scope_.Op("Neg", {x}, {}, "negated");
  const Output axis = scope_.Const(Tensor::Of<int32_t>(Shape{1}, {0}), "axis");
  const Output first = scope_.Op("Sum", {negated, axis}, {}, "first");
  const Output gated = Gate(first, "gated");
  // Sums over the same constant axis, and takes the shape of a tensor of the part before.
  const Output spread = scope_.Op("BroadcastTo", {gated, scope_.Op("Shape", {negated}, {}, "shape")}, {}, "spread");
  scope_.Op("Sum", {spread, axis}, {}, "second");
  Make();
  OpenGate(GateName());
  ASSERT_OK_AND_ASSIGN(const auto values,
                       session_->Run({{"x", Tensor::Of<float>(Shape{2, 2}, {1, 2, 3, 4})}}, {"second"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(-8.0f, -12.0f));
}

TEST_F(AsyncTest, RandomOps_DrawWhatTheyDrawInOneProgram) {
  const auto build = [](Graph& graph, bool gated, const std::string& gate) {
    const Scope scope(graph);
    const Output shape = scope.Const(Tensor::Of<int32_t>(Shape{1}, {4}));
    const Output first = scope.Op("RandomUniform", {shape}, {{"dtype", DType::kFloat32}}, "first");
    const Output between = gated ? scope.Op("TestOpen", {first}, {{"gate", gate}}, "between")
                                 : scope.Op("Identity", {first}, {}, "between");
    const Output second = scope.Op("RandomUniform", {shape}, {{"dtype", DType::kFloat32}}, "second");
    scope.Op("AddV2", {between, second}, {}, "sum");
    return scope.status();
  };
  Graph plain;
  ASSERT_OK(build(plain, false, ""));
  ASSERT_OK(build(graph_, true, GateName()));
  ASSERT_OK_AND_ASSIGN(const auto whole, Session::Create(std::move(plain), {.seed = 5}));
  Make({.seed = 5});
  ASSERT_OK_AND_ASSIGN(const auto expected, whole->Run({}, {"sum", "first", "second"}));
  ASSERT_OK_AND_ASSIGN(const auto values, session_->Run({}, {"sum", "first", "second"}));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(Values(values[i]), Values(expected[i]));
}

// Property: parts that touch one variable run in the order of the graph although no edge says so.
TEST_F(AsyncTest, PartsThatShareAVariable_RunInOrder) {
  const Output w = Variable(scope_, "w", Shape{}, Constant(1));
  const Output handle = w.node->input(0);
  const Output gated = Gate(w, "gated");
  Node* grow = scope_.AddNode("AssignAddVariableOp", {handle, gated}, {}, "grow");
  const Scope after = scope_.WithControl(std::vector<Node*>{grow});
  after.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}, "later");
  Make();
  OpenGate(GateName());
  ASSERT_OK(session_->Run({}, {}, {"init"}));
  ASSERT_OK_AND_ASSIGN(const auto values, session_->Run({}, {"w/Read", "later"}, {"grow"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(1.0f));
  EXPECT_THAT(Values(values[1]), ElementsAre(2.0f));
}

TEST_F(AsyncTest, ControlEdgesThroughParts_Hold) {
  const Output w = Variable(scope_, "w", Shape{}, Constant(1));
  const Output gated = Gate(Scalar(4, "four"), "gated");
  const Scope after = scope_.WithControl(std::vector<Node*>{gated.node});
  Node* assign = after.AddNode("AssignVariableOp", {w.node->input(0), Scalar(7, "seven")}, {}, "assign");
  Node* join = scope_.WithControl(std::vector<Node*>{assign}).AddNode("NoOp", {}, {}, "join");
  scope_.WithControl(std::vector<Node*>{join}).Op("TestOpen", {Scalar(1, "one")}, {{"gate", GateName("2")}}, "last");
  Make();
  OpenGate(GateName());
  ASSERT_OK(session_->Run({}, {}, {"last"}));
  EXPECT_THAT(Values(session_->GetVariable("w").value()), ElementsAre(7.0f));
}

// The placeholder itself never runs: what comes after it comes after its feed.
TEST_F(AsyncTest, ControlEdgeFromAFedPlaceholder_Holds) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{});
  const Output gated = Gate(Scalar(1, "one"), "gated");
  const Scope after = scope_.WithControl(std::vector<Node*>{x.node});
  after.Op("Neg", {gated}, {}, "negated");
  Make();
  OpenGate(GateName());
  const Session::Feeds feeds = {{"x", Tensor::Scalar(5.0f)}};
  ASSERT_OK_AND_ASSIGN(const auto values, session_->Run(feeds, {"negated", "x"}, {"x"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(-1.0f));
  EXPECT_THAT(Values(values[1]), ElementsAre(5.0f));
  ASSERT_OK_AND_ASSIGN(const auto partial, session_->SetUpPartialRun({"x"}, {"negated"}));
  EXPECT_THAT(partial->Run({}, {"negated"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs 'x'")));
  EXPECT_OK(partial->Run(feeds, {"negated"}));
}

// Watches what runs, and names it.
class Watcher : public RunObserver {
 public:
  void Begin(const Program& program, int index, const KernelContext&) override {
    begun.push_back(program.instructions()[static_cast<size_t>(index)].node);
  }
  Status End(const Program&, int, const KernelContext&) override {
    ++ended;
    return absl::OkStatus();
  }
  std::vector<std::string> begun;
  size_t ended = 0;
};

// Property: an observer that knows one thread is told of one instruction at a time, on whatever threads parts run.
TEST_F(AsyncTest, Observer_SeesEveryPartOneAtATime) {
  std::vector<std::string> fetches;
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    const Output gated = Gate(Scalar(1, "one" + n), "gated" + n);
    scope_.Op("Exp", {scope_.Op("Neg", {gated}, {}, "neg" + n)}, {}, "exp" + n);
    fetches.push_back("exp" + n);
  }
  Make({.inter_op_threads = 4});
  OpenGate(GateName());
  Watcher watcher;
  RunOptions options;
  options.observer = &watcher;
  ASSERT_OK_AND_ASSIGN(const auto watched, session_->RunWith(options, {}, fetches));
  for (int i = 0; i < 8; ++i)
    EXPECT_THAT(watcher.begun, ::testing::IsSupersetOf({"neg" + std::to_string(i), "exp" + std::to_string(i)}));
  EXPECT_EQ(watcher.begun.size(), watcher.ended);
  ASSERT_OK_AND_ASSIGN(const auto plain, session_->Run({}, fetches));
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(Values(plain[i]), Values(watched[i]));
}

TEST_F(AsyncTest, FedOutput_ReplacesTheOp) {
  const Output gated = Gate(Scalar(1, "one"), "gated");
  scope_.Op("Neg", {gated}, {}, "negated");
  Make();
  ASSERT_OK_AND_ASSIGN(const auto values, session_->Run({{"gated", Tensor::Scalar(5.0f)}}, {"negated"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(-5.0f));
}

TEST_F(AsyncTest, CancelledFromAnotherThread_EndsWhatIsBlocked) {
  scope_.Op("Neg", {Gate(Scalar(1, "one"), "gated")}, {}, "negated");
  Make();
  const CancellationToken token = CancellationToken::Create();
  std::thread canceller([&] {
    AwaitGate(GateName());
    token.Cancel();
  });
  EXPECT_THAT(session_->Run({}, {"negated"}, {}, token),
              StatusIs(absl::StatusCode::kCancelled, "TestGate 'gated': the gate did not open"));
  canceller.join();
}

TEST_F(AsyncTest, TimeUp_EndsWhatIsBlocked) {
  scope_.Op("Neg", {Gate(Scalar(1, "one"), "gated")}, {}, "negated");
  Make();
  RunOptions options;
  options.timeout = std::chrono::milliseconds(5);
  EXPECT_THAT(session_->RunWith(options, {}, {"negated"}),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "the run was cancelled: it took longer than its 5 ms"));
}

TEST_F(AsyncTest, Close_EndsWhatIsBlockedAndRefusesLaterRuns) {
  scope_.Op("Neg", {Gate(Scalar(1, "one"), "gated")}, {}, "negated");
  Make();
  std::thread closer([&] {
    AwaitGate(GateName());
    session_->Close();
  });
  EXPECT_THAT(session_->Run({}, {"negated"}),
              StatusIs(absl::StatusCode::kCancelled, "the session was closed while it ran"));
  closer.join();
  EXPECT_THAT(session_->Run({}, {"one"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "the session is closed; create another one to run"));
  EXPECT_THAT(session_->Extend(Graph()), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is closed")));
}

TEST_F(AsyncTest, ErrorInOnePart_CancelsTheOthers) {
  const Output w = Variable(scope_, "w", Shape{}, Constant(1));
  scope_.Op("Neg", {Gate(Scalar(1, "one"), "gated")}, {}, "negated");
  scope_.Op("TestOpen", {w}, {{"gate", GateName("2")}}, "opened");
  Make();  // w has no value: its part fails while the gate stays closed
  EXPECT_THAT(session_->Run({}, {"negated", "opened"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the variable 'w' is read before")));
}

TEST_F(AsyncTest, OutputOfAnotherType_NamesTheNode) {
  scope_.Op("Neg", {scope_.Op("TestBad", {Scalar(1, "one")}, {}, "bad")}, {}, "negated");
  Make();
  EXPECT_THAT(
      session_->Run({}, {"negated"}),
      StatusIs(absl::StatusCode::kInvalidArgument, "TestBad 'bad': output 0 is int8[1], but the graph has float32[]"));
}

TEST_F(AsyncTest, Resource_LivesInItsContainerFromRunToRun) {
  const auto counter = [&](const std::string& name, const std::string& container) {
    return scope_.Op("TestCounter", {}, {{"container", container}, {"shared_name", std::string("c")}}, name);
  };
  scope_.Op("TestCount", {counter("here", "")}, {}, "count");
  scope_.Op("TestCount", {scope_.Op("Identity", {counter("there", "box")})}, {}, "boxed");
  Make();
  const auto count = [&](const std::string& fetch) {
    const auto values = session_->Run({}, {fetch});
    return values.ok() ? (*values)[0].flat<int64_t>()[0] : -1;
  };
  EXPECT_EQ(count("count"), 1);
  EXPECT_EQ(count("count"), 2);
  EXPECT_EQ(count("boxed"), 1);
  session_->Reset(std::vector<std::string>{"box"});
  EXPECT_EQ(count("boxed"), 1);
  EXPECT_EQ(count("count"), 3);
  session_->Reset();
  EXPECT_EQ(count("count"), 1);
  EXPECT_OK(session_->Run({}, {}, {"here"}));  // a handle alone is made
  EXPECT_THAT(session_->Run({}, {"here"}),
              StatusIs(absl::StatusCode::kInvalidArgument, "fetch 'here' is a handle, which has no value"));
}

TEST_F(AsyncTest, ProgramOpOfAResource_IsRefusedByName) {
  const Output counter = scope_.Op("TestCounter", {}, {}, "counter");
  scope_.AddNode("AssignVariableOp", {counter, Scalar(1, "one")}, {}, "assign");
  Make();
  EXPECT_THAT(session_->Run({}, {}, {"assign"}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("AssignVariableOp 'assign' runs within a program")));
}

}  // namespace
}  // namespace rivulet
