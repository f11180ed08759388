#include "coordinator/coordinator.h"

#include <semaphore>
#include <thread>

#include "faulty_file_system.h"
#include "faulty_sqlite.h"
#include "test_run.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr int64_t kElements = 3;

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() {
    options_.scenario = TinyScenario(2, 2, 2);
    options_.db_path = folder_.db();
    options_.now_ms = [this] { return now_ms_.load(); };
  }
  // `parts` has as many updates a version as the scenario has clients a round.
  void Start() {
    RunParts parts = TinyParts(elements_, options_.scenario.server.clients_per_round);
    if (!rule_.empty()) parts.aggregation.rule = rule_;
    auto created = CreateCoordinator(options_, std::move(parts));
    ASSERT_OK(created);
    coordinator_ = *std::move(created);
  }
  std::string StartError() {
    const auto created = CreateCoordinator(options_, TinyParts(kElements, options_.scenario.server.clients_per_round));
    return created.ok() ? "started" : std::string(Message(created.status()));
  }
  // The caller's task, once it has one: versions are made on the coordinator's own thread.
  Task TaskFor(const std::string& name) {
    while (true) {
      const auto reply = coordinator_->Poll(AskedBy(name));
      EXPECT_OK(reply);
      if (!reply.ok() || reply->over) return {};
      if (!reply->tasks.empty()) {
        ready_ = std::max(ready_, reply->tasks[0].base_version);
        return reply->tasks[0];
      }
      std::this_thread::yield();
    }
  }
  std::string Good(float value = 1, int64_t examples = 10) const {
    return MakeUpdate(std::vector<float>(static_cast<size_t>(elements_), value), examples);
  }
  SubmitResult Submit(const std::string& name, const Task& task, const std::string& update) {
    const auto result = Send(*coordinator_, name, task.id, update);
    EXPECT_OK(result);
    return result.ok() ? *result : SubmitResult{SubmitResult::Kind::kRefused, std::string(Message(result.status()))};
  }
  // Once they tell of the newest version that a task was of: rows are written behind the run's back.
  History& Rows() {
    if (history_ == nullptr) history_ = *History::Open(options_.db_path, History::Access::kReadOnly);
    while (ready_ > 0 && Value(history_->Models(coordinator_->run_id())).back().round < ready_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return *history_;
  }
  // Each client's row of the round, "client: status (error)".
  std::vector<std::string> Tasks(int64_t round) {
    std::vector<std::string> lines;
    for (const ClientRoundRow& row : Value(Rows().ClientRounds(coordinator_->run_id(), round))) {
      lines.push_back(fmt::format("a{} {}: {}{}{}", row.attempt, row.client_id, row.status,
                                  row.error.empty() ? "" : " ", row.error));
    }
    return lines;
  }
  float FirstValue() const { return *reinterpret_cast<const float*>(coordinator_->model()->arena().data()); }

  int64_t elements_ = kElements;
  std::string rule_;  // of the aggregation; "": the plan's usual one
  TestFolder folder_;
  std::atomic<int64_t> now_ms_ = 1'738'333'530'123;
  CoordinatorOptions options_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<History> history_;
  int64_t ready_ = 0;
};

TEST_F(CoordinatorTest, Poll_BeforeAllHaveJoined_SaysWhatIsAwaited) {
  Start();
  const auto reply = coordinator_->Poll(AskedBy("a"));
  ASSERT_OK(reply);
  EXPECT_TRUE(reply->tasks.empty());
  EXPECT_FALSE(reply->over);
  EXPECT_EQ(reply->awaited.sentence, "1 of 2 clients; round 1 starts when all have joined");
  EXPECT_GT(reply->wait_ms, 0);
}

// Nobody knows all the keys there are: a cohort is enough, and others may come later.
TEST_F(CoordinatorTest, Poll_ByKeyWithoutANumber_WaitsForACohort) {
  options_.scenario.data.partition = {};
  options_.scenario.data.partition.kind = "by_key";
  Start();
  const auto reply = coordinator_->Poll(AskedBy("a"));
  ASSERT_OK(reply);
  EXPECT_EQ(reply->awaited.sentence, "1 of 2 clients; round 1 starts when all have joined");
  ASSERT_OK(Join(*coordinator_, {"b"}));
  EXPECT_EQ(TaskFor("a").client_id, "a");
  EXPECT_OK(Join(*coordinator_, {"c"}));
}

// Whoever runs a coordinator sees that it works, and what it works on.
TEST_F(CoordinatorTest, WhoJoinsAndWhatIsMissing_IsSaidAsItHappens) {
  options_.scenario.server.max_attempts = 1;
  options_.scenario.server.min_reports = 2;
  options_.scenario.run.rounds = 1;
  FakeFleet fleet(options_);
  fleet.act = [](Coordinator& c, const std::string& name, const Task& task) {
    if (name == "client-00001") {
      EXPECT_OK(c.Fail(As(name), {.task = task.id, .code = TaskFailure::Code::kBadPlan, .subject = "Gather 'rows'"}));
    } else {
      EXPECT_OK(FakeFleet::Work(c, name, task));
    }
  };
  std::vector<std::string> told;
  options_.observer.on_event = [&](const EventRow& event) {
    EXPECT_EQ(event.at, Iso8601(now_ms_));
    told.push_back(event.message);
  };
  Start();
  EXPECT_THAT(fleet.Run(*coordinator_, Names(2)), StatusIs(absl::StatusCode::kAborted));
  std::erase(told, "waiting: 0 of 2 clients; round 1 starts when all have joined");
  EXPECT_THAT(told, ElementsAre("client 'client-00000' has joined: 1 of 2 clients; round 1 starts when all have joined",
                                "client 'client-00001' has joined",
                                "'client-00001' failed: the plan cannot be carried out there: Gather 'rows' fails",
                                HasSubstr("attempt 1 abandoned: 1 of 2 updates")));
}

TEST_F(CoordinatorTest, Poll_NoExamples_IsRefusedAndDoesNotJoin) {
  Start();
  const auto reply = coordinator_->Poll(AskedBy("a", 0));
  EXPECT_THAT(reply, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("client 'a' has no examples")));
  EXPECT_EQ(Rows().Clients()->size(), 0u);
}

// Told before it trains for a round that could not take its update.
TEST_F(CoordinatorTest, Poll_HeavierThanMaxWeight_IsRefusedByNameAndTheRunGoesOn) {
  FakeFleet fleet(options_);
  Start();
  EXPECT_THAT(coordinator_->Poll(AskedBy("heavy", 65'537)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "client 'heavy' has 65537 examples, and server.max_weight is 65536; raise it"));
  EXPECT_OK(coordinator_->Poll(AskedBy("client-00000", 65'536)));
  ASSERT_OK(fleet.Run(*coordinator_, Names(2)));
  EXPECT_EQ(Rows().Clients()->size(), 2u);
}

TEST_F(CoordinatorTest, Poll_WithoutThePlansDataSet_IsRefusedAndDoesNotJoin) {
  Start();
  PollRequest request = AskedBy("a");
  request.capabilities.datasets = {{"test", 5}, {"train2", 5}};
  EXPECT_THAT(coordinator_->Poll(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("client 'a' has bound no data set 'train'")));
  EXPECT_EQ(Rows().Clients()->size(), 0u);
  request.capabilities.datasets.push_back({"train", 5});
  EXPECT_OK(coordinator_->Poll(request));
}

TEST_F(CoordinatorTest, Poll_WithoutTheRunsTagsOrExamplesEnough_IsRefusedAndDoesNotJoin) {
  options_.scenario.selection.tags = {"icu", "adult"};
  options_.scenario.selection.min_examples = 8;
  Start();
  PollRequest request = AskedBy("a");
  request.capabilities.datasets = {{"train", 7, {"icu", "adult"}}};
  EXPECT_THAT(coordinator_->Poll(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "client 'a' has 7 examples, and this run is of clients with at least 8"));
  request.capabilities.datasets = {{"train", 8, {"ward", "icu"}}};
  EXPECT_THAT(coordinator_->Poll(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "client 'a' is not tagged 'adult', as the clients of this run are; start it with --tag adult"));
  EXPECT_EQ(Rows().Clients()->size(), 0u);
  request.capabilities.datasets[0].tags.push_back("adult");
  const auto reply = coordinator_->Poll(request);
  ASSERT_OK(reply);
  EXPECT_EQ(reply->awaited.sentence, "1 of 2 clients; round 1 waits for one more tagged 'icu' and 'adult'");
}

TEST_F(CoordinatorTest, Poll_OfAnotherProtocol_IsToldBothNumbersAndWhatToInstall) {
  Start();
  PollRequest request = AskedBy("a");
  request.capabilities.version = "9.1";
  request.capabilities.protocol = kProtocol + 1;
  EXPECT_THAT(coordinator_->Poll(request),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "client 'a' (version '9.1') speaks protocol 2, and this coordinator 1; install the same version "
                       "at both"));
  EXPECT_EQ(Rows().Clients()->size(), 0u);
}

TEST_F(CoordinatorTest, Poll_NameThatNoRowCanHold_IsRefused) {
  Start();
  for (const std::string& name :
       {std::string(), std::string(300, 'a'), std::string("a\nb"), std::string("\xC3\x28"), std::string("a\0b", 3)}) {
    EXPECT_THAT(coordinator_->Poll(AskedBy(name)), StatusIs(absl::StatusCode::kInvalidArgument)) << name;
  }
  EXPECT_OK(coordinator_->Poll(AskedBy("Zoë 文")));
}

// Names cost nothing to invent, so they cost nothing here: neither without the plan's data set nor beyond the clients
// that the scenario expects.
TEST_F(CoordinatorTest, TwentyThousandInventedNames_LeaveALineAMinuteAndTheRunGoesOn) {
  std::vector<std::string> told;
  FakeFleet fleet(options_);
  const auto of_strangers = [](const EventRow& event) {
    return event.message.starts_with("turned away") || event.message.ends_with("left out");
  };
  options_.observer.on_event = [&](const EventRow& event) {
    if (of_strangers(event)) told.push_back(event.message);
  };
  Start();
  const auto invented = [&](int from, const PollRequest& like, absl::StatusCode code) {
    for (int i = from; i < from + 10'000; ++i) {
      PollRequest request = like;
      request.caller.name = fmt::format("\x1B[31m{}", i);
      if (code == absl::StatusCode::kFailedPrecondition) request.caller.name = fmt::format("invented-{}", i);
      ASSERT_THAT(coordinator_->Poll(request), StatusIs(code));
    }
  };
  const auto size = [&] { return std::filesystem::file_size(options_.db_path); };
  PollRequest without_data = AskedBy("x");
  without_data.capabilities.datasets.clear();
  invented(0, without_data, absl::StatusCode::kInvalidArgument);
  ASSERT_OK(Join(*coordinator_, {"client-00000", "client-00001"}));
  const auto before = size();
  now_ms_ += 60'000;
  invented(10'000, AskedBy("x"), absl::StatusCode::kFailedPrecondition);
  EXPECT_LT(size() - before, 1'000'000u);
  EXPECT_THAT(
      told, ElementsAre(
                "turned away: client '?[31m0' has bound no data set 'train', on which this run trains; bind one",
                "9999 more lines of this kind were left out",
                "turned away: the 2 clients that this run has room for have joined; 'invented-10000' is one too many"));
  ASSERT_OK(fleet.Run(*coordinator_, Names(2)));
  EXPECT_EQ(told.size(), 4u) << "the rest is counted at the end";
  EXPECT_EQ(Rows().Clients()->size(), 2u);
  std::vector<std::string> events;
  for (const EventRow& event : Value(Rows().Events(coordinator_->run_id()))) {
    if (of_strangers(event)) events.push_back(event.message);
  }
  EXPECT_EQ(events, told);
}

TEST_F(CoordinatorTest, Poll_ForAnotherRun_IsRefused) {
  Start();
  EXPECT_THAT(coordinator_->Poll({{"a", "", "another"}, AskedBy("a").capabilities}),
              StatusIs(absl::StatusCode::kNotFound));
}

class TrainingTest : public CoordinatorTest {
 protected:
  void Begin() {
    Start();
    ASSERT_OK(Join(*coordinator_, {"a", "b"}));
    a_ = TaskFor("a");
    b_ = TaskFor("b");
  }
  Task a_, b_;
};

TEST_F(TrainingTest, TwoRounds_ModelIsTheWeightedMeanAndRowsSaySo) {
  FakeEvaluator evaluator;
  options_.evaluator = &evaluator;
  options_.scenario.server.learning_rate = 0.5;
  Begin();
  EXPECT_EQ(a_.client_id, "a");
  EXPECT_EQ(a_.base_version, 0);
  EXPECT_EQ(a_.stream_key, ClientKey(11, "a"));
  now_ms_ += 1500;
  EXPECT_EQ(Submit("a", a_, Good(1, 10)).kind, SubmitResult::Kind::kAccepted);
  EXPECT_EQ(Submit("b", b_, Good(4, 20)).kind, SubmitResult::Kind::kAccepted);
  // 1 + 0.5 × (10 × 1 + 20 × 4) / 30
  a_ = TaskFor("a");
  Rows();  // of round 1, before there is a round 2 to be written with it
  EXPECT_EQ(FirstValue(), 2.5f);
  EXPECT_EQ(a_.base_version, 1);
  b_ = TaskFor("b");
  Submit("b", b_, Good(0));
  Submit("a", a_, Good(0));
  ASSERT_OK(coordinator_->Wait());
  const auto reply = coordinator_->Poll(AskedBy("a"));
  ASSERT_OK(reply);
  ASSERT_TRUE(reply->over);
  EXPECT_FALSE(reply->over->failed);
  EXPECT_EQ(reply->over->sentence, "the run has finished after round 2");

  const std::string& run = coordinator_->run_id();
  const auto rounds = *Rows().Rounds(run);
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[0].status, "committed");
  EXPECT_EQ(rounds[0].selected, 2);
  EXPECT_EQ(rounds[0].reported, 2);
  EXPECT_EQ(rounds[0].folded, 2);
  EXPECT_EQ(rounds[0].examples, 30);
  EXPECT_EQ(rounds[0].train_loss, 0.5);
  EXPECT_EQ(rounds[0].train_seconds, 1.5);
  EXPECT_EQ(rounds[0].bytes_up, static_cast<int64_t>(2 * Good().size()));
  EXPECT_EQ(rounds[1].model_digest, coordinator_->model()->ComputeDigest().Hex());
  const auto tasks = *Rows().ClientRounds(run, 1);
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].task_id, run + "-r1-a1-a-0");
  EXPECT_EQ(tasks[0].kind, "train");
  EXPECT_EQ(tasks[0].status, "folded");
  EXPECT_EQ(tasks[0].base_round, 0);
  EXPECT_EQ(tasks[0].committed_round, 1);
  EXPECT_EQ(tasks[0].staleness, 0);
  EXPECT_EQ(tasks[0].examples, 10);
  EXPECT_EQ(tasks[0].steps, 6);
  EXPECT_EQ(tasks[0].weight, 10);
  EXPECT_EQ(tasks[1].update_norm, std::sqrt(3 * 16.0));
  EXPECT_EQ(tasks[0].train_seconds, 0.25);
  EXPECT_TRUE(tasks[0].update_digest);
  const auto central = *Rows().Metrics(run);
  ASSERT_EQ(central.size(), 6u);
  EXPECT_EQ(central[0].name, "test/accuracy");
  EXPECT_EQ(central[0].value, 1 / 3.5);
  EXPECT_EQ(central[0].total, std::nullopt);
  EXPECT_EQ(central[2].value, 0.228);  // of counts, as they are told
  EXPECT_EQ(central[2].right, 228);
  EXPECT_EQ(central[2].total, 1000);
  EXPECT_EQ(Rows().Metrics(run, "client")->size(), 4u);
  const auto federated = *Rows().Metrics(run, "federated");
  ASSERT_EQ(federated.size(), 2u);
  EXPECT_EQ(federated[0].name, "train/loss");
  const auto models = *Rows().Models(run);
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[0].path, "");  // the two newest stay
  EXPECT_EQ(models[1].path, fmt::format("runs.sqlite.models/{}/round-000001.safetensors", run));
  EXPECT_EQ(models[2].path, fmt::format("runs.sqlite.models/{}/round-000002.safetensors", run));
  EXPECT_EQ(models[2].bytes, static_cast<int64_t>(std::filesystem::file_size(folder_.File(models[2].path))));
  EXPECT_EQ(models[2].parameters, kElements);
  EXPECT_TRUE(std::filesystem::exists(folder_.File(models[1].path)));
  EXPECT_FALSE(
      std::filesystem::exists(folder_.File(fmt::format("runs.sqlite.models/{}/round-000000.safetensors", run))));
  EXPECT_EQ(Rows().ResolveRun(run)->status, "finished");
  bool resolution = false;
  for (const EventRow& event : Value(Rows().Events(run)))
    resolution |= event.message.find("multiples of 2^-") != std::string::npos;
  EXPECT_TRUE(resolution);
}

TEST_F(TrainingTest, RowOfANewNameTakesLong_OtherPollsGoOn) {
  std::atomic<bool> slow = false;
  std::binary_semaphore writing(0), go_on(0);
  InstallFaultySqlite([&](const std::string&) {
    if (slow.exchange(false)) {
      writing.release();
      go_on.acquire();
    }
    return true;
  });
  options_.scenario.data.partition.clients = 4;
  options_.scenario.server.min_clients = 2;
  Begin();
  slow = true;
  std::thread c([&] { EXPECT_OK(coordinator_->Poll(AskedBy("c"))); });
  writing.acquire();
  EXPECT_OK(coordinator_->Poll(AskedBy("a")));
  std::thread d([&] { EXPECT_OK(coordinator_->Poll(AskedBy("d"))); });
  EXPECT_OK(coordinator_->Poll(AskedBy("b")));
  EXPECT_EQ(Rows().Clients()->size(), 2u) << "c is no member before its row is written";
  go_on.release();
  c.join();
  d.join();
  EXPECT_EQ(Rows().Clients()->size(), 4u);
  InstallFaultySqlite([](const std::string&) { return true; });
}

TEST_F(TrainingTest, KeepAllModels_EveryFileStays) {
  options_.scenario.run.keep_models = "all";
  Begin();
  Submit("a", a_, Good());
  Submit("b", b_, Good());
  TaskFor("a");
  for (const ModelRow& model : Value(Rows().Models(coordinator_->run_id()))) {
    EXPECT_TRUE(std::filesystem::exists(folder_.File(model.path))) << model.round;
  }
}

TEST_F(TrainingTest, EvaluationEvery_EvaluatesThoseRoundsAndTheLast) {
  FakeEvaluator evaluator;
  options_.evaluator = &evaluator;
  options_.scenario.run.rounds = 5;
  options_.scenario.evaluation.every = 2;
  FakeFleet fleet(options_);
  Start();
  ASSERT_OK(fleet.Run(*coordinator_, Names(2)));
  std::vector<int64_t> evaluated;
  for (const RoundReport& report : fleet.reports) {
    if (!report.central.empty()) evaluated.push_back(report.round);
  }
  EXPECT_THAT(evaluated, ElementsAre(2, 4, 5));
  EXPECT_EQ(evaluator.calls, 3);
}

TEST_F(TrainingTest, Fetch_ServesPlanAndModelFromAnyOffset) {
  Begin();
  const auto plan = coordinator_->Fetch(As("a"), BlobId{BlobId::Form::kBytes, a_.plan}, 4);
  ASSERT_OK(plan);
  EXPECT_EQ((*plan)->total_bytes(), 8);
  const auto bytes = *(*plan)->Next();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "plan");
  EXPECT_TRUE((*plan)->Next()->empty());
  const BlobId model_id = a_.input("model")->id;
  auto model = coordinator_->Fetch(As("a"), model_id, 0);
  ASSERT_OK(model);
  const std::string file = Value(ReadToEnd(**model));
  EXPECT_EQ((*model)->total_bytes(), static_cast<int64_t>(file.size()));
  const auto parsed = ModelFromSafetensors(coordinator_->model()->shared_layout(), file);
  ASSERT_OK(parsed);
  EXPECT_EQ(BlobId(BlobId::Form::kModel, (*parsed)->ComputeDigest()), model_id);
  EXPECT_THAT(coordinator_->Fetch(As("a"), BlobId{BlobId::Form::kBytes, a_.plan}, 9),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(coordinator_->Fetch(As("a"), BlobId{BlobId::Form::kBytes, a_.plan}, -1),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(coordinator_->Fetch(As("a"), BlobId{BlobId::Form::kBytes, model_id.digest}, 0),
              StatusIs(absl::StatusCode::kNotFound));
  Submit("a", a_, Good());
  Submit("b", b_, Good());
  TaskFor("a");
  EXPECT_EQ((*Rows().ClientRounds(coordinator_->run_id(), 1))[0].bytes_down, 4 + static_cast<int64_t>(file.size()));
  EXPECT_THAT(coordinator_->Fetch(As("a"), model_id, 0), StatusIs(absl::StatusCode::kNotFound))
      << "that version is no longer served";
}

std::span<const std::byte> Part(const std::string& update, size_t offset, size_t count) {
  return std::as_bytes(std::span(update).subspan(offset, count));
}

constexpr size_t kBlock = BlockCrcs::kBlockBytes;

TEST_F(TrainingTest, Submit_AfterACutConnection_GoesOnAfterTheWholeBlocks) {
  elements_ = 700'000;  // 2.8 MB: two whole blocks and a third
  Begin();
  const std::string update = Good(7);
  auto cut = *coordinator_->Submit(As("a"), Announce(a_.id, update));
  EXPECT_THAT(cut->staged_crcs(), ElementsAre());
  ASSERT_OK(cut->Resume(0));
  ASSERT_OK(cut->Write(Part(update, 0, kBlock + 10)));
  auto next = *coordinator_->Submit(As("a"), Announce(a_.id, update));
  EXPECT_THAT(next->staged_crcs(), ElementsAre(CrcsOf(update).whole()[0]));
  EXPECT_THAT(cut->Write(Part(update, kBlock + 10, 1)), StatusIs(absl::StatusCode::kUnavailable))
      << "the newer connection has taken over";
  EXPECT_THAT(cut->Finish(IdentityOf(update)), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(next->Resume(10), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(next->Resume(2 * kBlock), StatusIs(absl::StatusCode::kInvalidArgument)) << "beyond what is staged";
  ASSERT_OK(next->Resume(kBlock));
  EXPECT_THAT(next->Finish(IdentityOf(update)), StatusIs(absl::StatusCode::kInvalidArgument)) << "bytes are missing";
  next.reset();
  const auto result = Send(*coordinator_, "a", a_.id, update, 70'000, kBlock);
  ASSERT_OK(result);
  EXPECT_EQ(result->kind, SubmitResult::Kind::kAccepted);
  Submit("b", b_, update);
  TaskFor("b");
  const auto rows = *Rows().ClientRounds(coordinator_->run_id(), 1);
  EXPECT_EQ(rows[0].update_digest, IdentityOf(update));
  EXPECT_EQ(rows[0].update_digest, rows[1].update_digest) << "a function of the update, and of nobody's name";
}

// A process that died after it had sent a part, and a new one that trains again; or one block that was damaged.
TEST_F(TrainingTest, Submit_OtherBytesInOneBlock_OnlyTheyAndWhatFollowsAreSentAgain) {
  elements_ = 700'000;
  Begin();
  const std::string update = Good(7);
  std::string other = update;
  other[kBlock + 5] ^= 1;
  auto cut = *coordinator_->Submit(As("a"), Announce(a_.id, other));
  ASSERT_OK(cut->Resume(0));
  ASSERT_OK(cut->Write(Part(other, 0, 2 * kBlock)));
  cut.reset();
  auto next = *coordinator_->Submit(As("a"), Announce(a_.id, update));
  ASSERT_EQ(next->staged_crcs().size(), 2u);
  EXPECT_EQ(next->staged_crcs()[0], CrcsOf(update).whole()[0]);
  EXPECT_NE(next->staged_crcs()[1], CrcsOf(update).whole()[1]);
  ASSERT_OK(next->Resume(kBlock));
  ASSERT_OK(next->Write(Part(update, kBlock, update.size() - kBlock)));
  const auto result = next->Finish(IdentityOf(update));
  ASSERT_OK(result);
  EXPECT_EQ(result->kind, SubmitResult::Kind::kAccepted);
}

TEST_F(TrainingTest, Submit_OfAnotherLength_StartsAnew) {
  elements_ = 300'000;
  Begin();
  const std::string first = Good(1), second = first + "  ";
  auto cut = *coordinator_->Submit(As("a"), Announce(a_.id, first));
  ASSERT_OK(cut->Resume(0));
  ASSERT_OK(cut->Write(Part(first, 0, kBlock)));
  auto next = *coordinator_->Submit(As("a"), Announce(a_.id, second));
  EXPECT_THAT(next->staged_crcs(), ElementsAre());
  EXPECT_THAT(cut->Write(Part(first, kBlock, 1)), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(TrainingTest, Submit_IdentityDiffers_IsDataLossAndNothingIsKept) {
  elements_ = 300'000;
  Begin();
  const std::string update = Good();
  auto writer = *coordinator_->Submit(As("a"), Announce(a_.id, update));
  ASSERT_OK(writer->Resume(0));
  ASSERT_OK(writer->Write(Part(update, 0, update.size())));
  EXPECT_THAT(writer->Finish(Sha256Of("other bytes")), StatusIs(absl::StatusCode::kDataLoss));
  writer = *coordinator_->Submit(As("a"), Announce(a_.id, update));
  EXPECT_THAT(writer->staged_crcs(), ElementsAre());
  EXPECT_EQ(Submit("a", a_, update).kind, SubmitResult::Kind::kAccepted);
}

// Two processes of one name, with the same data and with other data, which send and are taken over in turn.
TEST_F(TrainingTest, TwoProcessesOfOneName_NeitherFailsTheTask) {
  elements_ = 700'000;
  for (const float other : {7.0f, 8.0f}) {
    SCOPED_TRACE(other);
    history_.reset();
    const TestFolder folder;
    options_.db_path = folder.db();
    Begin();
    std::vector<SubmitResult::Kind> ends;
    Mutex mutex;
    const auto process = [&](float value, std::chrono::milliseconds patience) {
      const std::string update = Good(value);
      for (;; patience *= 2) {
        const auto result = Send(*coordinator_, "a", a_.id, update, 200'000);
        if (!result.ok()) {
          EXPECT_THAT(result, StatusIs(absl::StatusCode::kUnavailable));
          std::this_thread::sleep_for(patience);
          continue;
        }
        MutexLock lock(mutex);
        ends.push_back(result->kind);
        return;
      }
    };
    std::thread one(process, 7.0f, std::chrono::milliseconds(1)), two(process, other, std::chrono::milliseconds(2));
    one.join();
    two.join();
    EXPECT_THAT(ends, UnorderedElementsAre(SubmitResult::Kind::kAccepted, SubmitResult::Kind::kDuplicate));
    Submit("b", b_, Good(1));
    TaskFor("b");
    EXPECT_THAT(Tasks(1), ElementsAre("a1 a: folded", "a1 b: folded"));
    coordinator_.reset();
  }
}

// A weighted mean that waits for the test before it takes an update.
std::binary_semaphore taking(0), take(0);

class SlowMean : public Aggregation {
 public:
  explicit SlowMean(std::unique_ptr<Aggregation> mean) : Aggregation(mean->spec()), mean_(std::move(mean)) {}
  Status Check(const UpdateView& update, const Weights& weights) const override {
    return mean_->Check(update, weights);
  }
  StatusOr<Taken> Take(const UpdateView& update, const Weights& weights) override {
    taking.release();
    take.acquire();
    return mean_->Take(update, weights);
  }
  Status Check(const Partial& partial) const override { return mean_->Check(partial); }
  Status Merge(Partial&& partial) override { return mean_->Merge(std::move(partial)); }
  std::vector<Partial> Save() const override { return mean_->Save(); }
  Partial Extract(int64_t base_version) override { return mean_->Extract(base_version); }
  StatusOr<ServerInput> Finish(const Staleness& staleness) && override { return std::move(*mean_).Finish(staleness); }

 private:
  std::unique_ptr<Aggregation> mean_;
};

StatusOr<std::unique_ptr<Aggregation>> CreateSlowMean(const AggregationSpec& spec) {
  AggregationSpec plain = spec;
  plain.rule = "mean";
  RIVULET_ASSIGN_OR_RETURN(auto mean, Aggregation::Create(plain));
  return std::make_unique<SlowMean>(std::move(mean));
}

RIVULET_AGGREGATION("slow_mean", CreateSlowMean);

TEST_F(TrainingTest, DeadlineWhileAnUpdateIsChecked_ItIsFolded) {
  rule_ = "slow_mean";
  options_.scenario.server.min_reports = 1;
  Begin();
  std::thread a([&] { EXPECT_EQ(Submit("a", a_, Good(3)).kind, SubmitResult::Kind::kAccepted); });
  taking.acquire();
  now_ms_ += 600'000;
  EXPECT_TRUE(coordinator_->Poll(AskedBy("b"))->tasks.empty()) << "b is too late";
  take.release();
  a.join();
  b_ = TaskFor("b");
  EXPECT_EQ(b_.base_version, 1);
  EXPECT_EQ(FirstValue(), 4);
  EXPECT_THAT(Tasks(1), ElementsAre("a1 a: folded", "a1 b: dropped it was silent for 60 s"));
}

TEST_F(TrainingTest, Submit_Twice_CountsOnce) {
  Begin();
  EXPECT_EQ(Submit("a", a_, Good(1)).kind, SubmitResult::Kind::kAccepted);
  EXPECT_EQ(Submit("a", a_, Good(1)).kind, SubmitResult::Kind::kDuplicate);
  Submit("b", b_, Good(1));
  TaskFor("b");
  EXPECT_EQ(Submit("a", a_, Good(1)).kind, SubmitResult::Kind::kDuplicate) << "after the commit, too";
  EXPECT_EQ(FirstValue(), 2);
  EXPECT_EQ(Rows().ClientRounds(coordinator_->run_id(), 1)->size(), 2u);
}

TEST_F(TrainingTest, Submit_NotThisCallersTask_IsNotFound) {
  Begin();
  const auto submit = [&](const std::string& name, const TaskId& task, int step = 0) {
    return coordinator_->Submit(As(name), {task, step, std::ssize(Good())}).status();
  };
  EXPECT_THAT(submit("b", a_.id), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(submit("a", "no-such-task"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(submit("stranger", a_.id), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(submit("a", a_.id, 1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(TrainingTest, Submit_MoreBytesThanAnnounced_IsAnError) {
  Begin();
  const std::string update = Good();
  auto writer = *coordinator_->Submit(As("a"), {a_.id, 0, 5});
  EXPECT_THAT(writer->Write(std::as_bytes(std::span(update.data(), 6))), StatusIs(absl::StatusCode::kOutOfRange));
}

struct BadUpdate {
  const char* name;
  std::string update;
  const char* reason;
};

TEST_F(TrainingTest, Submit_BadUpdate_IsRefusedWithAReasonAndTheModelIsUntouched) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto without_examples = [&] {
    proto::Update update;
    EXPECT_TRUE(update.ParseFromString(Good()));
    update.mutable_scalars()->erase("examples");
    return update.SerializeAsString();
  };
  const BadUpdate cases[] = {
      {"NaN", MakeUpdate({0, std::nanf(""), 0}, 5), "its training diverged"},
      {"infinity", MakeUpdate({infinity, 0, 0}, 5), "its training diverged"},
      {"beyond the bound", MakeUpdate({0, 0, 2000}, 5), "raise server.value_bits"},
      {"too long", MakeUpdate({0, 0, 0, 0}, 5), "4"},
      {"no weight", MakeUpdate({0, 0, 0}, 0), "weight"},
      {"heavy", MakeUpdate({0, 0, 0}, 65537), "server.max_weight"},
      {"without examples", without_examples(), "does not declare on how many 'examples'"},
      {"no message", "\xFF\xFF\xFF", "this is no Update message"},
      {"empty", "", "an update of 0 bytes"},
      {"huge", std::string(100'000, 'x'), "an update of 100000 bytes"},
      {"loss NaN", MakeUpdate({0, 0, 0}, 5, std::nan("")), "train_loss"},
  };
  for (const BadUpdate& c : cases) {
    SCOPED_TRACE(c.name);
    options_.scenario.server.min_reports = 1;
    history_.reset();
    ready_ = 0;
    const TestFolder folder;
    options_.db_path = folder.db();
    Begin();
    const SubmitResult result = Submit("a", a_, c.update);
    EXPECT_EQ(result.kind, SubmitResult::Kind::kRefused);
    EXPECT_THAT(result.reason, HasSubstr(c.reason));
    Submit("b", b_, Good(3));
    b_ = TaskFor("b");
    EXPECT_EQ(FirstValue(), 4) << "b's alone";
    EXPECT_THAT(Tasks(1), UnorderedElementsAre(HasSubstr("a: refused " + result.reason), "a1 b: folded"));
    const auto reply = coordinator_->Poll(AskedBy("a"));
    ASSERT_OK(reply);
    ASSERT_EQ(reply->outcomes.size(), 1);
    EXPECT_EQ(reply->outcomes[0].end, TaskEnd::kRefused);
    EXPECT_EQ(reply->outcomes[0].reason, result.reason);
    coordinator_.reset();
  }
}

TEST_F(TrainingTest, Deadline_LateClient_IsDroppedAndTheRoundGoesOnWithoutIt) {
  options_.scenario.server.min_reports = 1;
  options_.scenario.server.lease_seconds = 10'000;
  Begin();
  const std::string update = Good();
  auto late = *coordinator_->Submit(As("a"), Announce(a_.id, update));
  ASSERT_OK(late->Resume(0));
  ASSERT_OK(late->Write(std::as_bytes(std::span(update))));
  Submit("b", b_, Good(3));
  now_ms_ += 599'999;
  EXPECT_EQ(coordinator_->Poll(AskedBy("a"))->tasks.at(0).id, a_.id) << "still its own";
  ASSERT_OK(coordinator_->Poll(AskedBy("b")));  // who has been silent for so long would not be drawn
  now_ms_ += 1;
  b_ = TaskFor("b");
  EXPECT_EQ(b_.base_version, 1);
  const auto result = late->Finish(IdentityOf(update));
  ASSERT_OK(result);
  EXPECT_EQ(result->kind, SubmitResult::Kind::kRefused);
  EXPECT_EQ(result->reason, "no update arrived before the deadline of 600 s");
  EXPECT_THAT(Tasks(1), ElementsAre("a1 a: dropped no update arrived before the deadline of 600 s", "a1 b: folded"));
  EXPECT_EQ(FirstValue(), 4);
  EXPECT_EQ(Submit("a", a_, update).reason, "no update arrived before the deadline of 600 s");
  const auto rounds = *Rows().Rounds(coordinator_->run_id());
  EXPECT_EQ(rounds[0].dropped, 1);
  EXPECT_EQ(rounds[0].reported, 1);
}

TEST_F(TrainingTest, Deadline_NotEnforced_NobodyIsLate) {
  options_.enforce_deadline = false;
  Begin();
  now_ms_ += int64_t{365} * 86'400'000;
  EXPECT_EQ(TaskFor("a").id, a_.id);
  EXPECT_EQ(Submit("a", a_, Good()).kind, SubmitResult::Kind::kAccepted);
}

TEST_F(TrainingTest, TooFewReports_AttemptIsAbandonedAndTheNextOneCommits) {
  options_.scenario.run.rounds = 1;
  options_.scenario.server.min_reports = 2;
  options_.scenario.server.lease_seconds = 10'000;
  Begin();
  Submit("a", a_, Good(100));
  now_ms_ += 600'000;
  // Who has been silent until then is drawn again once it is back, and not before a pause.
  Task again;
  while (again.id.empty()) {
    now_ms_ += 100;
    ASSERT_OK(coordinator_->Poll(AskedBy("b")));
    const PollReply reply = Value(coordinator_->Poll(AskedBy("a")));
    if (!reply.tasks.empty() && reply.tasks[0].id != a_.id) again = reply.tasks[0];
  }
  EXPECT_EQ(again.base_version, 0);
  EXPECT_EQ(again.id, coordinator_->run_id() + "-r1-a2-a-1");
  EXPECT_EQ(again.ordinal, 1) << "its second lease at this version";
  const auto reply = coordinator_->Poll(AskedBy("a"));
  ASSERT_OK(reply);
  ASSERT_EQ(reply->outcomes.size(), 1);
  EXPECT_EQ(reply->outcomes[0].end, TaskEnd::kDropped);
  EXPECT_THAT(reply->outcomes[0].reason, HasSubstr("the round was abandoned: 1 of 2 updates"));
  Submit("a", again, Good(1));
  const Task b = TaskFor("b");
  Submit("b", b, Good(1));
  ASSERT_OK(coordinator_->Wait());
  EXPECT_EQ(FirstValue(), 2) << "nothing of the abandoned attempt";
  const auto rounds = *Rows().Rounds(coordinator_->run_id());
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[0].status, "abandoned");
  EXPECT_THAT(rounds[0].reason, HasSubstr("1 of 2 updates that round 1 needs arrived (client 'b' dropped"));
  EXPECT_EQ(rounds[1].status, "committed");
  EXPECT_THAT(Tasks(1), ElementsAre("a1 a: dropped the round was abandoned", HasSubstr("a1 b: dropped no update"),
                                    "a2 a: folded", "a2 b: folded"));
}

TEST_F(TrainingTest, Fail_EveryAttempt_RunFailsWithTheClientsWordsAndCanBeResumed) {
  options_.scenario.server.max_attempts = 2;
  options_.enforce_deadline = false;  // and no pause between attempts
  FakeFleet fleet(options_);
  fleet.act = [](Coordinator& c, const std::string& name, const Task& task) {
    EXPECT_OK(c.Fail(As(name), {.task = task.id,
                                .code = TaskFailure::Code::kBadExample,
                                .subject = "label\x1B[2J\n" + std::string(10'000, 'x'),
                                .counts = {{"record", 3}}}));
  };
  Start();
  const Status status = fleet.Run(*coordinator_, Names(2));
  EXPECT_THAT(std::string(Message(status)), HasSubstr("round 1 failed after 2 attempts"));
  // In words that can be shown, and not too many.
  const std::string told = fmt::format("feature 'label?[2J?{}…' of its record 3 cannot be used", std::string(190, 'x'));
  EXPECT_THAT(std::string(Message(status)), HasSubstr("failed: " + told));
  EXPECT_EQ(Rows().ResolveRun("latest")->status, "failed");
  EXPECT_EQ(Rows().ResolveRun("latest")->reason, Message(status));
  EXPECT_EQ(Rows().Rounds(coordinator_->run_id())->size(), 2u);
  EXPECT_EQ((*Rows().ClientRounds(coordinator_->run_id()))[0].status, "failed");
  const auto reply = coordinator_->Poll(AskedBy("client-00000"));
  ASSERT_OK(reply);
  ASSERT_TRUE(reply->over);
  EXPECT_TRUE(reply->over->failed);
  EXPECT_THAT(reply->over->sentence, HasSubstr("the run has failed: round 1 failed"));
  ASSERT_EQ(reply->outcomes.size(), 1u);
  EXPECT_EQ(reply->outcomes[0].end, TaskEnd::kFailed);
  EXPECT_EQ(reply->outcomes[0].reason, told);
  coordinator_.reset();
  history_.reset();
  options_.resume = "latest";
  const auto digests = RunTiny(options_, TinyParts(kElements, 2), 2);
  ASSERT_OK(digests);
  EXPECT_EQ(digests->size(), 2u);
  EXPECT_EQ((*Rows().Rounds(Rows().ResolveRun("latest")->run_id))[2].attempt, 3);
}

TEST_F(TrainingTest, Poll_ThatNamesADeadTask_IsToldSo) {
  Begin();
  PollRequest beat = AskedBy("a");
  beat.working_on = {{a_.id}};
  beat.want = 0;
  PollReply reply = Value(coordinator_->Poll(beat));
  EXPECT_THAT(reply.cancelled, ElementsAre());
  EXPECT_TRUE(reply.tasks.empty()) << "it has it";
  EXPECT_EQ(reply.wait_ms, 1000) << "when to say so again";
  Submit("b", b_, Good());
  now_ms_ += 600'000;
  reply = Value(coordinator_->Poll(beat));
  EXPECT_THAT(reply.cancelled, ElementsAre(a_.id));
}

TEST_F(TrainingTest, Fail_UnknownTask_IsNotFound) {
  Begin();
  EXPECT_THAT(coordinator_->Fail(As("a"), {.task = "no-such-task"}), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(coordinator_->Fail(As("b"), {.task = a_.id}), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(TrainingTest, Stop_ClientsAreAskedToWaitAndKeepTheirUpdates) {
  Begin();
  const std::string update = Good();
  auto writer = *coordinator_->Submit(As("a"), Announce(a_.id, update));
  coordinator_->Stop();
  EXPECT_THAT(coordinator_->Wait(), StatusIs(absl::StatusCode::kCancelled));
  const auto reply = coordinator_->Poll(AskedBy("a"));
  ASSERT_OK(reply);
  EXPECT_TRUE(reply->tasks.empty());
  EXPECT_FALSE(reply->over);
  EXPECT_GT(reply->wait_ms, 0);
  EXPECT_THAT(writer->Write(std::as_bytes(std::span(update))), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(writer->Finish(IdentityOf(update)), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(coordinator_->Submit(As("a"), {a_.id, 0, 5}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(std::filesystem::exists(folder_.db() + "-wal"));  // before a reader makes another one
  EXPECT_EQ(Rows().ResolveRun("latest")->status, "interrupted");
}

TEST_F(TrainingTest, EvaluatorFails_RoundIsFailedAndAResumedRunTriesAgain) {
  class Broken : public Evaluator {
   public:
    StatusOr<std::map<std::string, Measure>> Evaluate(const Model&) override {
      return InvalidArgument("test set: record 3");
    }
  } broken;
  options_.evaluator = &broken;
  FakeFleet fleet(options_);
  Start();
  const Status status = fleet.Run(*coordinator_, Names(2));
  EXPECT_EQ(std::string(Message(status)), "round 1 cannot be committed: test set: record 3");
  const auto rounds = *Rows().Rounds(coordinator_->run_id());
  ASSERT_EQ(rounds.size(), 1u);
  EXPECT_EQ(rounds[0].status, "failed");
  EXPECT_EQ(rounds[0].reason, "test set: record 3");
  EXPECT_EQ((*Rows().ClientRounds(coordinator_->run_id()))[0].status, "dropped");
  coordinator_.reset();
  history_.reset();
  options_.resume = "latest";
  options_.evaluator = nullptr;
  const auto digests = RunTiny(options_, TinyParts(kElements, 2), 2);
  ASSERT_OK(digests);
}

TEST_F(TrainingTest, ModelNotFinite_RoundIsFailed) {
  options_.scenario.server.learning_rate = 1e38;
  FakeFleet fleet(options_);
  fleet.act = [this](Coordinator& c, const std::string& name, const Task& task) {
    EXPECT_OK(Send(c, name, task.id, Good(1000)));
  };
  Start();
  EXPECT_THAT(std::string(Message(fleet.Run(*coordinator_, Names(2)))),
              HasSubstr("the new model is not finite in 'w'"));
  EXPECT_EQ((*Rows().Rounds(coordinator_->run_id()))[0].status, "failed");
}

// The next cohort is drawn, trains and is folded while the disk has not taken the version before; the run is at most so
// many ahead, and its end waits for all of it.
TEST_F(TrainingTest, DiskTakesLong_TheRunGoesOn) {
  options_.scenario.run.rounds = 3;
  std::binary_semaphore writing(0), go_on(0);
  FaultyFileSystem fs;
  fs.at = [&](const std::string& point) {
    if (point.starts_with("sync ") && point.find("000001") != point.npos) {
      writing.release();
      go_on.acquire();
    }
    return absl::OkStatus();
  };
  options_.file_system = &fs;
  Begin();
  for (int64_t round = 1; round <= 3; ++round) {
    a_ = TaskFor("a");
    b_ = TaskFor("b");
    EXPECT_EQ(a_.base_version, round - 1);
    EXPECT_EQ(Submit("a", a_, Good()).kind, SubmitResult::Kind::kAccepted);
    EXPECT_EQ(Submit("b", b_, Good()).kind, SubmitResult::Kind::kAccepted);
    if (round == 1) writing.acquire();
  }
  const auto history = *History::Open(options_.db_path, History::Access::kReadOnly);
  EXPECT_EQ(history->Rounds(coordinator_->run_id())->size(), 0u);
  const auto reply = coordinator_->Poll(AskedBy("a"));
  ASSERT_OK(reply);
  EXPECT_FALSE(reply->over) << "who hears of the end may rely on it";
  go_on.release();
  ASSERT_OK(coordinator_->Wait());
  EXPECT_EQ(history->Rounds(coordinator_->run_id())->size(), 3u);
  EXPECT_EQ(FirstValue(), 4);
}

TEST_F(TrainingTest, AnotherProcessWritesForLong_TheRunGoesOnAndSaysSoOnce) {
  Begin();
  const auto other = *Database::Open(options_.db_path, Database::Access::kReadWrite);
  ASSERT_OK(other->Run("BEGIN IMMEDIATE"));
  ::testing::internal::CaptureStderr();
  Submit("a", a_, Good());
  Submit("b", b_, Good());
  a_ = TaskFor("a");
  b_ = TaskFor("b");
  EXPECT_EQ(a_.base_version, 1);
  Submit("a", a_, Good());
  Submit("b", b_, Good());
  std::this_thread::sleep_for(std::chrono::milliseconds(2400));
  EXPECT_FALSE(coordinator_->Poll(AskedBy("a"))->over);
  ASSERT_OK(other->Run("COMMIT"));
  ASSERT_OK(coordinator_->Wait());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            fmt::format("waiting for another process that is writing to the history '{}'\n", options_.db_path));
  EXPECT_EQ(Rows().Rounds(coordinator_->run_id())->size(), 2u);
}

// The disk fills at each durable operation of a run in turn: the run ends with a sentence, no file without a row is
// left and no row without its file, and with room again it goes on to the same model.
class DiskFullTest : public TrainingTest, public ::testing::WithParamInterface<const char*> {
 protected:
  DiskFullTest() { options_.scenario.run.durability = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Durability, DiskFullTest, ::testing::Values("round", "second", "end"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(DiskFullTest, AtAnyFileOperation_RunFailsAndCanBeResumed) {
  const auto reference = RunTiny(options_, TinyParts(kElements, 2), 2);
  ASSERT_OK(reference);
  int failures = 0;
  for (int victim = 1;; ++victim) {
    SCOPED_TRACE(victim);
    TestFolder folder;
    FaultyFileSystem fs;
    int count = 0;
    fs.at = [&](const std::string& point) {
      const bool after = point.starts_with("synced") || point.starts_with("renamed");
      if (after || point.starts_with("remove") || ++count < victim) return absl::OkStatus();
      return ResourceExhausted("cannot {}: No space left on device", point);
    };
    CoordinatorOptions options = options_;
    options.db_path = folder.db();
    options.file_system = &fs;
    const auto failed = RunTiny(options, TinyParts(kElements, 2), 2);
    if (failed.ok()) break;
    ++failures;
    EXPECT_THAT(failed, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("No space left on device")));
    options.file_system = nullptr;
    {
      auto history = *History::Open(folder.db(), History::Access::kReadOnly);
      const auto run = history->ResolveRun("latest");
      if (run.ok()) {
        EXPECT_EQ(run->status, "failed");
        options.resume = "latest";
        size_t files = 0, named = 0;
        for (const auto& entry : std::filesystem::directory_iterator(folder.db() + ".models/" + run->run_id)) {
          files += entry.path().filename().string().starts_with("round-");
        }
        for (const ModelRow& model : Value(history->Models(run->run_id))) named += !model.path.empty();
        EXPECT_EQ(files, named);
      }
    }
    const auto digests = RunTiny(options, TinyParts(kElements, 2), 2);
    ASSERT_OK(digests);
    EXPECT_EQ(*digests, *reference);
  }
  EXPECT_GT(failures, GetParam() == std::string("round") ? 10 : 8);
}

TEST_P(DiskFullTest, AtAnyWriteOfTheDatabase_RunFailsAndCanBeResumed) {
  const auto reference = RunTiny(options_, TinyParts(kElements, 2), 2);
  ASSERT_OK(reference);
  int failures = 0, step = 1;
  for (int victim = 1;; victim += step) {
    SCOPED_TRACE(victim);
    TestFolder folder;
    ASSERT_OK((*History::Open(folder.db(), History::Access::kReadWrite))->Close());
    std::atomic<int> count = 0;
    InstallFaultySqlite(
        [&](const std::string& point) { return point.starts_with("sqlite-synced") || ++count < victim; });
    CoordinatorOptions options = options_;
    options.db_path = folder.db();
    const auto failed = RunTiny(options, TinyParts(kElements, 2), 2);
    InstallFaultySqlite(nullptr);
    if (failed.ok() && count < victim) break;
    if (!failed.ok()) {
      ++failures;
      EXPECT_THAT(std::string(Message(failed.status())), HasSubstr("the disk is full"));
    }
    {
      auto history = History::Open(folder.db(), History::Access::kReadOnly);
      ASSERT_OK(history);
      if ((*history)->ResolveRun("latest").ok()) options.resume = "latest";
    }
    if (failed.ok()) continue;  // only the tidying at the end was refused
    const auto digests = RunTiny(options, TinyParts(kElements, 2), 2);
    ASSERT_OK(digests);
    EXPECT_EQ(*digests, *reference);
  }
  EXPECT_GT(failures, GetParam() == std::string("round") ? 20 : 10);
}

TEST_F(TrainingTest, UnwritableDatabase_IsRefusedAndNothingIsLeft) {
  options_.db_path = folder_.File("none/runs.sqlite");
  EXPECT_THAT(StartError(), HasSubstr("does not exist; create it first"));
  options_.db_path = folder_.path();
  EXPECT_THAT(StartError(), HasSubstr("is a folder"));
  options_.db_path = "";
  EXPECT_THAT(StartError(), HasSubstr("a run needs a history"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(TrainingTest, PlanOfAnotherModel_IsRefused) {
  RunParts parts = TinyParts(kElements, 2);
  parts.aggregation.parts[0].elements = 4;
  EXPECT_THAT(std::string(Message(CreateCoordinator(options_, parts).status())), HasSubstr("aggregates 4 elements"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// The offers, commits and digests are the same whatever the order of arrival, the number of threads and the way in.
TEST_F(TrainingTest, ArrivalOrderAndThreads_DoNotChangeABit) {
  options_.scenario = TinyScenario(8, 4, 6);
  const auto actions_that_count = [](const FakeFleet& fleet) {
    std::vector<std::string> lines;
    for (const std::string& action : fleet.actions) {
      if (action.starts_with("offer ") || action.starts_with("commit ")) lines.push_back(action);
    }
    return lines;
  };
  std::vector<std::string> reference_actions;
  Digest reference;
  for (int threads : {1, 2, 3, 7}) {
    TestFolder folder;
    CoordinatorOptions options = options_;
    options.db_path = folder.db();
    options.now_ms = nullptr;
    FakeFleet fleet(options);
    auto coordinator = *CreateCoordinator(options, TinyParts(kElements, 4));
    // Every thread polls for all names, each starting elsewhere, so that tasks are worked on in any order, some twice
    // at once.
    ASSERT_OK(Join(*coordinator, Names(8)));
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        const auto names = Names(8);
        for (size_t i = static_cast<size_t>(t * 3);; ++i) {
          const std::string& name = names[i % names.size()];
          const auto reply = coordinator->Poll(AskedBy(name));
          ASSERT_OK(reply);
          if (reply->over) return;
          for (const Task& task : reply->tasks) FakeFleet::Work(*coordinator, name, task).IgnoreError();
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    ASSERT_OK(coordinator->Wait());
    const Digest digest = coordinator->model()->ComputeDigest();
    if (threads == 1) {
      reference = digest;
      reference_actions = actions_that_count(fleet);
    }
    EXPECT_EQ(digest.Hex(), reference.Hex()) << threads << " threads";
    EXPECT_EQ(actions_that_count(fleet), reference_actions) << threads << " threads";
  }
}

TEST_F(TrainingTest, HundredUploadsAtOnce_StayWithinTheStagingBudget) {
  // 100 updates of 400 kB against a budget of 1 MB: all but two go through the spool, and all are folded.
  options_.scenario = TinyScenario(100, 100, 1);
  options_.scenario.server.staging_megabytes = 1;
  RunParts parts = TinyParts(100'000, 100);
  auto coordinator = *CreateCoordinator(options_, parts);
  ASSERT_OK(Join(*coordinator, Names(100)));
  std::vector<std::unique_ptr<ChunkWriter>> writers;
  std::vector<std::string> updates;
  for (const std::string& name : Names(100)) {
    const auto reply = coordinator->Poll(AskedBy(name));
    ASSERT_OK(reply);
    ASSERT_EQ(reply->tasks.size(), 1u);
    const TaskId& task = reply->tasks[0].id;
    updates.push_back(MakeUpdate(std::vector<float>(100'000, 0.5f), 1));
    writers.push_back(*coordinator->Submit(As(name), Announce(task, updates.back())));
    const auto bytes = std::as_bytes(std::span(updates.back()));
    ASSERT_OK(writers.back()->Resume(0));
    ASSERT_OK(writers.back()->Write(bytes.first(200'000)));
    ASSERT_OK(writers.back()->Write(bytes.subspan(200'000)));
  }
  for (size_t i = 0; i < writers.size(); ++i) {
    const auto result = writers[i]->Finish(IdentityOf(updates[i]));
    ASSERT_OK(result);
    EXPECT_EQ(result->kind, SubmitResult::Kind::kAccepted) << result->reason;
  }
  writers.clear();
  ASSERT_OK(coordinator->Wait());
  EXPECT_EQ(*reinterpret_cast<const float*>(coordinator->model()->arena().data()), 1.5f);
}

}  // namespace
}  // namespace rivulet
