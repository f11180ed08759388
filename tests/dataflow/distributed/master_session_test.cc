// A session over several tasks computes the bits of a session of one process.
#include "dataflow/distributed/master_session.h"

#include <thread>

#include "dataflow/placement/rendezvous.h"
#include "dataflow/session/session.h"
#include "engine/base/philox.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/initializers.h"
#include "engine/variables/variables.h"
#include "proto/graph/graph.pb.h"
#include "tests/dataflow/distributed/random_graph.h"
#include "tests/dataflow/distributed/tasks.h"

namespace rivulet {
namespace {

using ::rivulet::testing::Answer;
using ::rivulet::testing::BitsOf;
using ::rivulet::testing::RandomGraph;
using ::rivulet::testing::RunPartialStep;
using ::rivulet::testing::RunStep;
using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Tasks;
using ::testing::HasSubstr;

TEST(MasterSessionTest, EveryPlacementOverTwoAndThreeTasks_SameBitsAsOneProcess) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const int count = 2 + static_cast<int>(seed % 2);
    RandomGraph random(seed, count);
    ASSERT_OK(random.root.status());
    std::vector<std::string> expected, got;
    {
      ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(random.graph.Clone(), {.seed = 11}));
      ASSERT_OK(session->Run({}, {}, {"init"}));
      for (int step = 0; step < 2; ++step) {
        ASSERT_OK_AND_ASSIGN(const auto values, session->Run(random.feeds, random.fetches, random.targets));
        for (const Tensor& value : values) expected.push_back(BitsOf(value));
      }
      ASSERT_OK_AND_ASSIGN(const auto values, session->Run({}, random.reads));
      for (const Tensor& value : values) expected.push_back(BitsOf(value));
    }
    {
      const Tasks tasks(count);
      ASSERT_OK_AND_ASSIGN(const auto session, tasks.Session(random.graph.Clone(), {.seed = 11}));
      ASSERT_OK(RunStep(*session, {.targets = {"init"}}));
      for (int step = 0; step < 2; ++step) {
        ASSERT_OK_AND_ASSIGN(const auto values, RunStep(*session, {random.feeds, random.fetches, random.targets}));
        for (const Tensor& value : values) got.push_back(BitsOf(value));
      }
      ASSERT_OK_AND_ASSIGN(const auto values, RunStep(*session, {.fetches = random.reads}));
      for (const Tensor& value : values) got.push_back(BitsOf(value));
      session->Close();
      for (int i = 0; i < count; ++i) {
        EXPECT_EQ(tasks[i]->steps(), 0u) << "seed " << seed;
        EXPECT_EQ(tasks[i]->parked_bytes(), 0u) << "seed " << seed;
        EXPECT_EQ(tasks[i]->sessions(), 0u) << "seed " << seed;
      }
    }
    ASSERT_EQ(got, expected) << "seed " << seed << ", " << count << " tasks";
  }
}

class TwoTasks : public ::testing::Test {
 protected:
  Scope On(int task) { return scope_.WithDevice(fmt::format("/job:worker/task:{}", task)); }
  std::shared_ptr<MasterSession> Open(MasterSessionOptions options = {}) {
    EXPECT_OK(scope_.status());
    auto session = tasks_.Session(graph_.Clone(), std::move(options));
    EXPECT_OK(session);
    return session.ok() ? *session : nullptr;
  }
  Tasks tasks_{2};
  Graph graph_;
  Scope scope_{graph_};
};

TEST_F(TwoTasks, FeedsAndFetchesOfBothTasks_TravelByKeys) {
  const Output x = On(0).Placeholder("x", DType::kFloat32, Shape{kUnknownDim});
  const Output y = On(1).Op("Neg", {x}, {}, "y");
  On(0).Op("AddV2", {x, y}, {}, "z");
  const auto session = Open();
  const Tensor value = Tensor::Of<float>({3}, {1, 2, 3});
  ASSERT_OK_AND_ASSIGN(const auto values, RunStep(*session, {{{"x:0", value}}, {"x", "y:0", "z:0", "y"}, {}}));
  EXPECT_EQ(BitsOf(values[0]), BitsOf(value));
  EXPECT_EQ(BitsOf(values[1]), BitsOf(Tensor::Of<float>({3}, {-1, -2, -3})));
  EXPECT_EQ(BitsOf(values[2]), BitsOf(Tensor::Of<float>({3}, {0, 0, 0})));
  EXPECT_EQ(BitsOf(values[3]), BitsOf(values[1]));
}

TEST_F(TwoTasks, NoTaskOfAConstraint_IsRefusedByName) {
  scope_.WithDevice("/job:ps/task:0").Const(Tensor::Of<float>({1}, {1}), "c");
  ASSERT_OK(scope_.status());
  EXPECT_THAT(tasks_.Session(graph_.Clone()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'c' is constrained to '/job:ps/task:0'")));
}

TEST_F(TwoTasks, PlaceholderThatIsNotFed_IsAnErrorOfTensorFlowsCode) {
  On(1).Op("Neg", {On(0).Placeholder("x", DType::kFloat32, Shape{2})}, {}, "y");
  const auto session = Open();
  EXPECT_THAT(RunStep(*session, {.fetches = {"y"}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x'")));
  EXPECT_THAT(RunStep(*session, {.fetches = {"why"}}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'why'")));
  EXPECT_THAT(RunStep(*session, {}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a fetch or a target")));
  EXPECT_THAT(RunStep(*session, {{{"x", Tensor::Of<float>({3}, {1, 2, 3})}}, {"y"}, {}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x' is float32[2]")));
}

TEST_F(TwoTasks, ErrorOfOneTask_EndsTheStepOnBothAndNamesIt) {
  const Output x = On(0).Placeholder("x", DType::kFloat32, Shape{2});
  const Output v = Variable(On(1), "v", Shape{2}, Constant(1.0f));
  On(0).Op("AddV2", {On(1).Op("Mul", {x, v}), x}, {}, "y");
  const auto session = Open();
  EXPECT_THAT(RunStep(*session, {{{"x", Tensor::Of<float>({2}, {1, 2})}}, {"y"}, {}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("from /job:worker/replica:0/task:1")));
  EXPECT_EQ(tasks_[0]->steps(), 0u);
  EXPECT_EQ(tasks_[1]->steps(), 0u);
  ASSERT_OK(RunStep(*session, {.targets = {"init"}}));
  ASSERT_OK(RunStep(*session, {{{"x", Tensor::Of<float>({2}, {1, 2})}}, {"y"}, {}}));
}

TEST_F(TwoTasks, StepThatWaits_EndsByItsTimeItsCallerAndClose) {
  Node* queue = On(1).AddNode(
      "FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat32}}, {"shapes", std::vector<Shape>{{}}}},
      "queue");
  ASSERT_OK(scope_.status());
  Node* taken = On(1).AddNode("QueueDequeueV2", {queue->output()},
                              {{"component_types", std::vector<DType>{DType::kFloat32}}}, "taken");
  ASSERT_OK(scope_.status());
  On(0).Op("Neg", {taken->output()}, {}, "y");
  const auto session = Open();
  EXPECT_THAT(RunStep(*session, {.fetches = {"y"}, .timeout = std::chrono::milliseconds(20)}),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("20 ms")));
  const CancellationToken cancel = CancellationToken::Create();
  Answer<StatusOr<std::vector<Tensor>>> cancelled, closed;
  session->RunStep({.fetches = {"y"}}, cancel, cancelled.Callback());
  EXPECT_FALSE(cancelled.here());
  cancel.Cancel();
  EXPECT_THAT(cancelled.Get(), StatusIs(absl::StatusCode::kCancelled));
  session->RunStep({.fetches = {"y"}}, {}, closed.Callback());
  session->Close();
  EXPECT_THAT(closed.Get(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("closed")));
  EXPECT_THAT(RunStep(*session, {.fetches = {"y"}}), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(TwoTasks, Extend_AddsNodesThatTakeOldOnes_AtItsVersion) {
  On(0).Placeholder("x", DType::kFloat32, Shape{2});
  const auto session = Open();
  On(1).Op("Neg", {graph_.Find("x")->output()}, {}, "y");
  ASSERT_OK(scope_.status());
  proto::GraphDef added;  // the new node alone
  ASSERT_TRUE(added.ParseFromString(SerializeGraph(graph_)));
  while (added.node(0).name() != "y") added.mutable_node()->DeleteSubrange(0, 1);
  const std::string more = added.SerializeAsString();
  EXPECT_EQ(session->graph_version(), 0);
  ASSERT_OK(session->Extend(more, 0));
  EXPECT_EQ(session->graph_version(), 1);
  EXPECT_THAT(session->Extend(more, 0), StatusIs(absl::StatusCode::kAborted, HasSubstr("has version 1")));
  EXPECT_THAT(session->Extend(more, 1), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'y'")));
  ASSERT_OK_AND_ASSIGN(const auto values, RunStep(*session, {{{"x", Tensor::Of<float>({2}, {1, 2})}}, {"y"}, {}}));
  EXPECT_EQ(BitsOf(values[0]), BitsOf(Tensor::Of<float>({2}, {-1, -2})));
}

TEST_F(TwoTasks, PartialRun_TakesFeedsAndFetchesInPieces) {
  const Output a = On(0).Placeholder("a", DType::kFloat32, Shape{1});
  const Output b = On(1).Placeholder("b", DType::kFloat32, Shape{1});
  const Output half = On(1).Op("Neg", {a}, {}, "half");
  On(0).Op("AddV2", {half, b}, {}, "whole");
  const auto session = Open();
  ASSERT_OK_AND_ASSIGN(const std::string run, session->SetUpPartialRun({"a", "b"}, {"half", "whole"}, {}));
  EXPECT_THAT(RunPartialStep(*session, run, {.fetches = {"half"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'half' needs 'a'")));
  ASSERT_OK_AND_ASSIGN(auto values,
                       RunPartialStep(*session, run, {{{"a", Tensor::Of<float>({1}, {5})}}, {"half"}, {}}));
  EXPECT_EQ(values[0].flat<float>()[0], -5);
  EXPECT_THAT(RunPartialStep(*session, run, {{{"a", Tensor::Of<float>({1}, {5})}}, {}, {}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fed before")));
  ASSERT_OK_AND_ASSIGN(values, RunPartialStep(*session, run, {{{"b", Tensor::Of<float>({1}, {7})}}, {"whole"}, {}}));
  EXPECT_EQ(values[0].flat<float>()[0], 2);
  EXPECT_THAT(RunPartialStep(*session, run, {}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no partial")));
  EXPECT_EQ(tasks_[0]->steps(), 0u);
}

TEST_F(TwoTasks, Containers_AreSharedUnlessIsolated_AndReset) {
  const Output v = Variable(On(1), "v", Shape{1}, Constant(3.0f));
  const auto first = Open(), second = Open(), isolated = Open({.isolate_session_state = true});
  ASSERT_OK(RunStep(*first, {.targets = {"init"}}));
  EXPECT_OK(RunStep(*second, {.fetches = {v.name()}}));
  EXPECT_THAT(RunStep(*isolated, {.fetches = {v.name()}}), StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_OK(second->Reset({}));
  EXPECT_THAT(RunStep(*first, {.fetches = {v.name()}}), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(TwoTasks, WhetherAVariableHasAValue_IsAskedForWhereItIs) {
  const Output v = Variable(On(1), "v", Shape{1}, Constant(3.0f));
  On(1).Op("VarIsInitializedOp", {v.node->input(0)}, {}, "initialized");
  On(0).Op("LogicalNot", {graph_.Find("initialized")->output()}, {}, "missing");
  const auto session = Open();
  ASSERT_OK_AND_ASSIGN(auto values, RunStep(*session, {.fetches = {"initialized", "missing"}}));
  EXPECT_FALSE(values[0].flat<bool>()[0]);
  EXPECT_TRUE(values[1].flat<bool>()[0]);
  ASSERT_OK(RunStep(*session, {.targets = {"init"}}));
  ASSERT_OK_AND_ASSIGN(values, RunStep(*session, {.fetches = {"initialized", "missing"}}));
  EXPECT_TRUE(values[0].flat<bool>()[0]);
  EXPECT_FALSE(values[1].flat<bool>()[0]);
}

// As TensorFlow's graphs of version 1 ask, by reference.
TEST(ReferenceVariableTest, IsVariableInitialized_AsksTheVariableItself) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraphText(R"(
    node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "shape" value { shape { dim { size: 1 } } } } }
    node { name: "one" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 1 } } float_val: 1 } } } }
    node { name: "assign" op: "Assign" input: "v" input: "one" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "asked" op: "IsVariableInitialized" input: "v" attr { key: "dtype" value { type: DT_FLOAT } } }
  )"));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  ASSERT_OK_AND_ASSIGN(auto values, session->Run({}, {"asked"}));
  EXPECT_FALSE(values[0].flat<bool>()[0]);
  ASSERT_OK(session->Run({}, {}, {"assign"}));
  ASSERT_OK_AND_ASSIGN(values, session->Run({}, {"asked"}));
  EXPECT_TRUE(values[0].flat<bool>()[0]);
}

// As TensorFlow's clients of version 1 fetch a variable, and what an assignment gives it.
TEST(ReferenceVariableTest, VariableAndItsUpdate_AreFetchedByTheirValue) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraphText(R"(
    node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "shape" value { shape {} } } }
    node { name: "two" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 2 } } } }
    node { name: "set" op: "Assign" input: "v" input: "two" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "add" op: "AssignAdd" input: "v" input: "two" attr { key: "T" value { type: DT_FLOAT } } }
  )"));
  const Tasks tasks(1);
  ASSERT_OK_AND_ASSIGN(const auto session, tasks.Session(std::move(graph)));
  const auto fetched = [&](const std::string& name) {
    const auto values = RunStep(*session, {.fetches = {name}});
    EXPECT_OK(values);
    return values.ok() ? (*values)[0].flat<float>()[0] : -1;
  };
  EXPECT_THAT(RunStep(*session, {.fetches = {"v:0"}}), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(fetched("set:0"), 2.0f);
  EXPECT_EQ(fetched("v:0"), 2.0f);
  EXPECT_EQ(fetched("add"), 4.0f);
  EXPECT_EQ(fetched("v"), 4.0f);
  EXPECT_FALSE(RunStep(*session, {.fetches = {"add:1"}}).ok());
}

TEST(GraphWorkerTest, KeyOfAnotherIncarnationTaskOrForm_IsRefused) {
  const Tasks tasks(2);
  const auto receive = [&](const std::string& key) {
    Answer<StatusOr<Tensor>> answer;
    tasks[0]->RecvTensor(5, key, {}, answer.Callback());
    return answer.Get();
  };
  const std::string mine = tasks[0]->device().name, other = tasks[1]->device().name;
  EXPECT_THAT(receive(fmt::format("{};{:016x};{};edge_1_x;0:0", mine, tasks[0]->device().incarnation ^ 1, other)),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("restarted")));
  EXPECT_THAT(receive(fmt::format("{};{:016x};{};edge_1_x;0:0", other, tasks[1]->device().incarnation, mine)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no device of")));
  EXPECT_THAT(receive(fmt::format("{};{:016x};{};x;0:0", mine, tasks[0]->device().incarnation, mine)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not for other tasks")));
  for (const char* key : {"", "a;b", "a;0000000000000001;b;c;0", "a;1;b;c;0:0", "a;0000000000000001;b;c;0:x",
                          "a;0000000000000001;b;c;0:0;d"})
    EXPECT_THAT(receive(key), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no key"))) << key;
  EXPECT_EQ(tasks[0]->steps(), 0u);
}

TEST(GraphWorkerTest, ReceivesThatNobodySends_AreBoundedAndLeaveNothing) {
  GraphWorkerOptions options;
  options.max_steps = 8;
  options.max_waiting = 20;
  const Tasks tasks(2, options);
  const CancellationToken cancel = CancellationToken::Create();
  const std::string key = fmt::format("{};{:016x};{};x;0:0", tasks[0]->device().name, tasks[0]->device().incarnation,
                                      tasks[1]->device().name);
  std::vector<Answer<StatusOr<Tensor>>> answers(40);
  for (size_t i = 0; i < answers.size(); ++i)
    tasks[0]->RecvTensor(static_cast<int64_t>(i % 10), key, cancel, answers[i].Callback());
  int refused = 0;
  for (auto& answer : answers) refused += answer.here();
  EXPECT_GE(refused, 20);
  EXPECT_EQ(tasks[0]->steps(), 8u);
  cancel.Cancel();
  for (auto& answer : answers) EXPECT_FALSE(answer.Get().ok());
  EXPECT_EQ(tasks[0]->steps(), 0u);
}

TEST(GraphWorkerTest, ParkedTensors_AreBounded) {
  const auto budget = std::make_shared<MemoryBudget>("the transfers", 100);
  Rendezvous rendezvous(nullptr, budget);
  EXPECT_OK(rendezvous.Send("a", Tensor(DType::kFloat32, Shape{20})));
  EXPECT_THAT(rendezvous.Send("b", Tensor(DType::kFloat32, Shape{20})),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("waits for its receive")));
  rendezvous.RecvAsync("a", {}, [](const StatusOr<Tensor>& value) { EXPECT_OK(value); });
  EXPECT_EQ(budget->used(), 0u);
  EXPECT_OK(rendezvous.Send("b", Tensor(DType::kFloat32, Shape{20})));
  rendezvous.Abort(absl::AbortedError("over"));
  EXPECT_EQ(budget->used(), 0u);
}

Status MakeSession(GraphWorker& worker, const std::string& session) {
  Answer<Status> made;
  worker.CreateWorkerSession({session}, made.Callback());
  return made.Get();
}

TEST(GraphWorkerTest, SessionsBeyondTheBound_AreRefusedUnlessOthersAreIdle) {
  GraphWorkerOptions options;
  options.max_sessions = 1;
  const Tasks busy(1, options);
  ASSERT_OK(MakeSession(*busy[0], "one"));
  EXPECT_THAT(MakeSession(*busy[0], "two"), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1 sessions")));
  options.idle_after = std::chrono::milliseconds(0);
  const Tasks idle(1, options);
  ASSERT_OK(MakeSession(*idle[0], "one"));
  ASSERT_OK(MakeSession(*idle[0], "two"));
  EXPECT_EQ(idle[0]->sessions(), 1u);
  Answer<StatusOr<std::string>> registered;
  idle[0]->RegisterGraph({"one", "", 0}, registered.Callback());
  EXPECT_THAT(registered.Get(), StatusIs(absl::StatusCode::kAborted, HasSubstr("no session 'one'")));
}

// A call that a caller sent again must not be forgotten: both are answered when the step ends.
TEST(GraphWorkerTest, LastCallOfAPartialStepSentTwice_IsAnsweredTwice) {
  const Tasks tasks(1);
  ASSERT_OK(MakeSession(*tasks[0], "s"));
  Graph graph;
  Scope scope(graph);
  Node* const queue = scope.AddNode(
      "FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat32}}, {"shapes", std::vector<Shape>{{}}}},
      "queue");
  ASSERT_OK(scope.status());
  scope.AddNode("QueueDequeueV2", {queue->output()}, {{"component_types", std::vector<DType>{DType::kFloat32}}});
  ASSERT_OK(scope.status());
  Answer<StatusOr<std::string>> registered;
  tasks[0]->RegisterGraph({"s", SerializeGraph(graph), 0}, registered.Callback());
  ASSERT_OK_AND_ASSIGN(const std::string handle, registered.Get());
  Answer<StatusOr<NamedTensors>> first, second;
  for (auto* answer : {&first, &second}) {
    TaskStep step{"s", handle, 7};
    step.partial = step.last = true;
    tasks[0]->RunGraph(std::move(step), {}, answer->Callback());
  }
  EXPECT_FALSE(first.here());
  EXPECT_FALSE(second.here());
  tasks[0]->CleanupGraph(7, [](const Status&) {});
  EXPECT_FALSE(first.Get().ok());
  EXPECT_FALSE(second.Get().ok());
}

TEST(MasterSessionTest, PartialRunsThatFailed_MakeRoomForOthers) {
  const Tasks tasks(1);
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kInt32, Shape{kUnknownDim});
  scope.Op("GatherV2", {scope.Const(Tensor::Of<float>({1}, {1})), x, scope.Const(Tensor::Scalar<int32_t>(0))}, {}, "y");
  ASSERT_OK(scope.status());
  MasterSessionOptions options;
  options.max_steps = 2;
  ASSERT_OK_AND_ASSIGN(const auto session, tasks.Session(std::move(graph), options));
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK_AND_ASSIGN(const std::string run, session->SetUpPartialRun({"x"}, {"y"}, {}));
    EXPECT_FALSE(RunPartialStep(*session, run, {{{"x", Tensor::Of<int32_t>({1}, {9})}}, {"y"}, {}}).ok());
  }
  ASSERT_OK(session->SetUpPartialRun({"x"}, {"y"}, {}));
}

// The graph is done at once; the receive after it is what waits.
TEST(GraphWorkerTest, KeyThatTheGraphNeverSends_IsWaitedForUntilTheCallerGivesUp) {
  const Tasks tasks(1);
  ASSERT_OK(MakeSession(*tasks[0], "s"));
  proto::GraphDef graph;
  proto::NodeDef& node = *graph.add_node();
  node.set_name("n");
  node.set_op("NoOp");
  Answer<StatusOr<std::string>> registered;
  tasks[0]->RegisterGraph({"s", graph.SerializeAsString(), 0}, registered.Callback());
  ASSERT_OK_AND_ASSIGN(const std::string handle, registered.Get());
  TaskStep step{"s", handle, 3, {}};
  step.recv = {fmt::format("{0};{1:016x};{0};x;0:0", tasks[0]->device().name, tasks[0]->device().incarnation)};
  const CancellationToken cancel = CancellationToken::Create();
  Answer<StatusOr<NamedTensors>> run;
  tasks[0]->RunGraph(std::move(step), cancel, run.Callback());
  std::thread([&] { cancel.Cancel(); }).join();
  EXPECT_THAT(run.Get(), StatusIs(absl::StatusCode::kCancelled));
}

TEST(GraphWorkerTest, UnknownSessionOrGraph_IsAborted) {
  const Tasks tasks(1);
  Answer<StatusOr<NamedTensors>> run;
  tasks[0]->RunGraph({"nobody's", "1", 3}, {}, run.Callback());
  EXPECT_THAT(run.Get(), StatusIs(absl::StatusCode::kAborted, HasSubstr("restarted")));
  Answer<StatusOr<std::string>> registered;
  tasks[0]->RegisterGraph({"nobody's", "", 0}, registered.Callback());
  EXPECT_THAT(registered.Get(), StatusIs(absl::StatusCode::kAborted));
}

}  // namespace
}  // namespace rivulet
