// Sites in the coordinator's process: many tasks per poll, updates in a partial sum, no serialisation.
#include <gmock/gmock.h>

#include <atomic>
#include <set>
#include <thread>

#include "coordinator/coordinator.h"
#include "test_run.h"
#include "tests/testing/record_of.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kInPlaceElements = 3;

class InPlaceTest : public ::testing::Test {
 protected:
  explicit InPlaceTest(int64_t clients = 4, int64_t rounds = 2) {
    options_.scenario = TinyScenario(clients, clients, rounds);
    options_.db_path = folder_.db();
    options_.observer.on_progress = [this](int64_t round, int64_t folded, int64_t selected) {
      progress_.push_back(fmt::format("{}: {}/{}", round, folded, selected));
    };
    options_.observer.on_round = [this](const RoundReport& report) {
      reports_.push_back(report);
      ++reported_;
    };
    parts_ = TinyParts(kInPlaceElements, clients);
  }
  void Start(int64_t members = 0) {
    options_.population = NumberedPopulation(std::max(members, options_.scenario.data.partition.clients));
    auto created = CreateCoordinator(options_, parts_);
    ASSERT_OK(created);
    coordinator_ = *std::move(created);
  }

  // A site's own: what it holds, of which attempt.
  struct Worker {
    std::string name;
    std::vector<Task> tasks;
    std::vector<TaskProgress> news;
    std::map<uint64_t, std::unique_ptr<Aggregation>> open;
    std::map<uint64_t, std::vector<TaskRecord>> records;
  };
  PollReply Poll(Worker& worker, int64_t want) {
    PollRequest request;
    request.caller = As(worker.name);
    request.serves.kind = Serves::Kind::kAny;
    request.want = want;
    request.working_on = std::exchange(worker.news, {});
    for (const Task& task : worker.tasks) request.working_on.push_back({task.id, false});
    StatusOr<PollReply> reply = coordinator_->Poll(request);
    EXPECT_OK(reply);
    if (!reply.ok()) return {};
    worker.tasks.insert(worker.tasks.end(), reply->tasks.begin(), reply->tasks.end());
    return *std::move(reply);
  }
  // Does all tasks that the worker has.
  void Work(Worker& worker) {
    for (const Task& task : std::exchange(worker.tasks, {})) {
      const auto base = coordinator_->FetchInPlace(As(worker.name), task.input("model")->id);
      ASSERT_OK(base);
      const std::vector<float> delta = FakeDelta(task, **base);
      const int64_t examples = 10 + static_cast<int64_t>(task.client_id.back() - '0');
      auto& open = worker.open[task.gather];
      if (open == nullptr) open = *Aggregation::Create(parts_.aggregation);
      const PartView part{.name = "delta", .data = std::as_bytes(std::span(delta))};
      const Scalars declared = {{"examples", static_cast<double>(examples)}, {"steps", 6}, {"train_loss", 0.5}};
      TaskRecord record = RecordOf(task.id, declared);
      record.train_seconds = 0.25;
      const auto taken = open->Take({task.id, task.base_version, {&part, 1}, declared}, {.parts = {examples}});
      ASSERT_OK(taken);
      record.update_norm = taken->norm;
      worker.records[task.gather].push_back(record);
      worker.news.push_back({task.id, true});
    }
  }
  StatusOr<SubmitResult> HandOver(Worker& worker, uint64_t gather) {
    Aggregation& open = *worker.open.at(gather);
    return coordinator_->SubmitInPlace(As(worker.name), open.Extract(open.Save().at(0).base_version),
                                       std::exchange(worker.records[gather], {}));
  }
  History& Rows() {
    if (history_ == nullptr) history_ = *History::Open(options_.db_path, History::Access::kReadOnly);
    return *history_;
  }
  std::vector<ClientRoundRow> Tasks(int64_t round) { return Value(Rows().ClientRounds(coordinator_->run_id(), round)); }

  TestFolder folder_;
  CoordinatorOptions options_;
  RunParts parts_;
  std::vector<std::string> progress_;  // callbacks come one at a time
  std::vector<RoundReport> reports_;   // to be read when the run is over
  std::atomic<int> reported_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<History> history_;
  Worker one_{.name = "worker 0"}, two_{.name = "worker 1"};
};

// The whole of a run by two sites, whose partials meet, against the same clients sending theirs.
TEST_F(InPlaceTest, TwoSites_GiveTheModelsOfUploads) {
  CoordinatorOptions uploads;
  uploads.scenario = options_.scenario;
  TestFolder other;
  uploads.db_path = other.db();
  const auto expected = RunTiny(uploads, parts_, 4);
  ASSERT_OK(expected);

  Start();
  for (int64_t round = 1; round <= 2; ++round) {
    while (Poll(one_, 3).tasks.empty()) std::this_thread::yield();
    EXPECT_THAT(one_.tasks, SizeIs(round == 1 ? 2 : 1)) << "half of an even share is left for others";
    while (Poll(two_, 4).tasks.empty()) std::this_thread::yield();
    while (one_.tasks.size() + two_.tasks.size() < 4) Poll(two_, 4);
    Work(one_);
    EXPECT_THAT(Poll(one_, 4).hand_over, IsEmpty()) << "the other still trains";
    Work(two_);
    const PollReply second = Poll(two_, 4);
    ASSERT_THAT(second.hand_over, SizeIs(1));
    const PollReply first = Poll(one_, 4);
    ASSERT_THAT(first.hand_over, SizeIs(1));
    EXPECT_EQ(first.hand_over[0].gather, second.hand_over[0].gather);
    EXPECT_EQ(first.hand_over[0].tasks.size() + second.hand_over[0].tasks.size(), 4u);
    EXPECT_EQ(HandOver(two_, second.hand_over[0].gather)->kind, SubmitResult::Kind::kAccepted);
    EXPECT_EQ(HandOver(one_, first.hand_over[0].gather)->kind, SubmitResult::Kind::kAccepted);
  }
  ASSERT_OK(coordinator_->Wait());
  std::map<int64_t, std::string> digests;
  for (const RoundRow& round : Value(Rows().Rounds(coordinator_->run_id()))) digests[round.round] = round.model_digest;
  EXPECT_EQ(digests, *expected);
  EXPECT_TRUE(Poll(one_, 1).over);
  ASSERT_THAT(reports_, SizeIs(2));
  EXPECT_EQ(reports_[0].folded, 4);
  EXPECT_EQ(progress_.back(), "2: 4/4");
  const std::vector<ClientRoundRow> tasks = Tasks(1);
  ASSERT_THAT(tasks, SizeIs(4));
  EXPECT_EQ(tasks[3].status, "folded");
  EXPECT_EQ(tasks[3].client_id, "client-00003");
  EXPECT_EQ(tasks[3].examples, 13);
  EXPECT_EQ(tasks[3].weight, 13);
  EXPECT_EQ(tasks[3].steps, 6);
  EXPECT_EQ(tasks[3].train_loss, 0.5);
  EXPECT_EQ(tasks[3].train_seconds, 0.25);
  EXPECT_GT(tasks[3].update_norm, 0);
  EXPECT_EQ(tasks[3].update_digest, std::nullopt) << "no bytes, no digest";
  EXPECT_EQ(tasks[3].bytes_up, 0);
}

// The run goes on before the report is made; whoever listens cannot tell.
TEST_F(InPlaceTest, Report_IsHeardBeforeWhatComesAfterItsRound) {
  std::vector<std::string> heard;
  options_.scenario.run.rounds = 20;
  options_.observer.on_action = [&](const std::string& action) { heard.push_back(action); };
  options_.observer.on_round = [&](const RoundReport& report) {
    EXPECT_EQ(report.folded, 4);
    EXPECT_EQ(report.train_loss, 0.5);
    heard.push_back(fmt::format("told r{}", report.round));
  };
  Start();
  std::thread other([&] {
    while (!coordinator_->over()) {
      Poll(two_, 0);  // it runs callbacks too
      std::this_thread::yield();
    }
  });
  while (true) {
    const PollReply reply = Poll(one_, 4);
    if (reply.over) break;
    Work(one_);
    for (const auto& wanted : reply.hand_over) {
      ASSERT_OK(HandOver(one_, wanted.gather));
    }
  }
  other.join();
  ASSERT_OK(coordinator_->Wait());
  int64_t told = 0;
  for (const std::string& text : heard) {
    if (text.starts_with("told ")) {
      EXPECT_EQ(text, fmt::format("told r{}", ++told));
    } else if (text.starts_with("offer ")) {
      EXPECT_THAT(text, HasSubstr(fmt::format(" r{} ", told + 1)));
    }
  }
  EXPECT_EQ(told, 20);
}

// Members cost no row and no memory of their own; who is selected becomes a client of the run with its first task.
TEST_F(InPlaceTest, MembersWithoutTasks_HaveNoRows) {
  Start(1'000'000);
  EXPECT_THAT(coordinator_->Poll(AskedBy("client-1000000")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not one of the 1000000 clients")));
  while (true) {
    const PollReply reply = Poll(one_, 4);
    if (reply.over) break;
    Work(one_);
    for (const auto& wanted : reply.hand_over) {
      ASSERT_OK(HandOver(one_, wanted.gather));
    }
  }
  ASSERT_OK(coordinator_->Wait());
  std::set<std::string> selected;
  for (const int64_t round : {1, 2}) {
    for (const ClientRoundRow& task : Tasks(round)) selected.insert(task.client_id);
  }
  EXPECT_GE(selected.size(), 4u);
  std::set<std::string> known;
  for (const ClientRow& client : Value(Rows().Clients())) {
    known.insert(client.client_id);
    EXPECT_FALSE(client.last_seen_at.empty());
  }
  EXPECT_EQ(known, selected);
  EXPECT_EQ(Value(Rows().FindResumePoint(coordinator_->run_id())).clients.size(), selected.size());
}

TEST_F(InPlaceTest, RefusedBySite_EndsAsAnUploadThatIsBad) {
  options_.scenario.server.max_attempts = 1;
  Start();
  Poll(one_, 4);
  Poll(one_, 4);
  Poll(one_, 4);
  ASSERT_THAT(one_.tasks, SizeIs(4));
  const Task site = one_.tasks[0], upload = one_.tasks[1];
  const TaskFailure has_nan = {.task = site.id, .code = TaskFailure::Code::kBadUpdate, .sentence = "it has NaN"};
  EXPECT_OK(coordinator_->Fail(As("worker 0"), has_nan));
  EXPECT_OK(coordinator_->Fail(As("worker 0"), has_nan)) << "said twice";
  const std::string bad = MakeUpdate(std::vector<float>(kInPlaceElements, std::nanf("")), 10);
  EXPECT_EQ(Send(*coordinator_, "worker 0", upload.id, bad)->kind, SubmitResult::Kind::kRefused);
  EXPECT_OK(coordinator_->Fail(As("worker 0"), {.task = one_.tasks[2].id, .sentence = "no disk"}));
  EXPECT_OK(coordinator_->Fail(As("worker 0"), {.task = one_.tasks[3].id, .sentence = "no disk"}));
  EXPECT_THAT(coordinator_->Wait(), StatusIs(absl::StatusCode::kAborted));
  std::map<std::string, std::string> ends;
  for (const ClientRoundRow& row : Tasks(1)) ends[row.task_id] = row.status + ": " + row.error;
  EXPECT_EQ(ends[site.id], "refused: it has NaN");
  EXPECT_THAT(ends[upload.id], HasSubstr("refused: the update of task"));
  EXPECT_EQ(ends[one_.tasks[2].id], "failed: no disk");
}

TEST_F(InPlaceTest, PartialOfOtherTasksThanItsRecords_IsRefusedAndItsLeasesStay) {
  Start();
  while (one_.tasks.size() < 4) Poll(one_, 4);
  Work(one_);
  const uint64_t gather = one_.records.begin()->first;
  Partial partial = one_.open.at(gather)->Save().at(0);
  std::vector<TaskRecord> records = one_.records.at(gather);
  const TaskRecord last = records.back();
  records.pop_back();
  EXPECT_THAT(coordinator_->SubmitInPlace(As("worker 0"), Partial(partial), records),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "the partial sum of site 'worker 0' has 4 updates and 3 records; each update needs one"));
  records.push_back(last);
  records.back().task = "another";
  EXPECT_THAT(
      coordinator_->SubmitInPlace(As("worker 0"), Partial(partial), records),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has a record of task 'another' and no update of it")));
  records.back() = last;
  EXPECT_THAT(coordinator_->SubmitInPlace(As("worker 1"), Partial(partial), records),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("site 'worker 1' has no task")));
  EXPECT_EQ(coordinator_->SubmitInPlace(As("worker 0"), Partial(partial), records)->kind,
            SubmitResult::Kind::kAccepted);
  while (reported_ == 0) std::this_thread::yield();
  EXPECT_EQ(coordinator_->SubmitInPlace(As("worker 0"), std::move(partial), records).status().code(),
            absl::StatusCode::kNotFound)
      << "of a round that is over";
}

TEST_F(InPlaceTest, PartialOfAnotherSpec_IsRefusedWithAllItsTasks) {
  options_.scenario.server.max_attempts = 1;
  Start();
  while (one_.tasks.size() < 4) Poll(one_, 4);
  parts_.aggregation.parts[0].value_bits = 3;
  Work(one_);
  const auto result = HandOver(one_, one_.records.begin()->first);
  ASSERT_OK(result);
  EXPECT_EQ(result->kind, SubmitResult::Kind::kRefused);
  EXPECT_THAT(result->reason, HasSubstr("cannot join one of aggregation"));
  EXPECT_THAT(coordinator_->Wait(), StatusIs(absl::StatusCode::kAborted));
  for (const ClientRoundRow& row : Tasks(1)) EXPECT_EQ(row.status, "refused");
}

TEST_F(InPlaceTest, FetchInPlace_SharesTheModel) {
  Start();
  Poll(one_, 1);
  const BlobId id = one_.tasks.at(0).input("model")->id;
  const auto model = coordinator_->FetchInPlace(As("worker 0"), id);
  ASSERT_OK(model);
  EXPECT_EQ(model->get(), coordinator_->model().get());
  EXPECT_THAT(coordinator_->FetchInPlace(As("worker 0"), {BlobId::Form::kBytes, id.digest}),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(coordinator_->FetchInPlace(As("worker 0"), {BlobId::Form::kModel, Sha256Of("x")}),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(InPlaceTest, AwaitWork_EndsWhenTheNextRoundBegins) {
  Start();
  while (one_.tasks.size() < 4) Poll(one_, 4);
  const uint64_t epoch = Poll(two_, 4).epoch;
  coordinator_->AwaitWork(As("worker 1"), epoch, 5);      // nothing new: the time passes
  coordinator_->AwaitWork(As("worker 1"), 0, 1'000'000);  // an older epoch: at once
  std::thread waiting([&] {
    // News are that worker 0 is to hand over, and then the next round: each ends a wait.
    uint64_t seen = epoch;
    while (two_.tasks.empty()) {
      coordinator_->AwaitWork(As("worker 1"), seen, 1'000'000);
      seen = Poll(two_, 4).epoch;
    }
  });
  Work(one_);
  const PollReply reply = Poll(one_, 0);
  ASSERT_THAT(reply.hand_over, SizeIs(1));
  EXPECT_OK(HandOver(one_, reply.hand_over[0].gather));
  waiting.join();
  EXPECT_EQ(two_.tasks[0].base_version, 1);
}

TEST_F(InPlaceTest, HeldUpdates_AreProgress) {
  Start();
  while (one_.tasks.size() < 4) Poll(one_, 4);
  Work(one_);
  one_.news.resize(3);
  Poll(one_, 0);
  EXPECT_THAT(progress_, ElementsAre("1: 3/4"));
}

}  // namespace
}  // namespace rivulet
