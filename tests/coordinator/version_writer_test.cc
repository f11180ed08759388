#include "coordinator/commit/version_writer.h"

#include <sqlite3.h>

#include "faulty_file_system.h"
#include "test_run.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// On a clock that stands still and without a thread: what the executor has begun is done when Run says so.
class VersionWriterTest : public ::testing::Test {
 protected:
  void Open(VersionWriter::Options options = {}) {
    parts_ = TinyParts(3, 1);
    history_ = *History::Open(folder_.db(), History::Access::kReadWrite);
    store_ = *ModelStore::Open(fs_, history_->real_path(), "run", ModelStore::Folder::kNew);
    const ServedVersion initial = Version(0);
    ASSERT_OK(store_->Write(initial));
    RunRow run;
    run.run_id = run.name = "run";
    run.status = "running";
    run.plan_digest = parts_.plan_digest.Hex();
    run.created_at = Iso8601(0);
    ASSERT_OK(history_->AddRun(run, initial.row, {}));
    const RunClient client = {"a", 1, 1};
    ASSERT_OK(history_->AddClients("run", std::span(&client, 1), Iso8601(0)));
    options.on_failed = [this](const Status& status) { failures_.push_back(std::string(Message(status))); };
    auto executor = InlineExecutor::Create(clock_);
    executor_ = executor.get();
    writer_ = std::make_unique<VersionWriter>(*history_, *store_, std::move(executor), clock_, std::move(options),
                                              std::span(&initial.row, 1), 0);
  }
  ServedVersion Version(int64_t round) {
    auto model = std::make_shared<Model>(parts_.layout);
    for (const Slice& slice : parts_.layout->slices()) {
      for (float& value : model->tensor(slice).flat<float>()) value = static_cast<float>(round);
    }
    return store_->Describe(round, {model, model->ComputeDigest()}).value();
  }
  PendingAttempt Attempt(int64_t round, int64_t number = 1, bool committed = true) {
    PendingAttempt pending;
    pending.attempt.run_id = "run";
    pending.attempt.round = round;
    pending.attempt.number = number;
    ClosedAttempt::ClosedTask& task = pending.attempt.tasks.emplace_back();
    task.lease.task = fmt::format("run-r{}-a{}-a-0", round, number);
    task.lease.client_id = "a";
    task.lease.base_round = round - 1;
    task.lease.state = committed ? Lease::State::kFolded : Lease::State::kDropped;
    pending.end.status = committed ? "committed" : "abandoned";
    if (committed) {
      pending.version = Version(round);
      pending.end.model_digest = pending.version->digest;
    }
    return pending;
  }
  void Commit(int64_t round) { writer_->Add(Attempt(round)); }
  // Rounds of these accuracies, from 1 on, and a flush.
  void CommitWith(std::initializer_list<double> accuracies) {
    int64_t round = 0;
    for (const double accuracy : accuracies) {
      PendingAttempt pending = Attempt(++round);
      pending.end.central["test/accuracy"] = {.value = accuracy, .right = {}, .total = {}};
      writer_->Add(std::move(pending));
      executor_->RunDue();
    }
    EXPECT_OK(writer_->Flush());
  }
  // "1 2.2 3": rounds and attempts, as another process sees them.
  std::string Rounds() {
    std::string rounds;
    const auto reader = *History::Open(folder_.db(), History::Access::kReadOnly);
    for (const RoundRow& row : Value(reader->Rounds("run"))) {
      rounds += fmt::format("{}{}{}", rounds.empty() ? "" : " ", row.round,
                            row.attempt == 1 ? "" : fmt::format(".{}", row.attempt));
    }
    return rounds;
  }
  std::vector<int64_t> Named() {
    std::vector<int64_t> named;
    for (const ModelRow& row : Value(history_->Models("run"))) {
      if (!row.path.empty()) named.push_back(row.round);
    }
    return named;
  }
  std::vector<int64_t> Files() {
    std::vector<int64_t> files;
    for (int64_t round = 0; round < 100; ++round) {
      if (store_->Has(round)) files.push_back(round);
    }
    return files;
  }

  TestFolder folder_;
  FaultyFileSystem fs_;
  ManualClock clock_;
  RunParts parts_;
  std::unique_ptr<History> history_;
  std::unique_ptr<ModelStore> store_;
  std::vector<std::string> failures_;
  std::unique_ptr<VersionWriter> writer_;
  InlineExecutor* executor_ = nullptr;
};

TEST_F(VersionWriterTest, Round_EachIsWrittenByTheExecutor) {
  Open();
  Commit(1);
  EXPECT_EQ(Rounds(), "") << "whoever adds does not wait for the disk";
  executor_->RunDue();
  EXPECT_EQ(Rounds(), "1");
  Commit(2);
  executor_->RunDue();
  EXPECT_EQ(Rounds(), "1 2");
  EXPECT_THAT(Named(), ElementsAre(1, 2)) << "the two newest";
}

TEST_F(VersionWriterTest, Round_AheadOfTheDisk_AtMostTwoVersions) {
  Open();
  Commit(1);
  Commit(2);
  EXPECT_EQ(Rounds(), "");
  Commit(3);
  EXPECT_EQ(Rounds(), "1 2 3") << "by whoever added the third";
}

TEST_F(VersionWriterTest, Second_WhatCameWithinOneIsWrittenTogether) {
  Open({.durability = Durability::kSecond});
  Commit(1);
  writer_->Add(Attempt(2, 1, false));
  clock_.Advance(999);
  writer_->Add(Attempt(2, 2));
  executor_->RunDue();
  EXPECT_EQ(Rounds(), "");
  clock_.Advance(1);
  executor_->RunDue();
  EXPECT_EQ(Rounds(), "1 2 2.2");
  EXPECT_THAT(Named(), ElementsAre(0, 2)) << "the newest alone has a file, and the one that was durable before it";
  EXPECT_THAT(Files(), ElementsAre(0, 2));
  Commit(3);
  clock_.Advance(500);
  EXPECT_OK(writer_->Flush());
  Commit(4);
  clock_.Advance(500);
  executor_->RunDue();
  EXPECT_EQ(Rounds(), "1 2 2.2 3") << "a second after the oldest that waits";
  clock_.Advance(500);
  executor_->RunDue();
  EXPECT_EQ(Rounds(), "1 2 2.2 3 4");
}

TEST_F(VersionWriterTest, End_WaitsForFlush) {
  Open({.durability = Durability::kEnd});
  for (int64_t round = 1; round <= 20; ++round) Commit(round);
  clock_.Advance(1'000'000);
  executor_->RunDue();
  EXPECT_EQ(Rounds(), "");
  EXPECT_OK(writer_->Flush());
  EXPECT_EQ(Value(history_->Rounds("run")).size(), 20u);
  EXPECT_THAT(Files(), ElementsAre(0, 20));
}

TEST_F(VersionWriterTest, End_MuchWaits_IsWritten) {
  const int64_t bytes = 8 * 1024;
  Open({.durability = Durability::kEnd, .most_pending_bytes = bytes});
  int64_t round = 0;
  while (Rounds().empty()) {
    Commit(++round);
    executor_->RunDue();
    ASSERT_LT(round, 100);
  }
  EXPECT_GT(round, 1);
}

TEST_F(VersionWriterTest, TwiceAsMuchWaits_WhoeverAddsWritesIt) {
  Open({.durability = Durability::kEnd, .most_pending_bytes = 0});
  Commit(1);
  EXPECT_EQ(Rounds(), "1");
}

TEST_F(VersionWriterTest, Round_KeepBest_ItsFileStaysWithTheNewest) {
  Open({.durability = Durability::kRound, .keep_best_model = true});
  CommitWith({0.5, 0.9, 0.6, 0.9, 0.7, 0.8});
  EXPECT_THAT(Named(), ElementsAre(2, 5, 6)) << "the first of two that are as good";
  EXPECT_EQ(Files(), Named());
}

TEST_F(VersionWriterTest, End_KeepBest_ItsFileIsWrittenWithTheNewest) {
  Open({.durability = Durability::kEnd, .keep_best_model = true});
  CommitWith({0.5, 0.9, 0.6, 0.9, 0.7, 0.8});
  EXPECT_THAT(Named(), ElementsAre(0, 2, 6));
  EXPECT_EQ(Files(), Named());
}

TEST_F(VersionWriterTest, KeepBest_RunThatGoesOn_AnEarlierOneStaysUntilItIsBeaten) {
  Open({.durability = Durability::kRound, .keep_best_model = true, .worths = {{0, 0.4}, {7, 0.9}}});
  for (const auto& [round, loss] : {std::pair(1, 0.7), {2, 0.65}, {3, 0.3}, {4, 0.5}, {5, 0.6}}) {
    PendingAttempt pending = Attempt(round);
    pending.end.central["test/loss"] = {.value = loss - 1, .right = {}, .total = {}};
    writer_->Add(std::move(pending));
    executor_->RunDue();
    if (round == 2) {
      EXPECT_THAT(Named(), ElementsAre(0, 1, 2)) << "worth 0.4 against 0.3 and 0.35";
    }
  }
  EXPECT_THAT(Named(), ElementsAre(3, 4, 5)) << "a version without a file, as 7, is not the one";
}

TEST_F(VersionWriterTest, KeepAllModels_EveryFileIsWritten) {
  Open({.durability = Durability::kEnd, .keep_all_models = true});
  for (int64_t round = 1; round <= 4; ++round) Commit(round);
  EXPECT_OK(writer_->Flush());
  EXPECT_THAT(Named(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Files(), ElementsAre(0, 1, 2, 3, 4));
}

// A log that is lost takes the run back to what the file says: that version's model is there, however many came since.
TEST_F(VersionWriterTest, ManyVersionsWithinASecond_TheModelOfTheFileWithoutItsLogStays) {
  Open();
  for (int64_t round = 1; round <= 6; ++round) {
    Commit(round);
    executor_->RunDue();
  }
  EXPECT_THAT(Named(), ElementsAre(5, 6));
  EXPECT_THAT(Files(), ElementsAre(1, 5, 6)) << "round 1 was brought over with the first commit";
  const std::string copy = folder_.File("copy.sqlite");
  std::filesystem::copy_file(folder_.db(), copy);
  EXPECT_EQ((*History::Open(copy, History::Access::kReadOnly))->FindResumePoint("run")->committed_round, 1);
  EXPECT_OK(writer_->Flush());
  EXPECT_THAT(Files(), ElementsAre(5, 6));
}

// A transaction that somebody forgot in a notebook holds the file at one version for as long as it lasts.
TEST_F(VersionWriterTest, AReaderThatStays_OnlyModelsOfItsSecondAreKept) {
  std::vector<int64_t> told;
  Open({.on_log_held = [&](int64_t seconds, int64_t log_bytes) {
    told.push_back(seconds);
    EXPECT_GT(log_bytes, 0);
  }});
  const auto commit = [&](int64_t first, int64_t last) {
    for (int64_t round = first; round <= last; ++round) {
      Commit(round);
      executor_->RunDue();
      if (round % 3 == 0) clock_.Advance(1000);
    }
  };
  const auto version_without_log = [&] {
    const std::string copy = folder_.File("copy.sqlite");
    std::filesystem::copy_file(folder_.db(), copy, std::filesystem::copy_options::overwrite_existing);
    return (*History::Open(copy, History::Access::kReadOnly))->FindResumePoint("run")->committed_round;
  };
  commit(1, 8);
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(folder_.db().c_str(), &reader), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM runs", nullptr, nullptr, nullptr), SQLITE_OK);
  for (const int64_t last : {12, 40, 90}) {
    commit(last == 12 ? 9 : last == 40 ? 13 : 41, last);
    EXPECT_THAT(Files(), ::testing::Contains(version_without_log()));
    EXPECT_LE(Files().size(), 7u) << "the two newest, and those of a second or two";
  }
  EXPECT_THAT(told, ::testing::IsEmpty()) << "half a minute is nothing";
  commit(91, 99);
  clock_.Advance(40'000);
  commit(100, 102);
  EXPECT_THAT(told, ::testing::SizeIs(1));
  sqlite3_close(reader);
  commit(103, 106);
  EXPECT_OK(writer_->Flush());
  EXPECT_THAT(Named(), ElementsAre(105, 106));
  EXPECT_EQ(version_without_log(), 106);
  EXPECT_EQ(std::ranges::count_if(std::vector{97, 98, 99}, [&](int64_t round) { return store_->Has(round); }), 0);
}

TEST_F(VersionWriterTest, DiskFull_NothingIsLeftAndTheRunHearsOnce) {
  Open({.durability = Durability::kEnd, .keep_all_models = true});
  fs_.at = [](const std::string& point) {
    return point.starts_with("sync ") && point.find("000002") != point.npos
               ? ResourceExhausted("cannot {}: No space left on device", point)
               : absl::OkStatus();
  };
  for (int64_t round = 1; round <= 3; ++round) Commit(round);
  EXPECT_THAT(writer_->Flush(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("round 3 cannot be committed: cannot sync")));
  EXPECT_THAT(Files(), ElementsAre(0));
  fs_.at = [](const std::string&) { return absl::OkStatus(); };
  Commit(4);
  EXPECT_THAT(writer_->Flush(), StatusIs(absl::StatusCode::kResourceExhausted)) << "a gap is never written";
  EXPECT_EQ(Rounds(), "");
  EXPECT_THAT(failures_, ElementsAre(HasSubstr("No space left on device")));
}

TEST_F(VersionWriterTest, OnlyBusy_IsTriedAgain) {
  Open();
  int times = 0;
  fs_.at = [&](const std::string& point) {
    return point.starts_with("rename ") && ++times == 1 ? Unavailable("another process is at it") : absl::OkStatus();
  };
  PendingAttempt pending = Attempt(1);
  pending.seen = {{"a", 5000}};
  writer_->Add(std::move(pending));
  EXPECT_OK(writer_->Flush());
  EXPECT_EQ(times, 2);
  EXPECT_EQ(Rounds(), "1");
  EXPECT_EQ(Value(history_->Clients()).at(0).last_seen_at, Iso8601(5000)) << "the second time too";
  EXPECT_TRUE(failures_.empty());
}

TEST_F(VersionWriterTest, PackedTasks_HaveTheRowsOfTheirValues) {
  Open();
  for (const int64_t round : {1, 2}) {
    PendingAttempt pending = Attempt(round);
    pending.attempt.tasks[0].facts.examples = 7;
    if (round == 2) {
      pending.row = RoundOf(pending.attempt, pending.end);
      pending.packed = PackedTasks(pending.attempt);
      pending.attempt.tasks.clear();
    }
    writer_->Add(std::move(pending));
  }
  EXPECT_OK(writer_->Flush());
  const auto rows = Value(history_->ClientRounds("run"));
  ASSERT_EQ(rows.size(), 2u);
  for (const ClientRoundRow& row : rows) {
    EXPECT_EQ(row.client_id, "a");
    EXPECT_EQ(row.task_id, fmt::format("run-r{}-a1-a-0", row.round));
    EXPECT_EQ(row.status, "folded");
    EXPECT_EQ(row.examples, 7);
  }
  const auto rounds = Value(history_->Rounds("run"));
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[1].folded, 1);
  EXPECT_EQ(rounds[1].examples, 7);
}

}  // namespace
}  // namespace rivulet
