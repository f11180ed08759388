#include "client/calls/heartbeat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "client/agent/agent.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::DigitRecords;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;
using testing::PlanBytes;
using ::testing::SizeIs;

// Gives out one task that would be trained for days, and says after some beats that it is dead.
class ImpatientCoordinator : public CoordinatorApi {
 public:
  ImpatientCoordinator() {
    Scenario scenario = LocalScenario();
    scenario.client.epochs = 1'000'000;
    plan_ = PlanBytes(scenario);
    const auto model = PatternModel(*LocalPlan());
    model_ = ModelToSafetensors(*model, {});
    task_.id = "task";
    task_.run_id = "run";
    task_.client_id = "site-1";
    task_.plan = Sha256Of(plan_);
    task_.inputs = {{"model", {BlobId::Form::kModel, model->ComputeDigest()}}};
  }
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    MutexLock lock(mutex_);
    PollReply reply;
    reply.wait_ms = 10;
    if (request.working_on.empty()) {
      EXPECT_FALSE(given_ && over_instead_) << "whoever has said that it is over may be gone";
      if (given_) {
        reply.over = PollReply::Over{.sentence = "finished after round 1"};
      } else {
        reply.tasks = {task_};
      }
      given_ = true;
      return reply;
    }
    beats_.push_back(request);
    if (beats_.size() == 2) return Unavailable("the connection was lost");
    if (beats_.size() < 4) return reply;
    if (over_instead_) {
      reply.over = PollReply::Over{.failed = true, .sentence = "the run has failed"};
    } else {
      reply.cancelled = {"task"};
    }
    return reply;
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId& blob, int64_t) override {
    return std::make_unique<Whole>(blob.digest == task_.plan ? plan_ : model_);
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return NotFound("nobody trains to the end");
  }
  Status Fail(const Caller&, const TaskFailure& failure) override {
    ADD_FAILURE() << SentenceOf(failure);
    return absl::OkStatus();
  }
  std::vector<PollRequest> beats() {
    MutexLock lock(mutex_);
    return beats_;
  }
  bool over_instead_ = false;

 private:
  class Whole : public ChunkReader {
   public:
    explicit Whole(std::string bytes) : bytes_(std::move(bytes)) {}
    int64_t total_bytes() const override { return static_cast<int64_t>(bytes_.size()); }
    StatusOr<std::span<const std::byte>> Next() override {
      return std::as_bytes(std::span(bytes_)).subspan(std::exchange(at_, bytes_.size()));
    }

   private:
    const std::string bytes_;
    size_t at_ = 0;
  };
  std::string plan_, model_;
  Task task_;
  Mutex mutex_;
  bool given_ GUARDED_BY(mutex_) = false;
  std::vector<PollRequest> beats_ GUARDED_BY(mutex_);
};

TEST(HeartbeatTest, TaskThatIsDead_EndsWithinASecondAndIsReportedToNobody) {
  for (const bool over : {false, true}) {
    ImpatientCoordinator coordinator;
    coordinator.over_instead_ = over;
    std::vector<TaskReport> reports;
    AgentOptions options;
    options.client_id = "site-1";
    options.data = {BoundData{.dataset = std::make_shared<MemoryDataset>(DigitRecords(25))}};
    options.observer.on_report = [&](const Task&, const TaskReport& report) { reports.push_back(report); };
    std::string told;
    options.observer.on_over = [&](const PollReply::Over& how) { told = how.sentence; };
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_OK(Agent(coordinator, std::move(options)).Run());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20))
        << "of which it may train all but one";
    EXPECT_EQ(told, over ? "the run has failed" : "finished after round 1");
    ASSERT_THAT(reports, SizeIs(1));
    EXPECT_EQ(reports[0].kind, TaskReport::Kind::kGone);
    EXPECT_EQ(reports[0].reason, "the coordinator needs it no longer");
    const std::vector<PollRequest> beats = coordinator.beats();
    ASSERT_THAT(beats, SizeIs(4));
    EXPECT_EQ(beats[0].working_on[0].task, "task");
    EXPECT_EQ(beats[0].want, 0);
    EXPECT_EQ(beats[0].hold_ms, 0);
    EXPECT_EQ(beats[0].caller.run_id, "run");
    EXPECT_EQ(beats[0].capabilities.datasets[0].examples, 25);
  }
}

TEST(HeartbeatTest, TaskThatHasEnded_IsNamedNoMoreAndTheNextOneLives) {
  ImpatientCoordinator coordinator;
  StopSignal stop;
  Heartbeat heartbeat(coordinator, stop);
  for (int i = 0; i < 50; ++i) {
    stop.BeginTask();
    heartbeat.Begin({.caller = {.name = "site-1"}}, "other", 1000);
    heartbeat.End();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(coordinator.beats(), SizeIs(0));
  EXPECT_FALSE(stop.task_cancelled());
}

TEST(StopSignalTest, CancelledTask_IsNotStopped) {
  StopSignal stop;
  stop.CancelTask();
  EXPECT_TRUE(stop.task_cancelled());
  EXPECT_TRUE(stop.token().cancelled());
  EXPECT_FALSE(stop.stopped());
  EXPECT_TRUE(stop.Sleep(1));
  stop.BeginTask();
  EXPECT_FALSE(stop.token().cancelled());
  stop.Stop();
  EXPECT_TRUE(stop.token().cancelled());
  stop.BeginTask();
  EXPECT_TRUE(stop.token().cancelled()) << "stopped once, it stays so";
}

// Answers beats alone, each late, and that the run is over.
class DistantCoordinator final : public ImpatientCoordinator {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override {
    asked_ = true;
    asked_.notify_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return PollReply{.over = PollReply::Over{.sentence = "finished after round 1"}};
  }
  void WaitUntilAsked() { asked_.wait(false); }

 private:
  std::atomic<bool> asked_ = false;
};

TEST(HeartbeatTest, EndWhileABeatIsUnderWay_KnowsWhatItWasTold) {
  DistantCoordinator coordinator;
  StopSignal stop;
  Heartbeat heartbeat(coordinator, stop);
  heartbeat.Begin({}, "task", 1);
  coordinator.WaitUntilAsked();
  heartbeat.End();
  ASSERT_TRUE(heartbeat.over().has_value()) << "the coordinator that said so may be gone";
  EXPECT_EQ(heartbeat.over()->sentence, "finished after round 1");
}

// Holds polls that tell of steps until there is news, and answers others at once.
class HoldingCoordinator final : public ImpatientCoordinator {
 public:
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    std::unique_lock lock(held_mutex_);
    polls_.push_back(request);
    news_.notify_all();
    PollReply reply{.wait_ms = 60'000};
    if (request.hold_ms == 0) return reply;
    news_.wait(lock, [this] { return next_.has_value(); });
    return *std::exchange(next_, std::nullopt);
  }
  void Tell(PollReply reply) {
    const std::lock_guard lock(held_mutex_);
    next_ = std::move(reply);
    news_.notify_all();
  }
  PollRequest AwaitPoll(size_t index) {
    std::unique_lock lock(held_mutex_);
    news_.wait(lock, [&] { return polls_.size() > index; });
    return polls_[index];
  }

 private:
  std::mutex held_mutex_;
  std::condition_variable news_;
  std::vector<PollRequest> polls_;
  std::optional<PollReply> next_;
};

// Of one task, at the step that it was told last.
class CountedSteps final : public StepWork {
 public:
  std::vector<TaskProgress> InHand() const override {
    const std::lock_guard lock(mutex_);
    if (step_ < 0) return {};
    return {{.task = "task", .step = step_}};
  }
  void Take(const Caller&, const PollReply& reply, bool beside) override {
    EXPECT_TRUE(beside);
    const std::lock_guard lock(mutex_);
    for (const Task& task : reply.tasks) step_ = task.step;
    taken_.notify_all();
  }
  void Answer(const Caller&, bool) override {}
  bool HasUnsent() const override {
    const std::lock_guard lock(mutex_);
    return unsent_;
  }
  void Set(int step) {
    const std::lock_guard lock(mutex_);
    step_ = step;
  }
  void AwaitStep(int step) {
    std::unique_lock lock(mutex_);
    taken_.wait(lock, [&] { return step_ == step; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable taken_;
  int step_ = -1;
  bool unsent_ = false;
};

TEST(HeartbeatTest, StepsThatBegin_AreAskedForAtOnce_AndTheirPollsAreHeld) {
  HoldingCoordinator coordinator;
  StopSignal stop;
  CountedSteps steps;
  Heartbeat heartbeat(coordinator, stop);
  heartbeat.Begin({}, "task", 60'000, &steps);
  steps.Set(0);
  heartbeat.StepsBegan();
  PollRequest poll = coordinator.AwaitPoll(0);
  EXPECT_EQ(poll.working_on.at(0).task, "task");
  EXPECT_EQ(poll.want, 0);
  EXPECT_EQ(poll.hold_ms, 60'000);
  EXPECT_TRUE(poll.told);
  coordinator.Tell({.tasks = {{.id = "task", .step = 1}}, .wait_ms = 60'000});
  poll = coordinator.AwaitPoll(1);
  ASSERT_THAT(poll.working_on, SizeIs(1));
  EXPECT_EQ(poll.working_on[0].step, 1);
  // Nobody waits for a poll that is held; what it brings is not lost, and ends no later task.
  heartbeat.End();
  coordinator.Tell({.tasks = {{.id = "task", .step = 2}}, .cancelled = {"task"}});
  steps.AwaitStep(2);
  EXPECT_FALSE(stop.task_cancelled());
}

TEST(HeartbeatTest, EndOfTheRunThatAHeldPollBrings_EndsAnyCall) {
  HoldingCoordinator coordinator;
  StopSignal stop;
  CountedSteps steps;
  steps.Set(0);
  Heartbeat heartbeat(coordinator, stop);
  heartbeat.Begin({}, "task", 1, &steps);
  coordinator.AwaitPoll(0);
  heartbeat.End();
  coordinator.Tell({.over = PollReply::Over{.sentence = "finished after round 1"}});
  while (!stop.task_cancelled()) std::this_thread::yield();
  ASSERT_TRUE(heartbeat.over().has_value());
}

}  // namespace
}  // namespace rivulet
