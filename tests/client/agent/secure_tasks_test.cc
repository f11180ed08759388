// Tasks of secure sums while a call to the coordinator hangs: work without network use does not wait for it.
#include "client/agent/secure_tasks.h"

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "federated/tasks/task.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/secure_identities.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// A coordinator whose answer to a submission waits until the test lets it through.
class HangingCoordinator final : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return PollReply{}; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    return NotFound("no blob");
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission& submission) override {
    std::unique_lock lock(mutex_);
    steps_.push_back(submission.step);
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    return Aborted("the coordinator knows no such task");
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }
  void AwaitWork(const Caller&, uint64_t, int64_t) override {}

  void AwaitSubmission() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !steps_.empty(); });
  }
  void LetThrough() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  std::vector<int> steps() const {
    const std::lock_guard lock(mutex_);
    return steps_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::vector<int> steps_;
};

class SecureTasksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Scenario scenario = testing::LocalScenario();
    scenario.secure.protocol = "secagg_plus";
    scenario.privacy.clip = 1;
    scenario.data.partition.clients = scenario.server.clients_per_round = 5;
    plan_ = testing::LocalPlan(scenario);
    task_.run_id = "run";
    task_.client_id = "client-00000";
    task_.id = TaskIdOf("run", {.round = 1, .attempt = 1, .client_id = task_.client_id});
    task_.plan = plan_->digest();
    task_.inputs.push_back({"model", {.form = BlobId::Form::kModel, .digest = Sha256Of("model")}});
    ASSERT_OK(tasks_.Begin(*plan_, task_));
    answers_ = std::thread([this] { tasks_.Answer({.name = task_.client_id}, true); });
    coordinator_.AwaitSubmission();
  }
  void TearDown() override {
    coordinator_.LetThrough();
    if (answers_.joinable()) answers_.join();
  }

  std::shared_ptr<const Plan> plan_;
  Task task_;
  HangingCoordinator coordinator_;
  StopSignal stop_;
  const std::shared_ptr<const SecureIdentity> identity_ =
      testing::SecureIdentityOf(testing::SharedAuthority(), "client-00000");
  SecureTasks tasks_{coordinator_, stop_, {}, *identity_, nullptr};
  std::thread answers_;
};

// Each of these calls would wait for ever if it waited for the answer.
TEST_F(SecureTasksTest, WhileACallHangs_TrainingAndPollsGoOn) {
  ASSERT_THAT(tasks_.InHand(), SizeIs(1));
  EXPECT_EQ(tasks_.InHand()[0].step, 0);
  EXPECT_FALSE(tasks_.InHand()[0].held);
  EXPECT_FALSE(tasks_.HasLongAnswer());
  tasks_.SetWords(task_.id, std::string(8, 0), {});
  EXPECT_THAT(tasks_.TakeEnded(), IsEmpty());
  EXPECT_OK(tasks_.rejected());
  coordinator_.LetThrough();
  answers_.join();
  const auto ended = tasks_.TakeEnded(task_.id);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->kind, TaskReport::Kind::kGone);
  EXPECT_FALSE(stop_.task_cancelled()) << "its training was over";
}

// The end of the task is known before the call that answers it returns, and is told once.
TEST_F(SecureTasksTest, CancelledWhileACallHangs_EndsAtOnce) {
  std::thread takes([&] { tasks_.Take({.name = task_.client_id}, {.cancelled = {task_.id}}, true); });
  std::vector<SecureTasks::Ended> ended;
  while (ended.empty()) {
    ended = tasks_.TakeEnded();
    std::this_thread::yield();
  }
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].task.id, task_.id);
  EXPECT_EQ(ended[0].report.kind, TaskReport::Kind::kGone);
  EXPECT_TRUE(stop_.task_cancelled()) << "its training is for nothing";
  EXPECT_THAT(tasks_.InHand(), IsEmpty());
  coordinator_.LetThrough();
  takes.join();
  answers_.join();
  EXPECT_THAT(tasks_.TakeEnded(), IsEmpty());
  EXPECT_THAT(coordinator_.steps(), SizeIs(1));
}

TEST_F(SecureTasksTest, DroppedWhileACallHangs_IsToldOfNoMore) {
  tasks_.Drop(task_.id);
  EXPECT_THAT(tasks_.InHand(), IsEmpty());
  coordinator_.LetThrough();
  answers_.join();
  EXPECT_THAT(tasks_.TakeEnded(), IsEmpty());
}

// A coordinator that gives the test's answer to each call.
class AnsweringCoordinator final : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return PollReply{}; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    ++fetches;
    return NotFound("no such blob here; poll for the current task");
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    ++submissions;
    RIVULET_RETURN_IF_ERROR(answer);
    return std::make_unique<Taken>();
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }
  void AwaitWork(const Caller&, uint64_t, int64_t) override {}

  Status answer;
  int submissions = 0, fetches = 0;

 private:
  class Taken final : public ChunkWriter {
   public:
    const SubmitResult* decided() const override { return &result_; }
    std::span<const uint32_t> staged_crcs() const override { return {}; }
    Status Resume(int64_t) override { return absl::OkStatus(); }
    Status Write(std::span<const std::byte>) override { return absl::OkStatus(); }
    StatusOr<SubmitResult> Finish(const Digest&) override { return result_; }

   private:
    const SubmitResult result_;
  };
};

class RetriedStepsTest : public SecureTasksTest {
 protected:
  void SetUp() override {
    SecureTasksTest::SetUp();
    SecureTasksTest::TearDown();
    stop_.BeginTask();
    ASSERT_OK(steps_.Begin(*plan_, task_));
  }
  const Caller caller_ = {.name = "client-00000", .run_id = "run"};
  AnsweringCoordinator answering_;
  SecureTasks steps_{answering_, stop_, {.backoff = {.initial_ms = 1, .max_ms = 1}}, *identity_, nullptr};
};

// An aggregator that was started again does not know its clients before they poll: a call that went on for ever would
// keep its client from polling.
TEST_F(RetriedStepsTest, StepThatCannotBeSent_WaitsForThePollAfterAFewTries) {
  answering_.answer = Unavailable("this aggregator does not know the coordinator's answer; ask again");
  steps_.Answer(caller_, true);
  EXPECT_EQ(answering_.submissions, 3);
  EXPECT_TRUE(steps_.HasUnsent());
  ASSERT_THAT(steps_.InHand(), SizeIs(1));
  EXPECT_EQ(steps_.InHand()[0].step, 0);
  EXPECT_FALSE(steps_.InHand()[0].held);
  answering_.answer = absl::OkStatus();
  steps_.Take(caller_, {}, true);
  EXPECT_EQ(answering_.submissions, 4);
  EXPECT_FALSE(steps_.HasUnsent());
  EXPECT_TRUE(steps_.InHand()[0].held);
}

TEST_F(RetriedStepsTest, InputThatIsGone_IsAskedForAgain) {
  steps_.Answer(caller_, true);
  ASSERT_TRUE(steps_.InHand().at(0).held);
  Task next = task_;
  next.step = 1;
  next.inputs.push_back({"step", {.digest = Sha256Of("input")}});
  steps_.Take(caller_, {.tasks = {next}}, true);
  EXPECT_EQ(answering_.fetches, 1);
  EXPECT_TRUE(steps_.HasUnsent());
  ASSERT_THAT(steps_.InHand(), SizeIs(1)) << "the task has not ended";
  EXPECT_EQ(steps_.InHand()[0].step, 0);
  EXPECT_TRUE(steps_.InHand()[0].held) << "its next step has yet to come";
}

}  // namespace
}  // namespace rivulet
