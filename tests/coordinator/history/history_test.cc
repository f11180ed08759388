#include "coordinator/history/history.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HistoryTest : public testing::FolderTest {
 protected:
  std::unique_ptr<History> Open(History::Access access = History::Access::kReadWrite) {
    auto history = History::Open(path_, access);
    EXPECT_OK(history);
    return history.ok() ? *std::move(history) : nullptr;
  }
  std::string OpenError(History::Access access) {
    const auto history = History::Open(path_, access);
    return history.ok() ? "opened" : std::string(Message(history.status()));
  }
  // As any other reader would ask.
  std::string Ask(const std::string& sql) {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open_v2(path_.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr), SQLITE_OK);
    std::string answer;
    char* error = nullptr;
    sqlite3_exec(
        db, sql.c_str(),
        [](void* out, int columns, char** values, char**) {
          for (int i = 0; i < columns; ++i) {
            *static_cast<std::string*>(out) +=
                fmt::format("{}{}", values[i] == nullptr ? "NULL" : values[i], i + 1 < columns ? "|" : ";");
          }
          return 0;
        },
        &answer, &error);
    if (error != nullptr) answer = error;
    sqlite3_free(error);
    sqlite3_close(db);
    return answer;
  }

  static RunRow Run(const std::string& id, const std::string& name = "demo") {
    RunRow run;
    run.run_id = id;
    run.name = name;
    run.status = "running";
    run.config = "[run]\nrounds = 2\n";
    run.plan_digest = "ab";
    run.seed = 1;
    run.version = "0.1.0";
    run.created_at = run.started_at = Iso8601(1'738'333'530'123);
    return run;
  }
  static ModelRow Model(const std::string& id, int64_t round) {
    return {id, round, fmt::format("d{}", round), fmt::format("runs.sqlite.models/{}/{}", id, round), 100, 10};
  }
  static AttemptRecord Attempt(const std::string& id, int64_t round, int64_t attempt, const std::string& status) {
    AttemptRecord record;
    record.round.run_id = id;
    record.round.round = round;
    record.round.attempt = attempt;
    record.round.status = status;
    record.round.started_at = record.round.finished_at = Iso8601(0);
    record.round.selected = record.round.reported = record.round.folded = 1;
    record.round.examples = 5;
    record.round.train_loss = 0.5;
    ClientRoundRow task;
    task.task_id = fmt::format("{}-r{}-a{}-c-0", id, round, attempt);
    task.run_id = id;
    task.round = round;
    task.attempt = attempt;
    task.client_id = "c";
    task.base_round = round - 1;
    task.status = status == "committed" ? "folded" : "dropped";
    task.examples = 5;
    record.tasks.push_back(task);
    if (status == "committed") {
      record.model = Model(id, round);
      record.metrics.push_back({id, round, "central", "", "test/accuracy", 0.1 * static_cast<double>(round)});
      record.metrics.push_back({id, round, "client", "c", "train/loss", 0.5});
    }
    return record;
  }
  void AddRunWithClient(History& history, const std::string& id, const std::string& name = "demo") {
    ASSERT_OK(history.AddRun(Run(id, name), Model(id, 0), {}));
    const RunClient client = {"c", 1, 1};
    ASSERT_OK(history.AddClients(id, std::span(&client, 1), Iso8601(0)));
  }

  std::string path_ = Path("runs.sqlite");
};

TEST_F(HistoryTest, Iso8601_HasMillisecondsAndZulu) {
  EXPECT_EQ(Iso8601(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(Iso8601(1'738'333'530'123), "2025-01-31T14:25:30.123Z");
  EXPECT_EQ(Iso8601(-1), "1969-12-31T23:59:59.999Z");
}

TEST_F(HistoryTest, Open_NewFile_HasTheDocumentedColumns) {
  Open()->Close().IgnoreError();
  const auto columns = [&](const std::string& table) {
    return Ask(fmt::format("SELECT group_concat(name, ' ') FROM pragma_table_info('{}')", table));
  };
  EXPECT_EQ(columns("runs"),
            "run_id name status reason config plan_digest seed version created_at started_at finished_at;");
  EXPECT_EQ(columns("rounds"),
            "run_id round attempt status reason started_at finished_at selected reported folded refused dropped failed "
            "examples train_loss bytes_down bytes_up train_seconds aggregate_seconds evaluate_seconds model_digest;");
  EXPECT_EQ(columns("clients"), "client_id fingerprint status first_seen_at last_seen_at;");
  EXPECT_EQ(columns("run_clients"), "run_id client_id from_round from_attempt;");
  EXPECT_EQ(
      columns("client_rounds"),
      "task_id run_id round attempt client_id kind status base_round committed_round staleness parent_id examples "
      "steps train_loss update_norm update_digest weight bytes_down bytes_up wait_seconds train_seconds "
      "upload_seconds error;");
  EXPECT_EQ(columns("metrics"), "run_id round scope client_id name value;");
  EXPECT_EQ(columns("models"), "run_id round digest path bytes parameters;");
  EXPECT_EQ(columns("events"), "run_id round at level source message;");
  const auto key = [&](const std::string& table) {
    return Ask(fmt::format("SELECT group_concat(name, ' ') FROM pragma_table_info('{}') WHERE pk > 0", table));
  };
  EXPECT_EQ(key("runs"), "run_id;");
  EXPECT_EQ(key("rounds"), "run_id round attempt;");
  EXPECT_EQ(key("clients"), "client_id;");
  EXPECT_EQ(key("client_rounds"), "task_id;");
  EXPECT_EQ(key("models"), "run_id round;");
  EXPECT_EQ(Ask("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name"),
            "client_reliability;round_summary;run_leaderboard;");
  EXPECT_EQ(Ask("PRAGMA user_version"), "1;");
}

TEST_F(HistoryTest, EveryColumn_IsDocumented) {
  Open()->Close().IgnoreError();
  std::ifstream file(RIVULET_SOURCE_DIR "/docs/history.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(page.empty());
  const auto lines = [](const std::string& answer) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin < answer.size();) {
      const size_t end = answer.find(';', begin);
      parts.push_back(answer.substr(begin, end - begin));
      begin = end + 1;
    }
    return parts;
  };
  for (const std::string& table : lines(Ask("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"))) {
    const size_t begin = page.find("### " + table + "\n") != page.npos ? page.find("### " + table + "\n")
                                                                       : page.find("| `" + table + "` |");
    ASSERT_NE(begin, page.npos) << table;
    const size_t end = page[begin] == '#' ? page.find("\n##", begin + 1) : page.find('\n', begin);
    const std::string section = page.substr(begin, end - begin);
    for (const std::string& column : lines(Ask("SELECT name FROM pragma_table_info('" + table + "')"))) {
      EXPECT_THAT(section, ::testing::ContainsRegex("[ ,|]" + column + "[ ,|]")) << table << "." << column;
    }
  }
}

TEST_F(HistoryTest, Open_WhileWriting_IsWriteAheadAndFullySynchronous) {
  const auto history = Open();
  EXPECT_EQ(Ask("PRAGMA journal_mode"), "wal;");
}

TEST_F(HistoryTest, Close_LeavesOnePlainFile) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  EXPECT_TRUE(std::filesystem::exists(path_ + "-wal"));
  ASSERT_OK(history->Close());
  EXPECT_FALSE(std::filesystem::exists(path_ + "-wal"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "-shm"));
  std::filesystem::copy_file(path_, Path("copy.sqlite"));
  path_ = Path("copy.sqlite");
  EXPECT_EQ(Ask("SELECT run_id FROM runs"), "r1;");
}

TEST_F(HistoryTest, Close_WhileAnotherHasItOpen_DoesNotWait) {
  auto one = Open(), two = Open();
  AddRunWithClient(*one, "r1");
  EXPECT_OK(one->Close());
  AddRunWithClient(*two, "r2");
  EXPECT_EQ(Ask("SELECT count(*) FROM runs"), "2;");
}

TEST_F(HistoryTest, Open_Folder_IsRefused) {
  path_ = folder_.path();
  EXPECT_EQ(OpenError(History::Access::kReadWrite),
            fmt::format("history '{}' is a folder; name a file in it", folder_.path()));
}

TEST_F(HistoryTest, Open_MissingFolder_IsRefused) {
  path_ = Path("none/runs.sqlite");
  EXPECT_THAT(OpenError(History::Access::kReadWrite), HasSubstr("does not exist; create it first"));
}

TEST_F(HistoryTest, OpenForReading_MissingFile_IsRefusedAndNotMade) {
  EXPECT_EQ(OpenError(History::Access::kReadOnly), fmt::format("there is no history at '{}'", path_));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(HistoryTest, Open_Pipe_IsRefused) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(OpenError(History::Access::kReadWrite), HasSubstr("is not a plain file"));
}

TEST_F(HistoryTest, Open_TextFile_IsRefusedAndUnchanged) {
  std::ofstream(path_) << std::string(5000, 'x');
  EXPECT_EQ(OpenError(History::Access::kReadWrite),
            fmt::format("'{}' is not a Rivulet history: it is not an SQLite database", path_));
  EXPECT_EQ(std::filesystem::file_size(path_), 5000u);
}

TEST_F(HistoryTest, Open_SomeoneElsesDatabase_IsRefusedAndUnchanged) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "CREATE TABLE t (a)", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  EXPECT_THAT(OpenError(History::Access::kReadWrite), HasSubstr("an SQLite database of something else"));
  EXPECT_EQ(Ask("SELECT name FROM sqlite_master"), "t;");
}

TEST_F(HistoryTest, Open_NewerVersion_IsRefused) {
  Open()->Close().IgnoreError();
  Ask("PRAGMA user_version = 99");
  EXPECT_THAT(OpenError(History::Access::kReadWrite), HasSubstr("has version 99, and this program knows up to 1"));
  EXPECT_THAT(OpenError(History::Access::kReadOnly), HasSubstr("use a newer program"));
}

TEST_F(HistoryTest, Open_DamagedPages_IsDataLossNotACrash) {
  {
    auto history = Open();
    for (int i = 0; i < 50; ++i) AddRunWithClient(*history, fmt::format("r{}", i));
  }
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2000);
    file << std::string(30'000, '\x5A');
  }
  auto history = History::Open(path_, History::Access::kReadOnly);
  Status status = history.status();
  if (history.ok()) status = (*history)->Runs().status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is damaged")));
}

TEST_F(HistoryTest, Open_ReadOnlyFile_IsRefused) {
  if (geteuid() == 0) GTEST_SKIP() << "the super-user may write everything";
  Open()->Close().IgnoreError();
  chmod(path_.c_str(), 0400);
  EXPECT_THAT(OpenError(History::Access::kReadWrite), HasSubstr("read-only"));
}

TEST_F(HistoryTest, AddAttempt_RoundTripsEveryColumn) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  AttemptRecord record = Attempt("r1", 1, 1, "committed");
  ClientRoundRow& task = record.tasks[0];
  task.committed_round = 1;
  task.staleness = 0;
  task.parent_id = "tier";
  task.steps = 3;
  task.train_loss = 0.25;
  task.update_norm = 1.5;
  task.update_digest = "ff";
  task.weight = 5;
  task.bytes_down = 7;
  task.bytes_up = 8;
  task.wait_seconds = 0.1;
  task.train_seconds = 0.2;
  task.upload_seconds = 0.3;
  record.events.push_back({"r1", 1, Iso8601(1), "warning", "test", "it's a message"});
  ASSERT_OK(history->AddAttempt(record));

  const auto tasks = history->ClientRounds("r1", 1);
  ASSERT_OK(tasks);
  ASSERT_EQ(tasks->size(), 1);
  const ClientRoundRow& row = tasks->front();
  EXPECT_EQ(row.task_id, "r1-r1-a1-c-0");
  EXPECT_EQ(row.committed_round, 1);
  EXPECT_EQ(row.parent_id, "tier");
  EXPECT_EQ(row.steps, 3);
  EXPECT_EQ(row.update_norm, 1.5);
  EXPECT_EQ(row.weight, 5);
  EXPECT_EQ(row.bytes_down, 7);
  EXPECT_EQ(row.bytes_up, 8);
  EXPECT_EQ(row.wait_seconds, 0.1);
  EXPECT_EQ(row.upload_seconds, 0.3);
  const auto events = history->Events("r1");
  ASSERT_OK(events);
  ASSERT_EQ(events->size(), 1);
  EXPECT_EQ(events->front().message, "it's a message");
  EXPECT_EQ(Ask("SELECT name, test_accuracy, folded FROM round_summary"), "demo|0.1|1;");
  EXPECT_EQ(Ask("SELECT tasks, folded, reliability, examples FROM client_reliability"), "1|1|1.0|5;");
  const auto clients = history->ClientReliability("r1");
  ASSERT_OK(clients);
  EXPECT_EQ(clients->front().client_id, "c");
}

TEST_F(HistoryTest, AddAttempt_Twice_IsRefusedAndLeavesNothing) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  ASSERT_OK(history->AddAttempt(Attempt("r1", 1, 1, "committed")));
  AttemptRecord again = Attempt("r1", 1, 1, "committed");
  again.events.push_back({"r1", 1, Iso8601(1), "info", "test", "second"});
  EXPECT_THAT(history->AddAttempt(again), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(
      Ask("SELECT (SELECT count(*) FROM rounds), (SELECT count(*) FROM client_rounds), (SELECT count(*) FROM events)"),
      "1|1|0;");
}

TEST_F(HistoryTest, AddAttempt_UnknownClient_IsRefusedByTheForeignKey) {
  auto history = Open();
  ASSERT_OK(history->AddRun(Run("r1"), Model("r1", 0), {}));
  EXPECT_THAT(history->AddAttempt(Attempt("r1", 1, 1, "committed")), ::testing::Not(::rivulet::testing::IsOk()));
  EXPECT_EQ(Ask("SELECT count(*) FROM rounds"), "0;");
}

TEST_F(HistoryTest, AddAttempt_ForgetOlderModels_KeepsRowsWithoutPath) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  AttemptRecord record = Attempt("r1", 1, 1, "committed");
  record.forget_older_models = true;
  ASSERT_OK(history->AddAttempt(record));
  const auto models = history->Models("r1");
  ASSERT_OK(models);
  ASSERT_EQ(models->size(), 2);
  EXPECT_EQ((*models)[0].path, "");
  EXPECT_EQ((*models)[1].path, "runs.sqlite.models/r1/1");
}

TEST_F(HistoryTest, AddAttempt_FinishesRun_InTheSameTransaction) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  AttemptRecord record = Attempt("r1", 1, 1, "committed");
  record.finishes_run = true;
  ASSERT_OK(history->AddAttempt(record));
  EXPECT_EQ(Ask("SELECT status, finished_at FROM runs"), "finished|1970-01-01T00:00:00.000Z;");
}

TEST_F(HistoryTest, FindResumePoint_CountsAbandonedAttemptsAndLeases) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  ASSERT_OK(history->AddAttempt(Attempt("r1", 1, 1, "committed")));
  ASSERT_OK(history->AddAttempt(Attempt("r1", 2, 1, "abandoned")));
  ASSERT_OK(history->AddAttempt(Attempt("r1", 2, 2, "failed")));
  const auto point = history->FindResumePoint("r1");
  ASSERT_OK(point);
  EXPECT_EQ(point->committed_round, 1);
  EXPECT_EQ(point->next_attempt, 3);
  ASSERT_EQ(point->clients.size(), 1u);
  EXPECT_THAT(point->leases, ElementsAre(std::pair<std::string, int64_t>("c", 2)));
}

TEST_F(HistoryTest, ResolveRun_ByIdNameAndLatest) {
  auto history = Open();
  EXPECT_THAT(std::string(Message(history->ResolveRun("latest").status())), HasSubstr("has no runs yet"));
  AddRunWithClient(*history, "r1", "alpha");
  AddRunWithClient(*history, "r2", "alpha");
  AddRunWithClient(*history, "r3", "beta");
  EXPECT_EQ(history->ResolveRun("r1")->run_id, "r1");
  EXPECT_EQ(history->ResolveRun("alpha")->run_id, "r2");
  EXPECT_EQ(history->ResolveRun("latest")->run_id, "r3");
  EXPECT_THAT(std::string(Message(history->ResolveRun("alpa").status())), HasSubstr("Did you mean 'alpha'?"));
  EXPECT_THAT(history->ResolveRun("zzzzzzzzz"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(HistoryTest, RunLeaderboard_RanksByBestAccuracy) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  AddRunWithClient(*history, "r2");
  ASSERT_OK(history->AddAttempt(Attempt("r1", 1, 1, "committed")));
  ASSERT_OK(history->AddAttempt(Attempt("r2", 1, 1, "committed")));
  ASSERT_OK(history->AddAttempt(Attempt("r2", 2, 1, "committed")));
  EXPECT_EQ(Ask("SELECT run_id, rounds, best_accuracy, best_round FROM run_leaderboard"), "r2|2|0.2|2;r1|1|0.1|1;");
  const auto runs = history->RunSummaries();
  ASSERT_OK(runs);
  ASSERT_EQ(runs->size(), 2);
  EXPECT_EQ((*runs)[0].run_id, "r2");
  EXPECT_EQ((*runs)[0].best_round, 2);
}

// Two writers of different runs, each with its own connection: every row of both is there, and nobody is told "busy".
TEST_F(HistoryTest, TwoWriters_OfDifferentRuns_BothSucceed) {
  auto one = Open(), two = Open();
  AddRunWithClient(*one, "r1");
  AddRunWithClient(*two, "r2");
  const auto write = [](History& history, const std::string& id) {
    for (int round = 1; round <= 50; ++round) {
      const Status status = history.AddAttempt(Attempt(id, round, 1, "committed"));
      ASSERT_OK(status);
    }
  };
  std::thread other([&] { write(*two, "r2"); });
  write(*one, "r1");
  other.join();
  EXPECT_EQ(Ask("SELECT run_id, count(*) FROM rounds GROUP BY run_id"), "r1|50;r2|50;");
}

TEST_F(HistoryTest, OpenAtTheSameTime_NewFile_MakesOneSchema) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      auto history = History::Open(path_, History::Access::kReadWrite);
      ASSERT_OK(history);
      AddRunWithClient(**history, fmt::format("r{}", i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Ask("SELECT count(*) FROM runs"), "4;");
}

TEST_F(HistoryTest, AddClients_TenThousand_IsOneTransactionOfRows) {
  auto history = Open();
  ASSERT_OK(history->AddRun(Run("r1"), Model("r1", 0), {}));
  std::vector<RunClient> clients;
  for (int i = 0; i < 10'000; ++i) clients.push_back({fmt::format("client-{:05}", i), 1, 1});
  ASSERT_OK(history->AddClients("r1", clients, Iso8601(0)));
  ASSERT_OK(history->AddClients("r1", clients, Iso8601(1))) << "known names keep their row";
  EXPECT_EQ(history->FindResumePoint("r1")->clients.size(), 10'000u);
}

}  // namespace
}  // namespace rivulet
