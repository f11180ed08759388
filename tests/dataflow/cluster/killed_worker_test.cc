// A worker that is killed at any of the calls between tasks, or in the middle of a step: the step fails and names it,
// nothing is left of the step, and training restored from a checkpoint gives the bits of an undisturbed one.
//
// RIVULET_KILLS=COUNT asks for so many deaths, and for figures of time and memory; docs/internals/results.md has those
// of 1,000.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "dataflow/cluster/task_server.h"
#include "tests/dataflow/cluster/task_process.h"
#include "tests/dataflow/distributed/random_graph.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::BitsOf;
using ::rivulet::testing::ReservedPorts;
using ::rivulet::testing::StatusIs;
using ::rivulet::testing::TaskProcess;
using ::testing::HasSubstr;

constexpr char kMidStep[] = "mid-step";
constexpr int kKilledSteps = 6, kCheckpointEvery = 2;

struct Figures {
  size_t resident_kb = 0, files = 0, threads = 0;
};

Figures OfThisProcess() {
  Figures figures;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> figures.resident_kb;
    if (word == "Threads:") status >> figures.threads;
  }
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) ++figures.files;
  return figures;
}

// Task 0 is in this process, task 1 is the one that dies.
class KilledWorker : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<int>& ports = reserved_.ports();
    cluster_ = fmt::format("worker=127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
    target_ = fmt::format("grpc://127.0.0.1:{}", ports[0]);
    TaskServerOptions options;
    ASSERT_OK_AND_ASSIGN(options.cluster, ClusterSpec::Parse(cluster_));
    options.job = "worker";
    options.credentials = InsecureCredentials(false);
    ASSERT_OK_AND_ASSIGN(server_, TaskServer::Start(std::move(options)));

    const auto on = [&](int task) { return scope_.WithDevice(fmt::format("/job:worker/task:{}", task)); };
    constexpr int64_t kSize = 4096;
    const Output x = on(0).Placeholder("x", DType::kFloat32, Shape{kSize});
    const Output v = Variable(on(1), "v", Shape{kSize}, Constant(0.5f));
    const Output w = Variable(on(0), "w", Shape{kSize}, Constant(0.25f));
    const Output y = on(0).Op("AddV2", {on(1).Op("Mul", {x, v}), w}, {}, "y");
    const auto move = [&](int task, const Output& variable, float rate, const char* name) {
      const Output by = on(task).Op("Mul", {y, on(task).Const(Tensor::Scalar<float>(rate))});
      on(task).AddNode("AssignAddVariableOp", {variable.node->input(0), by}, {}, name);
    };
    move(0, w, -0.01f, "move_w");
    move(1, v, 0.02f, "move_v");
    // A step that says when it is in the middle, and stays there.
    const Output mark = Variable(on(1), "mark", Shape{}, Constant(0.0f));
    Node* const marked = on(1).AddNode("AssignAddVariableOp",
                                       {mark.node->input(0), on(1).Const(Tensor::Scalar<float>(1))}, {}, "set_mark");
    Node* const queue = on(1).AddNode(
        "FIFOQueueV2", {},
        {{"component_types", std::vector<DType>{DType::kFloat32}}, {"shapes", std::vector<Shape>{{}}}}, "queue");
    ASSERT_OK(scope_.status());
    Node* const taken = on(1).WithControl({marked}).AddNode(
        "QueueDequeueV2", {queue->output()}, {{"component_types", std::vector<DType>{DType::kFloat32}}}, "taken");
    ASSERT_OK(scope_.status());
    on(0).Op("Neg", {taken->output()}, {}, "waits");
    ASSERT_OK(scope_.status());
    initial_ = {graph_.Find("v/Assign")->input(1).name(), graph_.Find("w/Assign")->input(1).name()};
    reads_ = {v.name(), w.name()};
    mark_ = mark.name();
  }

  struct Checkpoint {
    int step = 0;
    std::vector<Tensor> values;  // none: the first ones
  };

  // A call, and how long it took when it failed.
  template <typename Call>
  auto Timed(const Call& call) {
    const auto begun = std::chrono::steady_clock::now();
    auto result = call();
    if (!result.ok())
      longest_ = std::max(longest_, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    return result;
  }
  StatusOr<std::unique_ptr<Session>> Open() {
    SessionConfig config;
    config.target = target_;
    return Timed([&] { return Session::Create(graph_.Clone(), config); });
  }
  // From the checkpoint to the last step.
  Status Train(Session& session, Checkpoint& checkpoint) {
    Session::Feeds restored;
    for (size_t i = 0; i < checkpoint.values.size(); ++i) restored.emplace_back(initial_[i], checkpoint.values[i]);
    RIVULET_RETURN_IF_ERROR(Timed([&] { return session.Run(restored, {}, {"init"}); }).status());
    for (int step = checkpoint.step; step < kKilledSteps;) {
      Tensor x(DType::kFloat32, Shape{4096});
      for (size_t i = 0; float& value : x.flat<float>())
        value = static_cast<float>((static_cast<size_t>(step) * 31 + i++ * 7) % 101) / 50 - 1;
      RIVULET_RETURN_IF_ERROR(Timed([&] { return session.Run({{"x", x}}, {"y"}, {"move_v", "move_w"}); }).status());
      if (++step % kCheckpointEvery > 0) continue;
      RIVULET_ASSIGN_OR_RETURN(auto values, Timed([&] { return session.Run({}, reads_); }));
      checkpoint = {step, std::move(values)};
    }
    return absl::OkStatus();
  }
  // A session in which the task dies; the status of the call that it fails, OK where only the end of the session does.
  Status TrainUntilDeath(const std::string& point, TaskProcess& task, Checkpoint& checkpoint) {
    RIVULET_ASSIGN_OR_RETURN(const auto session, Open());
    RIVULET_RETURN_IF_ERROR(Train(*session, checkpoint));
    if (point == kMidStep) {
      StatusOr<std::vector<Tensor>> waited = std::vector<Tensor>{};
      std::thread waiting([&] { waited = session->Run({}, {"waits"}); });
      float marked = 0;
      while (marked == 0) {
        const auto values = session->Run({}, {mark_});
        EXPECT_OK(values);
        if (!values.ok()) break;
        marked = (*values)[0].flat<float>()[0];
      }
      const auto killed = std::chrono::steady_clock::now();
      task.Kill(SIGKILL);
      waiting.join();
      longest_ = std::max(longest_, std::chrono::duration<double>(std::chrono::steady_clock::now() - killed).count());
      return waited.status();
    }
    if (point.starts_with("DeleteWorkerSession")) return absl::OkStatus();
    while (true) RIVULET_RETURN_IF_ERROR(Timed([&] { return session->Run({}, reads_); }).status());
  }

  const ReservedPorts reserved_{2};
  std::string cluster_, target_;
  std::unique_ptr<TaskServer> server_;
  Graph graph_;
  Scope scope_{graph_};
  std::vector<std::string> initial_, reads_;
  std::string mark_;
  double longest_ = 0;  // seconds of a call that failed
};

TEST_F(KilledWorker, AtEachCall_IsNamed_LeavesNothing_AndTrainingContinuesToTheSameBits) {
  const char* const asked = std::getenv("RIVULET_KILLS");
  std::vector<std::string> points = {kMidStep};
  for (const char* const call : {"GetStatus:1", "CreateWorkerSession:1", "RegisterGraph:2", "RunGraph:5",
                                 "RecvTensor:3", "CleanupGraph:3", "DeleteWorkerSession:1"})
    for (const char* const when : {"", ":answer"}) points.push_back(std::string(call) + when);
  const int kills = asked == nullptr ? static_cast<int>(points.size()) : std::atoi(asked);

  TaskProcess task(cluster_, 1, 60'000);
  Checkpoint undisturbed;
  {
    ASSERT_OK_AND_ASSIGN(const auto session, Open());
    ASSERT_OK(Train(*session, undisturbed));
  }
  std::map<std::string, double> longest;
  for (int kill = 0; kill < kills; ++kill) {
    const std::string& point = points[static_cast<size_t>(kill) % points.size()];
    SCOPED_TRACE(point);
    task.Kill(SIGKILL);
    task.Start(point == kMidStep ? "" : point);
    Checkpoint checkpoint;
    Status failed;
    bool dead = false;
    // A session may first meet the connection to the process before, which is found dead then.
    while (!dead) {
      longest_ = 0;
      checkpoint = {};
      failed = TrainUntilDeath(point, task, checkpoint);
      dead = task.DiesWithin(std::chrono::seconds(failed.ok() ? 60 : 2));  // OK: it dies after the session's end
      ASSERT_TRUE(dead || absl::IsUnavailable(failed)) << failed;
    }
    if (point.starts_with("DeleteWorkerSession")) {
      ASSERT_OK(failed);
    } else {
      ASSERT_THAT(failed, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/job:worker/replica:0/task:1")));
    }
    longest[point] = std::max(longest[point], longest_);
    task.Start();
    StatusOr<std::unique_ptr<Session>> session = Open();
    while (absl::IsUnavailable(session.status())) session = Open();
    ASSERT_OK(session);
    ASSERT_OK(Train(**session, checkpoint));
    ASSERT_EQ(checkpoint.step, kKilledSteps);
    for (size_t i = 0; i < reads_.size(); ++i)
      ASSERT_TRUE(BitsOf(checkpoint.values[i]) == BitsOf(undisturbed.values[i])) << reads_[i];
    session = absl::UnknownError("");  // closed
    // What ends a step at the tasks is sent when it is over, and not waited for.
    const GraphWorker& own = server_->worker();
    for (int i = 0; i < 6'000 && own.steps() + own.sessions() + own.parked_bytes() > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(own.steps(), 0u);
    ASSERT_EQ(own.sessions(), 0u);
    ASSERT_EQ(own.parked_bytes(), 0u);
    if (asked == nullptr || ((kill + 1) % 100 > 0 && kill + 1 < kills)) continue;
    const Figures now = OfThisProcess();
    fmt::print("{} deaths: {} kB resident, {} files, {} threads\n", kill + 1, now.resident_kb, now.files, now.threads);
    std::fflush(stdout);
  }
  if (asked != nullptr)
    for (const auto& [point, seconds] : longest)
      fmt::print("{}: the longest failed call took {:.3f} s\n", point, seconds);
}

}  // namespace
}  // namespace rivulet
