// One timeline of several tasks, whose clocks differ.
#include "dataflow/distributed/join_traces.h"

#include "dataflow/session/session.h"
#include "engine/graph/scope.h"
#include "proto/graph/run_metadata.pb.h"
#include "tests/dataflow/distributed/tasks.h"

namespace rivulet {
namespace {

using ::rivulet::testing::Answer;
using ::rivulet::testing::RunStep;
using ::rivulet::testing::Tasks;
using ::testing::UnorderedElementsAre;

constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;

// A trace of one node that ran from `start` to `end`.
TaskTrace TraceOf(int64_t start, int64_t end) {
  TaskTrace trace;
  trace.metadata = std::make_shared<proto::RunMetadata>();
  proto::NodeExecStats& node = *trace.metadata->mutable_step_stats()->add_dev_stats()->add_node_stats();
  node.set_all_start_nanos(start);
  node.set_all_start_micros(start / 1000);
  node.set_all_end_rel_nanos(end - start);
  return trace;
}

TEST(JoinTracesTest, OffsetOfAClock_IsTheMeanOfBothWays) {
  TaskTrace trace = TraceOf(1'060, 1'080);
  trace.received_nanos = 1'050;
  trace.answered_nanos = 1'090;
  // By a clock that is ahead by 1,000 it was received 30 after it was sent, and answered 20 before the answer came.
  EXPECT_EQ(ClockOffset(trace, 20, 110), ((1'050 - 20) + (1'090 - 110)) / 2);
  EXPECT_EQ(ClockOffset(trace, 20, 110), 1'005);
}

TEST(JoinTracesTest, TaskThatDoesNotTellItsTimes_IsRightOrPutInTheMiddle) {
  EXPECT_EQ(ClockOffset(TraceOf(40, 60), 20, 110), 0);
  EXPECT_EQ(ClockOffset(TraceOf(1'040, 1'060), 20, 110), 1'050 - 65);
  TaskTrace nothing;
  nothing.metadata = std::make_shared<proto::RunMetadata>();
  EXPECT_EQ(ClockOffset(nothing, 20, 110), 0);
}

TEST(JoinTracesTest, TimesMove_AndTimesThatNobodyTookStay) {
  TaskTrace trace = TraceOf(kHour + 5'000, kHour + 6'000);
  trace.received_nanos = kHour + 4'000;
  trace.answered_nanos = kHour + 8'000;
  proto::RunMetadata joined;
  JoinTrace(trace, 4'000, 8'000, joined);
  const proto::NodeExecStats& node = joined.step_stats().dev_stats(0).node_stats(0);
  EXPECT_EQ(node.all_start_nanos(), 5'000);
  EXPECT_EQ(node.all_start_micros(), 5);
  EXPECT_EQ(node.all_end_rel_nanos(), 1'000);
  EXPECT_EQ(node.scheduled_nanos(), 0);
  JoinTrace(TaskTrace(), 4'000, 8'000, joined);  // of a task that gives none
  EXPECT_EQ(joined.step_stats().dev_stats_size(), 1);
}

// A task whose clock is ahead.
class AheadTask final : public RemoteTask {
 public:
  AheadTask(std::shared_ptr<RemoteTask> task, int64_t nanos) : task_(std::move(task)), nanos_(nanos) {}
  const std::string& name() const override { return task_->name(); }
  void GetStatus(const CancellationToken& cancel, DevicesDone done) override {
    task_->GetStatus(cancel, std::move(done));
  }
  void CreateWorkerSession(WorkerSessionRequest request, Done done) override {
    task_->CreateWorkerSession(std::move(request), std::move(done));
  }
  void DeleteWorkerSession(const std::string& session, Done done) override {
    task_->DeleteWorkerSession(session, std::move(done));
  }
  void RegisterGraph(GraphRegistration request, HandleDone done) override {
    task_->RegisterGraph(std::move(request), std::move(done));
  }
  void DeregisterGraph(const std::string& session, const std::string& graph, Done done) override {
    task_->DeregisterGraph(session, graph, std::move(done));
  }
  void RunGraph(TaskStep step, const CancellationToken& cancel, TensorsDone done) override {
    const std::shared_ptr<TaskTrace> trace = step.trace;
    task_->RunGraph(std::move(step), cancel, [this, trace, done](StatusOr<NamedTensors> tensors) {
      if (tensors.ok() && trace != nullptr) {
        trace->received_nanos += nanos_;
        trace->answered_nanos += nanos_;
        for (proto::DeviceStepStats& device : *trace->metadata->mutable_step_stats()->mutable_dev_stats()) {
          for (proto::NodeExecStats& node : *device.mutable_node_stats()) {
            node.set_all_start_nanos(node.all_start_nanos() + nanos_);
            node.set_all_start_micros(node.all_start_nanos() / 1000);
          }
        }
      }
      done(std::move(tensors));
    });
  }
  void RecvTensor(int64_t step, const std::string& key, const CancellationToken& cancel, TensorDone done) override {
    task_->RecvTensor(step, key, cancel, std::move(done));
  }
  void CleanupGraph(int64_t step, Done done) override { task_->CleanupGraph(step, std::move(done)); }
  void CleanupAll(std::vector<std::string> containers, Done done) override {
    task_->CleanupAll(std::move(containers), std::move(done));
  }

 private:
  const std::shared_ptr<RemoteTask> task_;
  const int64_t nanos_;
};

TEST(JoinTracesTest, StepOverTasksAnHourApart_IsOneTimeline) {
  const Tasks tasks(2);
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.WithDevice("/job:worker/task:0").Placeholder("x", DType::kFloat32, Shape{2});
  scope.WithDevice("/job:worker/task:1").Op("Exp", {scope.WithDevice("/job:worker/task:0").Op("Neg", {x})}, {}, "y");
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const auto session,
                       MasterSession::Create(std::move(graph), {.handle = "s"},
                                             {tasks[0], std::make_shared<AheadTask>(tasks[1], kHour)}));
  MasterStep step{{{"x", Tensor::Of<float>({2}, {1, 2})}}, {"y"}, {}};
  step.metadata = std::make_shared<proto::RunMetadata>();
  step.trace = step.output_partition_graphs = true;
  const std::shared_ptr<proto::RunMetadata> metadata = step.metadata;
  const int64_t before = NowNanos();
  ASSERT_OK(RunStep(*session, std::move(step)));
  const int64_t after = NowNanos();
  std::vector<std::string> devices;
  for (const proto::DeviceStepStats& device : metadata->step_stats().dev_stats()) {
    devices.push_back(device.device());
    EXPECT_GT(device.node_stats_size(), 0);
    for (const proto::NodeExecStats& node : device.node_stats()) {
      // Give or take a minute: a busy machine may read two clocks at some distance.
      EXPECT_GE(node.all_start_nanos(), before - kHour / 60) << node.node_name();
      EXPECT_LE(node.all_start_nanos() + node.all_end_rel_nanos(), after + kHour / 60) << node.node_name();
    }
  }
  EXPECT_THAT(devices, UnorderedElementsAre("/job:worker/replica:0/task:0/device:CPU:0",
                                            "/job:worker/replica:0/task:1/device:CPU:0"));
  EXPECT_EQ(metadata->partition_graphs_size(), 2);
  session->Close();
}

}  // namespace
}  // namespace rivulet
