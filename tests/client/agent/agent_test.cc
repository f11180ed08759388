#include "client/agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "federated/plan/download_bounds.h"
#include "proto/federated/update.pb.h"
#include "tests/client/agent/flaky_coordinator.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::AgentTest;
using testing::DigitRecords;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;
using testing::PlanBytes;
using ::testing::SizeIs;

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

TEST_F(AgentTest, PlanOfMoreThan64Megabytes_IsReportedAndTheClientGoesOn) {
  coordinator_.blobs_[coordinator_.task_.plan].resize(64'000'001);
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_THAT(reports_[0].reason, HasSubstr("announced 64000001 bytes"));
  EXPECT_THAT(coordinator_.failures_, ElementsAre(HasSubstr("the plan cannot be carried out there")));
  EXPECT_EQ(finished_, "finished after round 1");
}

TEST_F(AgentTest, PlanBeyondTheSitesBudget_IsReportedAsThat) {
  AgentOptions options = Options();
  options.memory_budget = 1000;
  ASSERT_OK(Agent(coordinator_, std::move(options)).Run());
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_THAT(reports_[0].reason, HasSubstr("at most 1000 are taken"));
}

TEST_F(AgentTest, ModelBeyondThePlansLayout_IsReportedAndTheClientGoesOn) {
  const Digest model = coordinator_.task_.input("model")->id.digest;
  coordinator_.blobs_[model].resize(static_cast<size_t>(MaxModelBytes(*LocalPlan()->layout()) + 1));
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_THAT(reports_[0].reason, HasSubstr("announced"));
  EXPECT_THAT(coordinator_.fetch_offsets_[model], ElementsAre(0));
  EXPECT_THAT(coordinator_.failures_, SizeIs(1));
  EXPECT_EQ(finished_, "finished after round 1");
}

TEST_F(AgentTest, MoreMemoryThanThereIs_IsRefusedWithoutABudgetToo) {
  AgentOptions options = Options();
  int asked = 0;
  options.available_memory = [&] { return ++asked == 1 ? 50'000 : int64_t{1} << 40; };
  coordinator_.tasks_ = 3;
  ASSERT_OK(Agent(coordinator_, std::move(options)).Run());
  ASSERT_THAT(reports_, SizeIs(3));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kFailed);
  EXPECT_THAT(reports_[0].reason, HasSubstr("0.1 MB are available here"));
  EXPECT_THAT(coordinator_.failures_, ElementsAre(HasSubstr("memory")));
  EXPECT_EQ(reports_[1].kind, TaskReport::Kind::kAccepted);
  EXPECT_EQ(reports_[2].kind, TaskReport::Kind::kAccepted);
  EXPECT_EQ(asked, 2) << "once the plan's memory is taken there is nothing to ask";
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
  EXPECT_THAT(reports_[0].reason, HasSubstr("take part with rivulet.run_client of the Python package"));
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
  options.data[0].name = "other";
  ASSERT_OK(Agent(coordinator_, options).Run());
  ASSERT_THAT(coordinator_.failures_, SizeIs(1));
  EXPECT_EQ(coordinator_.failures_[0], "it has no examples in a data set 'train'");
  EXPECT_THAT(reports_[0].reason, HasSubstr("'train', but this client has bound 'other'"));
}

TEST_F(AgentTest, SeveralDataSets_AreOfferedAndThePlansIsTrainedOn) {
  AgentOptions options = Options();
  options.data.insert(
      options.data.begin(),
      {.name = "ward", .dataset = std::make_shared<MemoryDataset>(std::vector<std::string>(3, "no record"))});
  ASSERT_OK(Agent(coordinator_, options).Run());
  const std::vector<DatasetOffer>& offers = coordinator_.capabilities_.datasets;
  ASSERT_THAT(offers, SizeIs(2));
  EXPECT_EQ(offers[0].name, "ward");
  EXPECT_EQ(offers[0].examples, 3);
  EXPECT_EQ(offers[1].name, "train");
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kAccepted);
  EXPECT_EQ(reports_[0].examples, 25);
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
  options.data[0].dataset = std::make_shared<MemoryDataset>(records);
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
