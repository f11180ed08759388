#include "client/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <numeric>

#include "federated/updates/block_crcs.h"
#include "proto/federated/update.pb.h"
#include "tests/client/local_plan.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::DigitRecords;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;
using testing::PlanBytes;
using ::testing::SizeIs;

// A coordinator of one client: gives out its tasks one after the other, then says that the run is over. Connections
// break where a test says.
class FlakyCoordinator : public CoordinatorApi {
 public:
  FlakyCoordinator() {
    const std::string plan = PlanBytes(LocalScenario());
    const auto model = PatternModel(*LocalPlan());
    const std::string blob = ModelToSafetensors(*model, {});
    task_.run_id = "run";
    task_.client_id = "site-1";
    task_.plan = AddBlob(plan);
    task_.inputs = {{"model", {BlobId::Form::kModel, model->ComputeDigest()}}};
    blobs_[model->ComputeDigest()] = blob;
  }
  Digest AddBlob(const std::string& bytes) {
    const Digest digest = Sha256Of(bytes);
    blobs_[digest] = bytes;
    return digest;
  }

  StatusOr<PollReply> Poll(const PollRequest& request) override {
    const Caller& caller = request.caller;
    runs_asked_.push_back(caller.run_id);
    if (!caller.run_id.empty() && caller.run_id != task_.run_id) return NotFound("no run {}", caller.run_id);
    capabilities_ = request.capabilities;
    ++polls_;
    if (!poll_errors_.empty()) {
      const Status error = poll_errors_.front();
      poll_errors_.pop_front();
      return error;
    }
    PollReply reply;
    reply.outcomes = outcomes_;
    if (waits_ > 0) {
      --waits_;
      reply.wait_ms = 70;
      reply.awaited.sentence = "4 more clients";
    } else if (tasks_ > 0) {
      reply.tasks.push_back(task_);
      reply.tasks[0].id = NextTask();
    } else {
      reply.over = PollReply::Over{.failed = over_failed_, .sentence = "finished after round 1"};
    }
    return reply;
  }

  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId& blob, int64_t offset) override {
    fetch_offsets_[blob.digest].push_back(offset);
    if (!blobs_.contains(blob.digest) || (blob.form == BlobId::Form::kModel && lost_ > 0 && lost_--)) {
      return NotFound("no blob {}", blob.digest.Hex());
    }
    return std::make_unique<Reader>(*this, blobs_[blob.digest], offset);
  }

  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission& submission) override {
    ++submits_;
    if (!submit_errors_.empty()) {
      const Status error = submit_errors_.front();
      submit_errors_.pop_front();
      return error;
    }
    submitted_task_ = submission.task;
    bytes_ = submission.bytes;
    train_seconds_ = submission.measured.train_seconds;
    return std::make_unique<Writer>(*this);
  }

  Status Fail(const Caller&, const TaskFailure& failure) override {
    if (!fail_errors_.empty()) {
      const Status error = fail_errors_.front();
      fail_errors_.pop_front();
      return error;
    }
    EXPECT_EQ(failure.sentence, "");  // it stays here
    failures_.push_back(SentenceOf(failure));
    EXPECT_EQ(failure.task, NextTask());
    --tasks_;
    return absl::OkStatus();
  }

  TaskId NextTask() const {
    return named_ ? fmt::format("run-r{}-a1-site-1-0", tasks_) : fmt::format("task-{}", tasks_);
  }
  bool named_ = false;  // as a coordinator names tasks
  bool over_failed_ = false;
  std::vector<TaskOutcome> outcomes_;
  std::string next_run_;  // served once the first task is done
  int tasks_ = 1, waits_ = 0, polls_ = 0;
  int read_breaks_ = 0, write_breaks_ = 0, corruptions_ = 0, damages_ = 0;
  std::deque<Status> poll_errors_, submit_errors_, finish_errors_, fail_errors_;
  Task task_;
  std::map<Digest, std::string> blobs_;
  Capabilities capabilities_;
  std::vector<std::string> runs_asked_, failures_;
  std::map<Digest, std::vector<int64_t>> fetch_offsets_;
  int submits_ = 0;
  bool answer_lost_ = false;
  int lost_ = 0;  // so often the model is not there
  std::optional<SubmitResult> decided_;
  std::string staged_;
  TaskId submitted_task_;
  int64_t bytes_ = 0;
  double train_seconds_ = 0;
  SubmitResult result_;

 private:
  class Reader : public ChunkReader {
   public:
    Reader(FlakyCoordinator& owner, std::string blob, int64_t offset)
        : owner_(owner), blob_(std::move(blob)), at_(offset) {}
    int64_t total_bytes() const override { return static_cast<int64_t>(blob_.size()); }
    StatusOr<std::span<const std::byte>> Next() override {
      if (owner_.read_breaks_ > 0 && chunks_ == 1) {
        --owner_.read_breaks_;
        return Unavailable("connection lost");
      }
      if (owner_.damages_ > 0 && chunks_ == 1) {
        --owner_.damages_;
        return DataLoss("a chunk came damaged");
      }
      ++chunks_;
      const size_t size = std::min<size_t>(1000, blob_.size() - static_cast<size_t>(at_));
      if (owner_.corruptions_ > 0 && size > 0) {
        --owner_.corruptions_;
        blob_[static_cast<size_t>(at_)] ^= 1;
      }
      const auto chunk = std::as_bytes(std::span(blob_)).subspan(static_cast<size_t>(at_), size);
      at_ += static_cast<int64_t>(size);
      return chunk;
    }

   private:
    FlakyCoordinator& owner_;
    std::string blob_;
    int64_t at_;
    int chunks_ = 0;
  };

  class Writer : public ChunkWriter {
   public:
    explicit Writer(FlakyCoordinator& owner) : owner_(owner) {}
    const SubmitResult* decided() const override { return owner_.decided_ ? &*owner_.decided_ : nullptr; }
    std::span<const uint32_t> staged_crcs() const override { return {}; }
    Status Resume(int64_t offset) override {
      owner_.staged_.resize(static_cast<size_t>(offset));
      return absl::OkStatus();
    }
    Status Write(std::span<const std::byte> chunk) override {
      if (owner_.write_breaks_ > 0 && chunks_++ == 2) {
        --owner_.write_breaks_;
        return Unavailable("connection lost");
      }
      owner_.staged_.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
      return absl::OkStatus();
    }
    StatusOr<SubmitResult> Finish(const Digest& identity) override {
      if (!owner_.finish_errors_.empty()) {
        const Status error = owner_.finish_errors_.front();
        owner_.finish_errors_.pop_front();
        return error;
      }
      EXPECT_EQ(static_cast<int64_t>(owner_.staged_.size()), owner_.bytes_);
      BlockCrcs crcs;
      crcs.Append(std::as_bytes(std::span(owner_.staged_)));
      EXPECT_EQ(crcs.Identity(0), identity);
      --owner_.tasks_;
      if (!owner_.next_run_.empty()) owner_.task_.run_id = owner_.next_run_;
      if (owner_.answer_lost_) {
        owner_.decided_ = SubmitResult{SubmitResult::Kind::kDuplicate, ""};
        return Unavailable("connection lost");
      }
      return owner_.result_;
    }

   private:
    FlakyCoordinator& owner_;
    int chunks_ = 0;
  };
};

class AgentTest : public ::testing::Test {
 protected:
  AgentOptions Options() {
    AgentOptions options;
    options.client_id = "site-1";
    options.version = "1";
    options.data.dataset = std::make_shared<MemoryDataset>(DigitRecords(25));
    options.chunk_bytes = 4096;
    options.sleep = [this](int64_t ms) {
      waits_.push_back(ms);
      if (on_sleep_) on_sleep_();
    };
    options.observer.on_report = [this](const Task&, const TaskReport& report) { reports_.push_back(report); };
    options.observer.on_over = [this](const PollReply::Over& over) { finished_ = over.sentence; };
    return options;
  }

  FlakyCoordinator coordinator_;
  std::vector<int64_t> waits_;
  std::vector<TaskReport> reports_;
  std::string finished_;
  std::function<void()> on_sleep_;
};

TEST_F(AgentTest, OneTask_IsTrainedAndSubmittedAndTheRunEnds) {
  const Status status = Agent(coordinator_, Options()).Run();
  ASSERT_OK(status);
  EXPECT_EQ(finished_, "finished after round 1");
  EXPECT_EQ(coordinator_.submitted_task_, "task-1");
  EXPECT_EQ(coordinator_.capabilities_.protocol, kProtocol);
  ASSERT_THAT(coordinator_.capabilities_.datasets, SizeIs(1));
  EXPECT_EQ(coordinator_.capabilities_.datasets[0].name, "train");
  EXPECT_EQ(coordinator_.capabilities_.datasets[0].examples, 25);
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kAccepted);
  EXPECT_EQ(reports_[0].examples, 25);
  EXPECT_EQ(reports_[0].bytes_up, coordinator_.bytes_);
  proto::Update update;
  ASSERT_TRUE(update.ParseFromString(coordinator_.staged_));
  EXPECT_EQ(update.scalars().at("examples"), 25);
  EXPECT_GT(coordinator_.train_seconds_, 0);
  EXPECT_THAT(waits_, SizeIs(0));
}

TEST_F(AgentTest, MoreMemoryThanAllowed_IsRefusedWithAReasonBeforeTheModelComes) {
  AgentOptions options = Options();
  options.memory_budget = 50'000;
  ASSERT_OK(Agent(coordinator_, std::move(options)).Run());
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kFailed);
  EXPECT_THAT(reports_[0].reason, HasSubstr("budget.memory_megabytes"));
  EXPECT_THAT(coordinator_.failures_, ElementsAre(HasSubstr("memory")));
  EXPECT_THAT(coordinator_.fetch_offsets_[coordinator_.task_.input("model")->id.digest], SizeIs(0));
}

TEST_F(AgentTest, UnwillingForAWhile_AsksForNothingUntilItIsOver) {
  AgentOptions options = Options();
  int unwilling = 3;
  options.unwilling = [&] { return unwilling-- > 0 ? "the machine is busy" : ""; };
  std::vector<std::string> said;
  options.observer.on_wait = [&](const Awaited& awaited, int64_t) {
    EXPECT_EQ(coordinator_.polls_, 0);
    said.push_back(awaited.sentence);
  };
  ASSERT_OK(Agent(coordinator_, std::move(options)).Run());
  EXPECT_THAT(said, ElementsAre("the machine is busy", "the machine is busy", "the machine is busy"));
  EXPECT_THAT(reports_, SizeIs(1));
}

TEST_F(AgentTest, UploadRate_IsWaitedForBetweenChunks) {
  AgentOptions options = Options();
  options.max_upload_rate = 1'000'000;
  ASSERT_OK(Agent(coordinator_, std::move(options)).Run());
  // 31 kB, of which chunks of 4 kB wait some ms for each other.
  EXPECT_GT(std::accumulate(waits_.begin(), waits_.end(), int64_t{0}), 20);
  EXPECT_THAT(reports_, SizeIs(1));
}

TEST_F(AgentTest, SecondTaskOfTheSameVersion_FetchesNothingAgain) {
  coordinator_.tasks_ = 2;
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_THAT(coordinator_.fetch_offsets_[coordinator_.task_.plan], ElementsAre(0));
  EXPECT_THAT(coordinator_.fetch_offsets_[coordinator_.task_.input("model")->id.digest], ElementsAre(0));
  EXPECT_THAT(reports_, SizeIs(2));
}

// What happens to an agent whose finished work is held on disk: tasks with names that a coordinator gives.
class HeldAgentTest : public AgentTest {
 protected:
  HeldAgentTest() { coordinator_.named_ = true; }
  // As the next process would be.
  AgentOptions WithHeld() {
    AgentOptions options = Options();
    const auto note = [this](const std::string& sentence) { said_.push_back(sentence); };
    options.held = std::make_shared<HeldUpdates>(FileSystem::Default(), folder_.path(), "site-1",
                                                 HeldUpdates::Options{.on_note = note});
    return options;
  }
  Status RunAgent() { return Agent(coordinator_, WithHeld()).Run(); }
  bool HoldsTask() {
    Task task = coordinator_.task_;
    task.id = "run-r1-a1-site-1-0";
    return WithHeld().held->Find(task).has_value();
  }

  const testing::TempFolder folder_;
  std::vector<std::string> said_;
};

TEST_F(HeldAgentTest, KilledBeforeItWasSent_SendsItAgainWithoutTraining) {
  coordinator_.submit_errors_ = {absl::PermissionDeniedError("turned away")};  // the end of the first process
  EXPECT_THAT(RunAgent(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("turned away")));
  ASSERT_TRUE(HoldsTask());
  ASSERT_OK(RunAgent());
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_TRUE(reports_[0].resent);
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kAccepted);
  EXPECT_EQ(reports_[0].examples, 25);
  EXPECT_EQ(reports_[0].bytes_up, coordinator_.bytes_);
  EXPECT_GT(coordinator_.train_seconds_, 0);
  // The second process fetched the plan, which this site might allow no more, and no model.
  EXPECT_THAT(coordinator_.fetch_offsets_[coordinator_.task_.plan], ElementsAre(0, 0));
  EXPECT_THAT(coordinator_.fetch_offsets_[coordinator_.task_.input("model")->id.digest], ElementsAre(0));
  const std::string resent = coordinator_.staged_;
  coordinator_.tasks_ = 1;
  ASSERT_OK(Agent(coordinator_, Options()).Run());  // trained
  EXPECT_FALSE(reports_[1].resent);
  EXPECT_EQ(coordinator_.staged_, resent);
}

TEST_F(HeldAgentTest, AcknowledgedAndOfferedAgain_IsSentAgainUntilItIsDurable) {
  coordinator_.over_failed_ = true;  // a coordinator that died: nobody said that the run has finished
  ASSERT_OK(RunAgent());
  EXPECT_TRUE(HoldsTask());
  coordinator_.tasks_ = 1;
  ASSERT_OK(RunAgent());
  ASSERT_THAT(reports_, SizeIs(2));
  EXPECT_FALSE(reports_[0].resent);
  EXPECT_TRUE(reports_[1].resent);
  EXPECT_TRUE(HoldsTask());
  coordinator_.outcomes_ = {{"run-r1-a1-site-1-0", TaskEnd::kFolded, "", true}};
  ASSERT_OK(RunAgent());
  EXPECT_FALSE(HoldsTask());
  EXPECT_THAT(said_, SizeIs(0));
}

TEST_F(HeldAgentTest, RunThatHasFinished_LeavesNothingHeld) {
  ASSERT_OK(RunAgent());
  EXPECT_FALSE(HoldsTask());
}

TEST_F(HeldAgentTest, TaskThatDied_IsDroppedWithOneLine) {
  coordinator_.over_failed_ = true;
  ASSERT_OK(RunAgent());
  coordinator_.outcomes_ = {{"run-r1-a1-site-1-0", TaskEnd::kDropped, "its round was abandoned", false}};
  coordinator_.waits_ = 3;
  ASSERT_OK(RunAgent());
  EXPECT_THAT(said_, ElementsAre("the finished update of round 1 is dropped: its round was abandoned"));
  EXPECT_FALSE(HoldsTask());
}

TEST_F(HeldAgentTest, RefusedUpdate_IsNotHeld) {
  coordinator_.over_failed_ = true;
  coordinator_.result_ = {SubmitResult::Kind::kRefused, "not a number"};
  ASSERT_OK(RunAgent());
  EXPECT_FALSE(HoldsTask());
  EXPECT_THAT(said_, ElementsAre("the finished update of round 1 is dropped: not a number"));
}

TEST_F(HeldAgentTest, SiteThatForbidsThePlanByNow_SendsNothing) {
  coordinator_.submit_errors_ = {absl::PermissionDeniedError("turned away")};
  EXPECT_THAT(RunAgent(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("turned away")));
  AgentOptions options = WithHeld();
  options.artifacts = std::make_shared<ArtifactCache>(
      "", nullptr, [](const Plan&) -> Status { return FailedPrecondition("this site allows no plan"); });
  ASSERT_OK(Agent(coordinator_, std::move(options)).Run());
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kFailed);
  EXPECT_THAT(reports_[0].reason, HasSubstr("this site allows no plan"));
  EXPECT_EQ(coordinator_.staged_, "");
}

TEST_F(AgentTest, CoordinatorAway_WaitsLongerAndLongerUpToTheCap) {
  for (int i = 0; i < 10; ++i) coordinator_.poll_errors_.push_back(Unavailable("no coordinator"));
  AgentOptions options = Options();
  options.backoff = {.initial_ms = 100, .max_ms = 1000, .factor = 2};
  int retries = 0;
  options.observer.on_retry = [&](const Status& status, int64_t) {
    ++retries;
    EXPECT_EQ(Message(status), "no coordinator");
  };
  ASSERT_OK(Agent(coordinator_, options).Run());
  EXPECT_EQ(retries, 10);
  ASSERT_THAT(waits_, SizeIs(10));
  for (size_t i = 0; i < 10; ++i) {
    const double full = std::min(1000.0, 100.0 * (1 << i));
    EXPECT_GE(waits_[i], static_cast<int64_t>(full / 2));
    EXPECT_LE(waits_[i], static_cast<int64_t>(full));
  }
  const std::vector<int64_t> first = waits_;
  EXPECT_NE(std::vector<int64_t>(first.end() - 4, first.end()), std::vector<int64_t>(4, first.back()));  // jitter
}

TEST_F(AgentTest, Jitter_DependsOnTheNameAlone) {
  Backoff a({}, "a"), again({}, "a"), b({}, "b");
  std::vector<int64_t> of_a, of_again, of_b;
  for (int i = 0; i < 8; ++i) {
    of_a.push_back(a.NextMs());
    of_again.push_back(again.NextMs());
    of_b.push_back(b.NextMs());
  }
  EXPECT_EQ(of_a, of_again);
  EXPECT_NE(of_a, of_b);
}

TEST_F(AgentTest, ToldToWait_WaitsAsLongAsItIsTold) {
  coordinator_.waits_ = 2;
  AgentOptions options = Options();
  std::string awaited;
  options.observer.on_wait = [&](const Awaited& what, int64_t) { awaited = what.sentence; };
  ASSERT_OK(Agent(coordinator_, options).Run());
  EXPECT_THAT(waits_, ElementsAre(70, 70));
  EXPECT_EQ(awaited, "4 more clients");
}

TEST_F(AgentTest, FetchCut_GoesOnAtTheOffsetReached) {
  coordinator_.read_breaks_ = 1;  // of the plan: the first blob
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_THAT(coordinator_.fetch_offsets_[coordinator_.task_.plan], ElementsAre(0, 1000));
  EXPECT_THAT(reports_, SizeIs(1));
}

TEST_F(AgentTest, SubmitCut_SubmitsAgain) {
  coordinator_.write_breaks_ = 1;
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_EQ(coordinator_.submits_, 2);
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kAccepted);
}

TEST_F(AgentTest, AnswerToTheLastChunkLost_IsToldThatTheTaskIsDone) {
  coordinator_.answer_lost_ = true;
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_EQ(coordinator_.submits_, 2);
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kDuplicate);
}

TEST_F(AgentTest, NewerUploadOfTheTask_WaitsLongerEachTimeAndDoesNotFailIt) {
  for (int i = 0; i < 4; ++i) coordinator_.finish_errors_.push_back(Unavailable("a newer connection goes on"));
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_EQ(coordinator_.submits_, 5);
  ASSERT_THAT(waits_, SizeIs(4));
  EXPECT_GT(waits_[3], waits_[0]);
  EXPECT_THAT(coordinator_.failures_, SizeIs(0));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kAccepted);
}

TEST_F(AgentTest, UpdateArrivesDamaged_IsSentAgainAndAfterThreeTimesItFails) {
  coordinator_.tasks_ = 2;
  for (int i = 0; i < 5; ++i) coordinator_.finish_errors_.push_back(DataLoss("another identity"));
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_EQ(coordinator_.submits_, 3 + 3);
  ASSERT_THAT(reports_, SizeIs(2));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kFailed);
  EXPECT_THAT(coordinator_.failures_, SizeIs(1));
  EXPECT_EQ(reports_[1].kind, TaskReport::Kind::kAccepted);
}

TEST_F(AgentTest, StagingFull_TriesAgainLater) {
  coordinator_.submit_errors_.push_back(ResourceExhausted("staging is full"));
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_EQ(coordinator_.submits_, 2);
  EXPECT_THAT(waits_, SizeIs(1));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kAccepted);
}

TEST_F(AgentTest, BlobDamagedOnce_IsFetchedAgain) {
  coordinator_.corruptions_ = 1;
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_THAT(coordinator_.fetch_offsets_[coordinator_.task_.plan], ElementsAre(0, 0));
  EXPECT_THAT(coordinator_.failures_, SizeIs(0));
}

TEST_F(AgentTest, BlobDamagedAlways_FailsTheTaskWithItsDigest) {
  coordinator_.corruptions_ = 1000;
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  ASSERT_THAT(coordinator_.failures_, SizeIs(1));
  EXPECT_EQ(coordinator_.failures_[0], "the plan cannot be carried out there");
  EXPECT_THAT(reports_[0].reason, HasSubstr(coordinator_.task_.plan.Hex()));
}

TEST_F(AgentTest, PlanThatIsNone_FailsTheTask) {
  coordinator_.task_.plan = coordinator_.AddBlob("this is no plan");
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_THAT(coordinator_.failures_, SizeIs(1));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kFailed);
}

TEST_F(AgentTest, PlanWithoutAGraph_IsRefusedByName) {
  const Scenario scenario = LocalScenario();
  ModelDef arrays;
  arrays.variables = {{"w", {DType::kFloat32, {3}}}};
  const auto plan = ComposePlan(scenario, arrays);
  ASSERT_OK(plan);
  coordinator_.task_.plan = coordinator_.AddBlob((*plan)->bytes());
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  ASSERT_THAT(coordinator_.failures_, SizeIs(1));
  EXPECT_EQ(coordinator_.failures_[0],
            "the plan has no graph, and it runs graphs; clients of the Python package train such a model");
  EXPECT_THAT(reports_[0].reason, HasSubstr("take part with the Python package, whose rivulet.run_client does it"));
}

TEST_F(AgentTest, ModelWithAnotherDigestThanAnnounced_FailsTheTask) {
  const Digest announced = Sha256Of("another model");
  coordinator_.blobs_[announced] = coordinator_.blobs_[coordinator_.task_.inputs[0].id.digest];
  coordinator_.task_.inputs[0].id.digest = announced;
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  ASSERT_THAT(coordinator_.failures_, SizeIs(1));
  EXPECT_EQ(coordinator_.failures_[0], "the model to start from did not arrive there as the plan wants it");
  EXPECT_THAT(reports_[0].reason, HasSubstr(announced.Hex()));
}

// As of a coordinator that was killed and makes the version again.
TEST_F(AgentTest, BlobGoneForATime_TheTaskIsDoneWhenItIsThere) {
  coordinator_.lost_ = 2;
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_THAT(coordinator_.failures_, ::testing::IsEmpty());
  ASSERT_THAT(reports_, SizeIs(3));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kGone);
  EXPECT_EQ(reports_[2].kind, TaskReport::Kind::kAccepted);
}

TEST_F(AgentTest, BlobGone_FailsTheTask) {
  coordinator_.task_.inputs[0].id.digest = Sha256Of("gone");
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  ASSERT_THAT(coordinator_.failures_, SizeIs(1));
  EXPECT_THAT(coordinator_.failures_[0], HasSubstr("the model to start from"));
  EXPECT_THAT(reports_[0].reason, HasSubstr("no blob"));
}

TEST_F(AgentTest, TaskWithoutAModel_FailsTheTask) {
  coordinator_.task_.inputs.clear();
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  ASSERT_THAT(coordinator_.failures_, SizeIs(1));
  EXPECT_THAT(coordinator_.failures_[0], HasSubstr("the model to start from"));
  EXPECT_THAT(reports_[0].reason, HasSubstr("names no model to start from"));
}

TEST_F(AgentTest, ChunkDamagedOnTheWay_IsFetchedAgainFromThere) {
  coordinator_.damages_ = 1;  // of the plan: the first blob
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_THAT(coordinator_.fetch_offsets_[coordinator_.task_.plan], ElementsAre(0, 1000));
  EXPECT_THAT(reports_, SizeIs(1));
}

TEST_F(AgentTest, PlanOfADataSetThatIsNotBound_FailsTheTask) {
  AgentOptions options = Options();
  options.data.name = "other";
  ASSERT_OK(Agent(coordinator_, options).Run());
  ASSERT_THAT(coordinator_.failures_, SizeIs(1));
  EXPECT_EQ(coordinator_.failures_[0], "it has no examples in a data set 'train'");
  EXPECT_THAT(reports_[0].reason, HasSubstr("'train', but this client has bound 'other'"));
}

TEST_F(AgentTest, KindOfTaskNotKnown_FailsTheTask) {
  coordinator_.task_.kind = TaskKind::kEvaluate;
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_THAT(coordinator_.failures_, ElementsAre("its program does not know how to evaluate; update it"));
}

// What its file is called and what is in it is nobody's business; which feature of the plan it is about, and which of
// its records, helps whoever runs the federation to help.
TEST_F(AgentTest, BadRecord_FailsTheTaskNamingIt) {
  AgentOptions options = Options();
  std::vector<std::string> records = DigitRecords(25);
  records[13] = testing::DigitExample(std::string(784, 'x'), 99);
  options.data.dataset = std::make_shared<MemoryDataset>(records);
  ASSERT_OK(Agent(coordinator_, options).Run());
  ASSERT_THAT(coordinator_.failures_, SizeIs(1));
  EXPECT_EQ(coordinator_.failures_[0], "feature 'label' of its record 13 cannot be used");
  EXPECT_THAT(reports_[0].reason, HasSubstr("memory.tfrecord: record 13 at byte"));
  EXPECT_THAT(reports_[0].reason, HasSubstr("'label' is 99"));
  EXPECT_THAT(waits_, SizeIs(1));  // no spinning on a task that comes back at once
}

TEST_F(AgentTest, FailureCannotBeTold_IsToldAgain) {
  coordinator_.task_.kind = TaskKind::kEvaluate;
  coordinator_.fail_errors_.push_back(Unavailable("connection lost"));
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_THAT(coordinator_.failures_, SizeIs(1));
}

// Whoever no longer knows of it says so at once; whoever drops it in the middle cuts the upload off.
TEST_F(AgentTest, TaskGoneWhileTrainingOrSending_IsLetGo) {
  for (const Status& gone : {NotFound("no such task"), Aborted("its round is over")}) {
    reports_.clear();
    coordinator_.submit_errors_.push_back(gone);
    coordinator_.tasks_ = 1;
    AgentOptions options = Options();
    on_sleep_ = [&] { coordinator_.tasks_ = 0; };
    ASSERT_OK(Agent(coordinator_, options).Run());
    ASSERT_THAT(reports_, SizeIs(1));
    EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kGone);
    EXPECT_THAT(coordinator_.failures_, SizeIs(0));
  }
}

TEST_F(AgentTest, UpdateRefused_IsReportedWithItsReason) {
  coordinator_.result_ = {SubmitResult::Kind::kRefused, "value 2000 is beyond 2^10"};
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kRefused);
  EXPECT_EQ(reports_[0].reason, "value 2000 is beyond 2^10");
}

TEST_F(AgentTest, TurnedAway_EndsWithTheCoordinatorsWords) {
  coordinator_.poll_errors_.push_back(PermissionDenied("'site-1' is revoked"));
  const Status status = Agent(coordinator_, Options()).Run();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied, "'site-1' is revoked"));
  EXPECT_EQ(coordinator_.polls_, 1);
}

TEST_F(AgentTest, CoordinatorServesAnotherRun_WorksForThatOne) {
  coordinator_.tasks_ = 2;
  coordinator_.next_run_ = "another-run";
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  EXPECT_THAT(coordinator_.runs_asked_, ElementsAre("", "run", "", "another-run"));
  EXPECT_THAT(reports_, SizeIs(2));
}

TEST_F(AgentTest, StoppedWhileItWaits_EndsCancelled) {
  coordinator_.waits_ = 1000;
  Agent* running = nullptr;
  on_sleep_ = [&] {
    if (waits_.size() == 3) running->Stop();
  };
  Agent agent(coordinator_, Options());
  running = &agent;
  EXPECT_THAT(agent.Run(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(coordinator_.polls_, 3);
}

TEST_F(AgentTest, StoppedOnTheWallClock_EndsAtOnce) {
  AgentOptions options = Options();
  options.sleep = nullptr;
  options.backoff.initial_ms = options.backoff.max_ms = 3'600'000;
  for (int i = 0; i < 10; ++i) coordinator_.poll_errors_.push_back(Unavailable("away"));
  Agent* running = nullptr;
  options.observer.on_retry = [&](const Status&, int64_t) { running->Stop(); };
  Agent agent(coordinator_, options);
  running = &agent;
  EXPECT_THAT(agent.Run(), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace rivulet
