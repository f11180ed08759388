// Sessions over real processes: they give the bits of one process, and report tasks that are gone.
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "dataflow/cluster/cluster_spec.h"
#include "dataflow/cluster/task_server.h"
#include "dataflow/session/session.h"
#include "proto/graph/run_metadata.pb.h"
#include "tests/dataflow/cluster/task_process.h"
#include "tests/dataflow/distributed/random_graph.h"

namespace rivulet {
namespace {

using ::rivulet::testing::BitsOf;
using ::rivulet::testing::Processes;
using ::rivulet::testing::RandomGraph;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

// Not a test: a process that the others start.
TEST(TaskProcess, DISABLED_Serve) {
  const char* const cluster = std::getenv("RIVULET_TEST_CLUSTER");
  const char* const task = std::getenv("RIVULET_TEST_TASK");
  if (cluster == nullptr || task == nullptr) GTEST_SKIP() << "started by hand";
  ASSERT_OK_AND_ASSIGN(ClusterSpec spec, ClusterSpec::Parse(cluster));
  TaskServerOptions options;
  options.cluster = std::move(spec);
  options.job = "worker";
  options.task = std::atoi(task);
  options.credentials = InsecureCredentials(false);
  options.heartbeat = std::chrono::milliseconds(std::atoi(std::getenv("RIVULET_TEST_HEARTBEAT_MS")));
  // "METHOD:COUNT" or "METHOD:COUNT:answer", of TaskProcess::Start.
  std::atomic<int> calls{0};
  const std::string die_at = std::getenv("RIVULET_TEST_DIE_AT");
  const size_t colon = die_at.find(':');
  if (colon != std::string::npos) {
    const std::string method = "/tensorflow.WorkerService/" + die_at.substr(0, colon);
    const int count = std::atoi(die_at.c_str() + colon + 1);
    const bool at_answer = die_at.ends_with(":answer");
    options.on_call = [&calls, method, count, at_answer](std::string_view called, bool answering) {
      if (called == method && answering == at_answer && ++calls == count) raise(SIGKILL);
    };
  }
  const auto server = TaskServer::Start(std::move(options));
  ASSERT_OK(server);
  const pid_t parent = getppid();
  while (getppid() == parent) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

std::vector<std::string> Bits(Session& session, const RandomGraph& random) {
  std::vector<std::string> bits;
  const auto add = [&](const StatusOr<std::vector<Tensor>>& values) {
    ASSERT_OK(values);
    for (const Tensor& value : *values) bits.push_back(BitsOf(value));
  };
  add(session.Run({}, {}, {"init"}));
  for (int step = 0; step < 2; ++step) add(session.Run(random.feeds, random.fetches, random.targets));
  add(session.Run({}, random.reads));
  return bits;
}

TEST(ClusterTest, TwoAndThreeProcesses_SameBitsAsOne) {
  for (const int count : {2, 3}) {
    Processes processes(count);
    for (uint32_t seed = 1000; seed < 1020; ++seed) {
      RandomGraph random(seed, count);
      ASSERT_OK(random.root.status());
      ASSERT_OK_AND_ASSIGN(const auto one, Session::Create(random.graph.Clone(), {.seed = 7}));
      SessionConfig config;
      config.seed = 7;
      config.isolate_session_state = true;
      ASSERT_OK_AND_ASSIGN(const auto several, processes.Open(random.graph.Clone(), config));
      ASSERT_EQ(Bits(*several, random), Bits(*one, random)) << "seed " << seed << ", " << count << " processes";
    }
  }
}

class TwoProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    const Output x = On(0).Placeholder("x", DType::kFloat32, Shape{kUnknownDim});
    const Output v = Variable(On(1), "v", Shape{1}, Constant(2.0f));
    On(0).Op("AddV2", {On(1).Op("Mul", {x, v}), x}, {}, "y");
    Node* queue = On(1).AddNode(
        "FIFOQueueV2", {},
        {{"component_types", std::vector<DType>{DType::kFloat32}}, {"shapes", std::vector<Shape>{{}}}}, "queue");
    ASSERT_OK(scope_.status());
    Node* taken = On(1).AddNode("QueueDequeueV2", {queue->output()},
                                {{"component_types", std::vector<DType>{DType::kFloat32}}}, "taken");
    ASSERT_OK(scope_.status());
    On(0).Op("Neg", {taken->output()}, {}, "waits");
    ASSERT_OK(scope_.status());
  }
  Scope On(int task) { return scope_.WithDevice(fmt::format("/job:worker/task:{}", task)); }
  StatusOr<float> Y(Session& session, float x) {
    RIVULET_ASSIGN_OR_RETURN(const auto values, session.Run({{"x", Tensor::Of<float>({1}, {x})}}, {"y"}));
    return values[0].flat<float>()[0];
  }
  Processes processes_{2};
  Graph graph_;
  Scope scope_{graph_};
};

TEST_F(TwoProcesses, KilledTask_IsNamed_AndSessionsAfterItsRestartGoOn) {
  ASSERT_OK_AND_ASSIGN(auto session, processes_.Open(graph_.Clone()));
  ASSERT_OK(session->Run({}, {}, {"init"}));
  ASSERT_OK_AND_ASSIGN(const float before, Y(*session, 3));
  EXPECT_EQ(before, 9);
  // In the middle of a step, which waits at the other task.
  StatusOr<std::vector<Tensor>> waited = std::vector<Tensor>{};
  std::thread waiting([&] { waited = session->Run({}, {"waits"}); });
  ASSERT_OK(Y(*session, 1));  // the waiting step does not hold up others
  processes_[1].Kill(SIGKILL);
  waiting.join();
  EXPECT_THAT(waited, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/job:worker/replica:0/task:1")));
  EXPECT_THAT(Y(*session, 3), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/job:worker/replica:0/task:1")));
  processes_[1].Start();
  // The session is of the earlier process; a new one finds the new one, whose variables have no value yet.
  ASSERT_OK_AND_ASSIGN(auto after, processes_.Open(graph_.Clone()));
  const Status stale = Y(*session, 3).status();
  EXPECT_TRUE(absl::IsAborted(stale) || absl::IsUnavailable(stale)) << stale;
  EXPECT_THAT(Y(*after, 3), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'v'")));
  ASSERT_OK(after->Run({}, {}, {"init"}));
  ASSERT_OK_AND_ASSIGN(const float y, Y(*after, 3));
  EXPECT_EQ(y, 9);
}

TEST(ClusterTest, FrozenTask_EndsTheStepByTheHeartbeat) {
  Processes processes(2, /*heartbeat_ms=*/300);
  Graph graph;
  Scope scope(graph);
  const Output x = scope.WithDevice("/job:worker/task:0").Placeholder("x", DType::kFloat32, Shape{1});
  scope.WithDevice("/job:worker/task:1").Op("Neg", {x}, {}, "y");
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const auto session, processes.Open(std::move(graph)));
  const Session::Feeds feeds = {{"x", Tensor::Of<float>({1}, {1})}};
  ASSERT_OK(session->Run(feeds, {"y"}));
  ASSERT_OK_AND_ASSIGN(const auto partial, session->SetUpPartialRun({"x"}, {"y"}));
  processes[1].Freeze();
  EXPECT_THAT(session->Run(feeds, {"y"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/job:worker/replica:0/task:1")));
  EXPECT_THAT(partial->Run(feeds, {"y"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/job:worker/replica:0/task:1")));
  processes[1].Thaw();
}

TEST_F(TwoProcesses, TimeCancellationAndClose_EndAStepThatWaits) {
  ASSERT_OK_AND_ASSIGN(const auto session, processes_.Open(graph_.Clone()));
  RunOptions options;
  options.timeout = std::chrono::milliseconds(50);
  EXPECT_THAT(session->RunWith(options, {}, {"waits"}), StatusIs(absl::StatusCode::kDeadlineExceeded));
  const CancellationToken cancel = CancellationToken::Create();
  std::thread cancelling([&] { cancel.Cancel(); });
  EXPECT_THAT(session->Run({}, {"waits"}, {}, cancel), StatusIs(absl::StatusCode::kCancelled));
  cancelling.join();
  ASSERT_OK_AND_ASSIGN(const auto other, processes_.Open(graph_.Clone()));
  StatusOr<std::vector<Tensor>> waited = std::vector<Tensor>{};
  std::thread waiting([&] { waited = other->Run({}, {"waits"}); });
  other->Close();
  waiting.join();
  EXPECT_TRUE(absl::IsCancelled(waited.status()) || absl::IsAborted(waited.status()) ||
              absl::IsFailedPrecondition(waited.status()))
      << waited.status();
}

TEST_F(TwoProcesses, ExtendPartialRunResetAndRefusals_ReachTheClient) {
  ASSERT_OK_AND_ASSIGN(const auto session, processes_.Open(graph_.Clone()));
  ASSERT_OK(session->Run({}, {}, {"init"}));
  Graph more;
  Scope scope(more);
  scope.WithDevice("/job:worker/task:1").Const(Tensor::Of<float>({1}, {4}), "four");
  ASSERT_OK(scope.status());
  ASSERT_OK(session->Extend(more));
  ASSERT_OK_AND_ASSIGN(auto values, session->Run({}, {"four"}));
  EXPECT_EQ(values[0].flat<float>()[0], 4);
  EXPECT_THAT(session->Extend(more), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'four'")));
  ASSERT_OK_AND_ASSIGN(const auto partial, session->SetUpPartialRun({"x"}, {"four", "y"}));
  ASSERT_OK_AND_ASSIGN(values, partial->Run({}, {"four"}));
  ASSERT_OK_AND_ASSIGN(values, partial->Run({{"x", Tensor::Of<float>({1}, {5})}}, {"y"}));
  EXPECT_EQ(values[0].flat<float>()[0], 15);
  EXPECT_TRUE(partial->done());
  EXPECT_THAT(session->Run({}, {"why"}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'why'")));
  EXPECT_THAT(session->GetVariable("v"), StatusIs(absl::StatusCode::kUnimplemented));
  session->Reset();
  EXPECT_THAT(Y(*session, 1), StatusIs(absl::StatusCode::kAborted, HasSubstr("no session")));
  Graph prints;
  Scope printing(prints);
  const Output one = printing.Const(Tensor::Of<float>({1}, {1}));
  printing.AddNode("Print", {one, one}, {{"message", "hello"}}, "print");
  ASSERT_OK(printing.status());
  EXPECT_THAT(processes_.Open(std::move(prints)), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("'print'")));
}

TEST_F(TwoProcesses, TracedStep_HasTheNodesOfBothTasks) {
  ASSERT_OK_AND_ASSIGN(const auto session, processes_.Open(graph_.Clone()));
  ASSERT_OK(session->Run({}, {}, {"init"}));
  const Session::Feeds feeds = {{"x", Tensor::Of<float>({1}, {3})}};
  proto::RunMetadata metadata;
  RunOptions options;
  ASSERT_OK(session->RunWith(options, feeds, {"y"}, {}, &metadata));
  EXPECT_EQ(metadata.step_stats().dev_stats_size(), 0);
  options.trace = options.output_partition_graphs = true;
  ASSERT_OK_AND_ASSIGN(const auto values, session->RunWith(options, feeds, {"y"}, {}, &metadata));
  EXPECT_EQ(values[0].flat<float>()[0], 9);
  std::set<std::string> devices, ops;
  for (const proto::DeviceStepStats& device : metadata.step_stats().dev_stats())
    if (device.node_stats_size() > 0) devices.insert(device.device());
  for (const proto::GraphDef& graph : metadata.partition_graphs())
    for (const proto::NodeDef& node : graph.node()) ops.insert(node.op());
  EXPECT_THAT(devices, ::testing::ElementsAre("/job:worker/replica:0/task:0/device:CPU:0",
                                              "/job:worker/replica:0/task:1/device:CPU:0"));
  EXPECT_EQ(metadata.partition_graphs_size(), 2);
  EXPECT_THAT(ops, ::testing::IsSupersetOf({"Mul", "AddV2", "_Send", "_Recv"}));
}

TEST(ClusterSpecTest, TextOfAnotherForm_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const ClusterSpec spec, ClusterSpec::Parse("ps=h:1;worker=h:2,[::1]:3"));
  ASSERT_EQ(spec.tasks().size(), 3u);
  EXPECT_EQ(spec.tasks()[2].name(), "/job:worker/replica:0/task:1");
  EXPECT_EQ(spec.tasks()[2].address.host, "::1");
  EXPECT_THAT(spec.Task("worker", 2), StatusIs(absl::StatusCode::kNotFound, HasSubstr("it has 2")));
  EXPECT_THAT(spec.Task("chief", 0), StatusIs(absl::StatusCode::kNotFound, HasSubstr("it has ps, worker")));
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{{"", "no task"},
                                                                                  {"worker", "no JOB="},
                                                                                  {"=h:1", "no JOB="},
                                                                                  {"worker=", "no task"},
                                                                                  {"worker=h:1,h:1", "two tasks at"},
                                                                                  {"worker=h:0", "need its port"},
                                                                                  {"worker=h", "worker"},
                                                                                  {"worker=h:1;worker=h:2", "twice"},
                                                                                  {"1=h:1", "no name of a job"}})
    EXPECT_THAT(ClusterSpec::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why))) << text;
}

TEST(ClusterTest, TargetsThatCannotBe_AreRefused) {
  EXPECT_THAT(Session::Create(Graph(), {.target = "here"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("grpc://HOST:PORT")));
  EXPECT_THAT(Session::Create(Graph(), {.target = "http://h:1"}), StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(Session::Create(Graph(), {.target = "grpc://192.0.2.1:1"}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace rivulet
