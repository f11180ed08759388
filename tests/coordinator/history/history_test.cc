#include "coordinator/history/history.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "coordinator/history/questions.h"
#include "coordinator/history/schema.h"
#include "engine/base/sha256.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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
    run.plan_digest = Sha256Of("plan").Hex();
    run.seed = 1;
    run.version = "0.1.0";
    run.created_at = run.started_at = Iso8601(1'738'333'530'123);
    return run;
  }
  static ModelRow Model(const std::string& id, int64_t round) {
    return {id,  round, Sha256Of(fmt::format("{}", round)).Hex(), fmt::format("runs.sqlite.models/{}/{}", id, round),
            100, 10};
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
            "run_id name status reason config plan_digest seed version created_at started_at finished_at rowid;");
  EXPECT_EQ(columns("rounds"),
            "run_id round attempt status reason started_at finished_at selected reported folded refused dropped failed "
            "examples train_loss bytes_down bytes_up train_seconds aggregate_seconds evaluate_seconds noise_multiplier "
            "sampling_rate delta epsilon participant_epsilon model_digest;");
  EXPECT_EQ(columns("clients"), "client_id fingerprint status first_seen_at last_seen_at;");
  EXPECT_EQ(columns("run_clients"), "run_id client_id from_round from_attempt;");
  EXPECT_EQ(
      columns("client_rounds"),
      "task_id run_id round attempt client_id kind status base_round committed_round staleness parent_id examples "
      "steps train_loss update_norm update_digest weight bytes_down bytes_up wait_seconds train_seconds "
      "upload_seconds error rowid;");
  EXPECT_EQ(columns("metrics"), "run_id round scope client_id name value right total;");
  EXPECT_EQ(columns("models"), "run_id round digest path bytes parameters;");
  EXPECT_EQ(columns("records"), "run_id round digest record signature certificate;");
  EXPECT_EQ(columns("events"), "run_id round at level source message rowid;");
  EXPECT_EQ(columns("run_keys"), "run_id key value;");
  EXPECT_EQ(columns("tags"), "run_id tag;");
  EXPECT_EQ(columns("notes"), "run_id at text rowid;");
  EXPECT_EQ(columns("pointers"), "name label run_id round digest version share at author note rolled_back rowid;");
  EXPECT_EQ(columns("audit"), "at operator_id serial action run_id client_id detail rowid;");
  EXPECT_EQ(Ask("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name"),
            "audit;client_reliability;client_rounds;clients;events;metrics;models;notes;pointers;records;round_summary;"
            "rounds;run_clients;run_keys;run_leaderboard;runs;tags;");
  EXPECT_EQ(Ask("PRAGMA user_version"), fmt::format("{};", kHistoryVersion));
}

TEST_F(HistoryTest, EveryColumn_IsDocumented) {
  Open()->Close().IgnoreError();
  std::ifstream file(RIVULET_SOURCE_DIR "/docs/reference/history.md");
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

TEST_F(HistoryTest, Records_AreWrittenWithTheirVersions_AndGoWithThem) {
  auto history = Open();
  const auto record = [](int64_t round) {
    const std::string text = fmt::format("record {}", round);
    return RecordRow{"r1", round, Sha256Of(text).Hex(), text, round == 0 ? "" : "00ff61", round == 0 ? "" : "pem"};
  };
  const RecordRow first = record(0);
  RunRow run = Run("r1");
  ASSERT_OK(history->AddRun(run, Model("r1", 0), {}, &first));
  const RunClient client = {"c", 1, 1};
  ASSERT_OK(history->AddClients("r1", std::span(&client, 1), Iso8601(0)));
  for (int64_t round = 1; round <= 3; ++round) {
    AttemptRecord attempt = Attempt("r1", round, 1, "committed");
    attempt.record = record(round);
    ASSERT_OK(history->AddAttempt(attempt));
  }
  ASSERT_OK_AND_ASSIGN(std::vector<RecordRow> rows, history->Records("r1"));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].signature + rows[0].certificate, "");
  EXPECT_EQ(rows[2].record, "record 2");
  EXPECT_EQ(rows[2].digest, Sha256Of("record 2").Hex());
  EXPECT_EQ(rows[2].signature, "00ff61");
  EXPECT_EQ(rows[2].certificate, "pem");
  ASSERT_OK_AND_ASSIGN(const auto blob, history->FindBlob("r1", kConfigurationBlob));
  EXPECT_EQ(blob->second.bytes, run.config);
  AttemptRecord again = Attempt("r1", 4, 1, "committed");
  again.record = record(3);
  EXPECT_THAT(history->AddAttempt(again), StatusIs(absl::StatusCode::kAlreadyExists)) << "a version has one record";
  EXPECT_EQ(history->Rounds("r1")->size(), 3u);

  auto other = *History::Open(Path("other.sqlite"), History::Access::kReadWrite);
  const std::string id = "r1";
  Ask("UPDATE model SET file = printf('round-%06d.safetensors', round)");
  ASSERT_OK(other->Import(path_, std::span(&id, 1)));
  ASSERT_OK_AND_ASSIGN(const std::vector<RecordRow> imported, other->Records("r1"));
  ASSERT_EQ(imported.size(), 4u);
  EXPECT_EQ(imported[3].record + imported[3].signature, "record 300ff61");

  ASSERT_OK(history->GoBack("r1", 1, {}));
  ASSERT_OK_AND_ASSIGN(rows, history->Records("r1"));
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_EQ(history->FindRecord("r1", 1).value().value().record, "record 1");
  EXPECT_FALSE(history->FindRecord("r1", 2)->has_value());
  ASSERT_OK(history->RemoveRun("r1"));
  EXPECT_EQ(Ask("SELECT count(*) FROM record"), "0;");
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

// SQLite's own words end with the whole text of the table, of which one line is enough.
TEST_F(HistoryTest, Open_DamagedSchema_IsOneLine) {
  Open()->Close().IgnoreError();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(
      sqlite3_exec(db,
                   "PRAGMA writable_schema = ON;"
                   "UPDATE sqlite_master SET sql = replace(sql, 'CREATE TABLE', 'CREATE TABEL') WHERE type = 'table'",
                   nullptr, nullptr, nullptr),
      SQLITE_OK);
  sqlite3_close(db);
  const std::string error = OpenError(History::Access::kReadOnly);
  EXPECT_THAT(error, HasSubstr("is damaged"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr("\n")));
  EXPECT_LT(error.size(), 300u) << error;
}

TEST_F(HistoryTest, Open_NewerVersion_IsRefused) {
  Open()->Close().IgnoreError();
  Ask("PRAGMA user_version = 99");
  EXPECT_THAT(OpenError(History::Access::kReadWrite),
              HasSubstr(fmt::format("has version 99, and this program knows up to {}", kHistoryVersion)));
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
  task.parent_id = "aggregator";
  task.steps = 3;
  task.train_loss = 0.5;
  task.update_norm = 1.5;
  task.update_digest = Sha256Of("update");
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
  EXPECT_EQ(row.parent_id, "aggregator");
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

TEST_F(HistoryTest, AddAttempt_ForgetModels_KeepsRowsWithoutPath) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  for (int64_t round = 1; round <= 2; ++round) {
    AttemptRecord record = Attempt("r1", round, 1, "committed");
    if (round == 2) record.forget_models = {0};
    ASSERT_OK(history->AddAttempt(record));
  }
  const auto models = history->Models("r1");
  ASSERT_OK(models);
  ASSERT_EQ(models->size(), 3);
  EXPECT_EQ((*models)[0].path, "");
  EXPECT_EQ((*models)[1].path, "runs.sqlite.models/r1/1");
  EXPECT_EQ((*models)[2].path, "runs.sqlite.models/r1/2");
}

TEST_F(HistoryTest, AddAttempts_OneIsRefused_NoneIsWritten) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  std::vector<AttemptRecord> records = {Attempt("r1", 1, 1, "committed"), Attempt("r1", 2, 1, "committed"),
                                        Attempt("r1", 2, 1, "committed")};
  EXPECT_THAT(history->AddAttempts(records), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(Ask("SELECT count(*) FROM rounds"), "0;");
  records.pop_back();
  records[1].model->path = "";
  ASSERT_OK(history->AddAttempts(records));
  EXPECT_EQ(Ask("SELECT round, path IS NULL FROM models ORDER BY round"), "0|0;1|0;2|1;") << "a row without a file";
}

TEST_F(HistoryTest, AddAttempts_TotalsAndLastSeen_AreOfAllOfThem) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  std::vector<AttemptRecord> records = {Attempt("r1", 1, 1, "abandoned"), Attempt("r1", 1, 2, "committed"),
                                        Attempt("r1", 2, 1, "committed")};
  for (int64_t i = 0; i < 3; ++i) {
    AttemptRecord& record = records[static_cast<size_t>(i)];
    if (i > 0) record.tasks[0].train_seconds = 0.5;
    record.seen.emplace_back("c", 1000 * (i + 1));
  }
  ASSERT_OK(history->AddAttempts(records));
  EXPECT_EQ(Ask("SELECT tasks, folded, refused, dropped, failed, examples, train_seconds, timed FROM membership"),
            "3|2|0|1|0|10|1.0|2;");
  EXPECT_EQ(Ask("SELECT last_seen FROM client"), "3000;");
}

// A copy of the file alone, or a log that was lost: the file tells of what was brought over, and of nothing else.
TEST_F(HistoryTest, BringOver_FileWithoutItsLog_HasTheVersion) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  ASSERT_OK(history->AddAttempt(Attempt("r1", 1, 1, "committed")));
  ASSERT_TRUE(history->BringOver()->whole());
  for (int64_t round = 2; round <= 300; ++round) {  // a thousand pages, where SQLite would do it by itself
    ASSERT_OK(history->AddAttempt(Attempt("r1", round, 1, "committed")));
  }
  ASSERT_TRUE(std::filesystem::exists(path_ + "-wal"));
  const std::string original = std::exchange(path_, Path("copy.sqlite"));
  std::filesystem::copy_file(original, path_);
  EXPECT_EQ(Ask("SELECT max(round) FROM models"), "1;");
  ASSERT_TRUE(history->BringOver()->whole());
  std::filesystem::copy_file(original, path_, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(Ask("SELECT max(round) FROM models"), "300;");
}

TEST_F(HistoryTest, BringOver_WhileAReaderReads_SaysThatItIsNotWhole) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &reader), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM runs", nullptr, nullptr, nullptr), SQLITE_OK);
  ASSERT_OK(history->AddAttempt(Attempt("r1", 1, 1, "committed")));
  ASSERT_OK_AND_ASSIGN(const CheckpointProgress blocked, history->BringOver());
  EXPECT_FALSE(blocked.whole());
  EXPECT_GT(blocked.log_bytes, 0);
  sqlite3_close(reader);
  EXPECT_TRUE(history->BringOver()->whole());
}

TEST_F(HistoryTest, GoBack_IsAsIfTheRoundsAfterHadNotBeen) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  AddRunWithClient(*history, "r2");
  ASSERT_OK(history->AddAttempt(Attempt("r1", 1, 1, "committed")));
  ASSERT_OK(history->AddAttempt(Attempt("r2", 2, 1, "committed")));
  const std::string tables[] = {"rounds", "client_rounds", "metrics", "models", "client_reliability"};
  std::vector<std::string> before;
  for (const std::string& table : tables) before.push_back(Ask(fmt::format("SELECT * FROM {}", table)));
  ASSERT_OK(history->AddAttempt(Attempt("r1", 2, 1, "abandoned")));
  ASSERT_OK(history->AddAttempt(Attempt("r1", 2, 2, "committed")));
  ASSERT_OK(history->AddAttempt(Attempt("r1", 3, 1, "committed")));
  const EventRow event = {"r1", 2, Iso8601(1), "warning", "run", "back"};
  ASSERT_OK(history->GoBack("r1", 1, std::span(&event, 1)));
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(Ask(fmt::format("SELECT * FROM {}", tables[i])), before[i]) << tables[i];
  }
  EXPECT_EQ(Ask("SELECT message FROM events"), "back;");
  EXPECT_OK(history->AddAttempt(Attempt("r1", 2, 1, "committed")));
}

TEST_F(HistoryTest, ReopenRun_OfACopyOrARenamedFile_NamesTheModelsBesideIt) {
  AddRunWithClient(*Open(), "r1");
  std::filesystem::rename(path_, Path("other.sqlite"));
  std::filesystem::create_symlink("other.sqlite", Path("link.sqlite"));
  path_ = Path("link.sqlite");
  auto history = Open();
  EXPECT_EQ(history->path(), path_);
  EXPECT_EQ(history->real_path(), Path("other.sqlite"));
  ASSERT_OK(history->ReopenRun(Run("r1"), {}));
  EXPECT_EQ((*history->Models("r1"))[0].path, "other.sqlite.models/r1/0");
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

// The test set chooses nothing where there is a set for that: r1's best round is its first, r2 is as ever.
TEST_F(HistoryTest, RunLeaderboard_GoesByTheValidationSetWhereThereIsOne) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  AddRunWithClient(*history, "r2");
  for (int64_t round = 1; round <= 3; ++round) {
    AttemptRecord measured = Attempt("r1", round, 1, "committed");
    measured.metrics.push_back(
        {"r1", round, "central", "", "validation/accuracy", 0.25 - 0.05 * static_cast<double>(round)});
    ASSERT_OK(history->AddAttempt(measured));
    ASSERT_OK(history->AddAttempt(Attempt("r2", round, 1, "committed")));
  }
  EXPECT_EQ(Ask("SELECT run_id, round(best_accuracy, 9), best_round, round(last_accuracy, 9), last_round\n"
                "FROM run_leaderboard"),
            "r2|0.3|3|0.3|3;r1|0.2|1|0.1|3;");
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

// Everybody opens the same new file at the same moment, writes a run, closes, and goes on to the next file: a file is
// new, half made, in use and being folded up for others all the time.
TEST_F(HistoryTest, OpenAtTheSameTime_ManyProcesses_NobodyIsToldAnything) {
  constexpr int kProcesses = 8, kFiles = 10;
  std::vector<pid_t> children;
  for (int child = 0; child < kProcesses; ++child) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      for (int i = 0; i < kFiles; ++i) {
        const auto history = History::Open(folder_.File(fmt::format("{}.sqlite", i)), History::Access::kReadWrite);
        const std::string id = fmt::format("r{}", child);
        const Status status = history.ok() ? (*history)->AddRun(Run(id), Model(id, 0), {}) : history.status();
        if (!status.ok()) {
          std::fprintf(stderr, "%s\n", std::string(Message(status)).c_str());
          _exit(1);
        }
      }
      _exit(0);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (int i = 0; i < kFiles; ++i) {
    path_ = folder_.File(fmt::format("{}.sqlite", i));
    EXPECT_EQ(Ask("SELECT count(*) FROM runs"), fmt::format("{};", kProcesses));
  }
}

// The moment between a file's name and its tables: whoever only wants to read waits for the tables.
TEST_F(HistoryTest, OpenForReading_WhileItIsBeingMade_Waits) {
  std::ofstream(path_).close();
  std::thread maker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    AddRunWithClient(*Open(), "r1");
  });
  const auto reader = History::Open(path_, History::Access::kReadOnly);
  ASSERT_OK(reader);
  maker.join();
  EXPECT_OK((*reader)->Runs());
}

TEST_F(HistoryTest, OpenForReading_FileThatStaysEmpty_IsRefused) {
  std::ofstream(path_).close();
  EXPECT_THAT(OpenError(History::Access::kReadOnly), HasSubstr("holds no history yet: the file is empty"));
}

// A process dies half way through making the tables, with pages of them in the file already: the next one finds what it
// was before, an empty file, with a journal to roll back or a log without an end.
TEST_F(HistoryTest, Open_HalfMadeByAProcessThatDied_IsMadeByTheNext) {
  for (const char* journal : {"DELETE", "WAL"}) {
    SCOPED_TRACE(journal);
    path_ = Path(fmt::format("{}.sqlite", journal));
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      sqlite3* db = nullptr;
      const std::string half = fmt::format(
          "PRAGMA journal_mode = {}; PRAGMA cache_size = 1; BEGIN IMMEDIATE; PRAGMA application_id = 7;"
          "CREATE TABLE run (x); WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) "
          "INSERT INTO run SELECT zeroblob(3000) FROM n",
          journal);
      const bool ok = sqlite3_open(path_.c_str(), &db) == SQLITE_OK &&
                      sqlite3_exec(db, half.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK &&
                      std::filesystem::file_size(path_ + (journal[0] == 'W' ? "-wal" : "")) > 4096;
      _exit(ok ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_EQ(status, 0);
    AddRunWithClient(*Open(), "r1");
    EXPECT_EQ(Ask("SELECT count(*) FROM runs"), "1;");
  }
}

TEST_F(HistoryTest, Write_WhileAnotherHoldsTheLock_WaitsAndSaysSo) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  std::vector<std::string> said;
  history->SetOnBusy([&](const std::string& sentence) { said.push_back(sentence); });
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  std::thread lets_go([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr);
  });
  EXPECT_OK(history->AddAttempt(Attempt("r1", 1, 1, "committed")));
  lets_go.join();
  sqlite3_close(other);
  EXPECT_THAT(said, ElementsAre(fmt::format("waiting for another process that is writing to the history '{}'", path_)));
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

// Rows are inserted many at a time: of any number of tasks none is missing, and each is its own.
TEST_F(HistoryTest, AddAttempt_AnyNumberOfTasks_AreAllThere) {
  auto history = Open();
  ASSERT_OK(history->AddRun(Run("r1"), Model("r1", 0), {}));
  int64_t round = 0;
  for (const int64_t count : {0, 1, 19, 20, 21, 57}) {
    AttemptRecord record = Attempt("r1", ++round, 1, "committed");
    const ClientRoundRow like = record.tasks[0];
    record.tasks.clear();
    record.metrics.clear();
    for (int64_t i = 0; i < count; ++i) {
      ClientRoundRow& task = record.tasks.emplace_back(like);
      task.client_id = fmt::format("client-{:05}", i);
      task.task_id = fmt::format("r1-r{}-a1-{}-0", round, task.client_id);
      task.examples = 100 + i;
      if (i % 3 == 0) task.status = "failed", task.error = fmt::format("reason {}", i);
    }
    ASSERT_OK(history->AddAttempt(record));
    EXPECT_EQ(Ask(fmt::format("SELECT count(*), coalesce(sum(examples = 100 + substr(client_id, -5)), 0), "
                              "coalesce(sum(status = 'folded'), 0), count(DISTINCT error) "
                              "FROM client_rounds WHERE round = {}",
                              round)),
              fmt::format("{0}|{0}|{1}|{2};", count, count * 2 / 3, (count + 2) / 3));
  }
  AttemptRecord twice = Attempt("r1", ++round, 1, "committed");
  twice.metrics.clear();
  for (int i = 0; i < 40; ++i) twice.tasks.push_back(twice.tasks[0]);
  EXPECT_TRUE(absl::IsAlreadyExists(history->AddAttempt(twice)));
  EXPECT_EQ(Ask(fmt::format("SELECT count(*) FROM client_rounds WHERE round = {}", round)), "0;");
}

// What a task costs: its row and its places in the indices.
TEST_F(HistoryTest, TaskRow_IsAtMost200Bytes) {
  constexpr int kClients = 2'000, kRounds = 50, kCohort = 2'000;
  auto history = Open();
  const std::string id = "mnist-fedavg-20250131T142530-7f3a";
  ASSERT_OK(history->AddRun(Run(id), Model(id, 0), {}));
  std::vector<RunClient> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back({fmt::format("client-{:05}", i), 1, 1});
  ASSERT_OK(history->AddClients(id, clients, Iso8601(0)));
  const auto write = [&](int64_t round) {
    AttemptRecord record = Attempt(id, round, 1, "committed");
    record.tasks.clear();
    record.metrics.clear();
    for (int i = 0; i < kCohort; ++i) {
      ClientRoundRow& task = record.tasks.emplace_back();
      task.run_id = id;
      task.round = round;
      task.client_id = clients[static_cast<size_t>(i)].client_id;
      task.task_id = fmt::format("{}-r{}-a1-{}-0", id, round, task.client_id);
      task.status = "folded";
      task.base_round = round - 1;
      task.examples = task.weight = 600;
      task.steps = 60;
      task.train_loss = 0.123 + i;
      task.update_norm = 1.234 + i;
      task.update_digest = Sha256Of(task.task_id);
      task.bytes_down = task.bytes_up = 796'000;
      task.wait_seconds = 0.014;
      task.train_seconds = 0.001010719;
      task.upload_seconds = 0.003;
      record.metrics.push_back({id, round, "client", task.client_id, "train/loss", task.train_loss});
    }
    ASSERT_OK(history->AddAttempt(record));
  };
  const auto bytes = [&] {
    return std::stoll(Ask("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"));
  };
  write(1);
  const int64_t before = bytes();
  for (int64_t round = 2; round <= kRounds + 1; ++round) write(round);
  const int64_t each = (bytes() - before) / (kRounds * kCohort);
  RecordProperty("bytes", static_cast<int>(each));
  EXPECT_LE(each, 200);
  EXPECT_EQ(Ask("SELECT count(*) FROM client_rounds"), "102000;");
  EXPECT_EQ(Ask("SELECT count(*) FROM metrics WHERE scope = 'client'"), "102000;");
}

TEST_F(HistoryTest, FindTask_ByAnyId) {
  auto history = Open();
  const std::string run = "x-r1-a1-y";
  ASSERT_OK(history->AddRun(Run(run), Model(run, 0), {}));
  const std::vector<RunClient> clients = {{"c", 1, 1}, {"1-r1-a1-z", 1, 1}, {"ø-0", 1, 1}};
  ASSERT_OK(history->AddClients(run, clients, Iso8601(0)));
  AttemptRecord record = Attempt(run, 1, 1, "committed");
  record.tasks[0].task_id = "an id of its own";
  for (const std::string name : {"1-r1-a1-z", "ø-0"}) {
    ClientRoundRow task = record.tasks[0];
    task.client_id = name;
    task.task_id = fmt::format("{}-r1-a1-{}-3", run, name);
    record.tasks.push_back(task);
  }
  ASSERT_OK(history->AddAttempt(record));
  // A cohort that measures the same version: the same client, the same ordinal, another kind.
  AttemptRecord measured = Attempt(run, 1, 1, "committed");
  measured.kind = measured.tasks[0].kind = "evaluate";
  measured.tasks[0].client_id = "ø-0";
  measured.tasks[0].task_id = run + "-e1-a1-ø-0-3";
  measured.model.reset();
  measured.metrics = {{run, 1, "client", "ø-0", "test/accuracy", {}, 228, 1000}};
  ASSERT_OK(history->AddAttempt(measured));

  for (const std::string id :
       {"an id of its own", "x-r1-a1-y-r1-a1-1-r1-a1-z-3", "x-r1-a1-y-r1-a1-ø-0-3", "x-r1-a1-y-e1-a1-ø-0-3"}) {
    const auto task = history->FindTask(id);
    ASSERT_OK(task);
    ASSERT_TRUE(task->has_value()) << id;
    EXPECT_EQ((*task)->task_id, id);
  }
  for (const std::string id : {"", "-", "c", "x-r1-a1-y-r1-a1-c-0", "x-r1-a1-y-r1-a1-ø-0-03", "x-r1-a1-y-r2-a1-ø-0-3",
                               "x-r1-a1-y-r99999999999999999999-a1-ø-0-3"}) {
    const auto task = history->FindTask(id);
    ASSERT_OK(task);
    EXPECT_FALSE(task->has_value()) << id;
  }
  EXPECT_EQ((*history->LastTask(run, "ø-0"))->kind, "train");
  EXPECT_EQ(Ask("SELECT count(*) FROM rounds"), "1;") << "measuring is no round";
  EXPECT_EQ(Ask("SELECT kind, committed_round FROM client_rounds WHERE client_id = 'ø-0' ORDER BY rowid"),
            "train|1;evaluate|NULL;");
  EXPECT_EQ(Ask("SELECT value, right, total FROM metrics WHERE client_id = 'ø-0' AND scope = 'client'"),
            "0.228|228|1000;");
  EXPECT_THAT(history->AddAttempt(measured), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(HistoryTest, AsynchronousTask_PointsToItsVersion) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  for (int64_t round = 1; round <= 3; ++round) {
    AttemptRecord record = Attempt("r1", round, 1, "committed");
    if (round == 3) record.tasks[0].base_round = 0;
    ASSERT_OK(history->AddAttempt(record));
  }
  EXPECT_EQ(Ask("SELECT base_round, committed_round, staleness FROM client_rounds ORDER BY rowid"),
            "0|1|0;1|2|0;0|3|2;");
}

TEST_F(HistoryTest, Totals_AreTheSumsOfTasks) {
  auto history = Open();
  ASSERT_OK(history->AddRun(Run("r1"), Model("r1", 0), {}));
  std::vector<RunClient> clients;
  for (int i = 0; i < 20; ++i) clients.push_back({fmt::format("c{}", i), 1, 1});
  ASSERT_OK(history->AddClients("r1", clients, Iso8601(0)));
  const char* ends[] = {"folded", "refused", "dropped", "failed"};
  uint32_t random = 1;
  const auto draw = [&](uint32_t n) { return (random = random * 1664525u + 1013904223u) / 65536 % n; };
  for (int64_t round = 1; round <= 50; ++round) {
    AttemptRecord record = Attempt("r1", round, 1, "committed");
    const ClientRoundRow blank = record.tasks[0];
    record.tasks.clear();
    record.metrics.clear();
    for (const RunClient& client : clients) {
      if (draw(3) == 0) continue;
      ClientRoundRow& task = record.tasks.emplace_back(blank);
      task.client_id = client.client_id;
      task.task_id = fmt::format("r1-r{}-a1-{}-0", round, client.client_id);
      task.status = ends[draw(4)];
      task.examples = draw(100);
      if (draw(2) == 0) task.train_seconds = draw(8) / 8.0;
    }
    ASSERT_OK(history->AddAttempt(record));
  }
  const std::string sums =
      "SELECT client_id, count(*), sum(status = 'folded'), sum(status = 'refused'), sum(status = 'dropped'), "
      "sum(status = 'failed'), avg(status = 'folded'), sum(CASE status WHEN 'folded' THEN examples ELSE 0 END), "
      "avg(train_seconds) FROM client_rounds GROUP BY client_id ORDER BY client_id";
  EXPECT_EQ(Ask("SELECT client_id, tasks, folded, refused, dropped, failed, reliability, examples, mean_train_seconds "
                "FROM client_reliability"),
            Ask(sums));
}

// Without an index of clients, which rounds would take three times as long to write for: by the attempts of its run.
TEST_F(HistoryTest, TasksOfAClient_AreLookedForAttemptByAttempt_AndTheNewestFirst) {
  Open();
  const std::string one = "EXPLAIN QUERY PLAN SELECT * FROM client_rounds WHERE run_id = 'r1' AND client_id = 'c'";
  for (const char* rest : {"", " ORDER BY round DESC, attempt DESC LIMIT 1"}) {
    const std::string plan = Ask(one + rest);
    EXPECT_THAT(plan, HasSubstr("SEARCH t USING INDEX sqlite_autoindex_task_1 (attempt_key=? AND client=?)"));
    EXPECT_THAT(plan, Not(HasSubstr("SCAN"))) << "a million rows";
    EXPECT_THAT(plan, Not(HasSubstr("TEMP B-TREE"))) << "all of them, to sort them";
  }
}

TEST_F(HistoryTest, ClientFailures_TellTheNewestOfEachThatHadAny) {
  auto history = Open();
  ASSERT_OK(history->AddRun(Run("r1"), Model("r1", 0), {}));
  ASSERT_OK(history->AddRun(Run("r2"), Model("r2", 0), {}));
  const auto add = [&](const std::string& run, int64_t round, const char* often, const char* once) {
    AttemptRecord record = Attempt(run, round, 1, "committed");
    const ClientRoundRow blank = record.tasks[0];
    record.metrics.clear();
    record.tasks.clear();
    for (const auto& [name, status] : {std::pair("often", often), {"once", once}, {"well", "folded"}}) {
      ClientRoundRow& task = record.tasks.emplace_back(blank);
      task.client_id = name;
      task.task_id = fmt::format("{}-r{}-a1-{}-0", run, round, name);
      task.status = status;
      if (task.status != "folded") task.error = fmt::format("{} of {}", name, round);
      record.round.dropped += task.status == "dropped" ? 1 : 0;
      record.round.failed += task.status == "failed" ? 1 : 0;
      record.round.folded = 3 - record.round.dropped - record.round.failed;
    }
    ASSERT_OK(history->AddAttempt(record));
  };
  add("r1", 1, "failed", "failed");
  add("r1", 2, "folded", "folded");
  add("r1", 3, "dropped", "folded");
  add("r1", 4, "folded", "folded");
  add("r2", 5, "failed", "failed");
  ASSERT_OK_AND_ASSIGN(const auto clients, history->ClientReliability("r1"));
  ASSERT_OK_AND_ASSIGN(const auto failures, ClientFailures(*history, "r1", clients));
  ASSERT_EQ(failures.size(), 2u);
  EXPECT_EQ(failures[0].client_id, "often");
  EXPECT_EQ(failures[0].tasks, 2);
  EXPECT_EQ(failures[0].last_round, 3);
  EXPECT_EQ(failures[0].status, "dropped");
  EXPECT_EQ(failures[0].error, "often of 3");
  EXPECT_EQ(failures[1].client_id, "once");
  EXPECT_EQ(failures[1].last_round, 1);
  EXPECT_EQ(failures[1].error, "once of 1");
}

// One that the history does not know, and one that it knows from another run.
TEST_F(HistoryTest, AddAttempt_ClientWithoutRows_BecomesAMemberWithItsFirstTask) {
  auto history = Open();
  ASSERT_OK(history->AddRun(Run("r1"), Model("r1", 0), {}));
  ASSERT_OK(history->AddAttempt(Attempt("r1", 1, 1, "committed")));
  ASSERT_OK(history->AddAttempt(Attempt("r1", 2, 1, "committed")));
  ASSERT_OK(history->AddRun(Run("r2"), Model("r2", 0), {}));
  ASSERT_OK(history->AddAttempt(Attempt("r2", 1, 1, "committed")));
  EXPECT_EQ(Ask("SELECT run_id, client_id, from_round, from_attempt FROM run_clients"), "r1|c|1|1;r2|c|1|1;");
  EXPECT_EQ(Ask("SELECT run_id, tasks, folded FROM client_reliability"), "r1|2|2;r2|1|1;");
  EXPECT_EQ(Ask("SELECT count(*), count(first_seen_at), count(last_seen_at) FROM clients"), "1|1|1;");
}

TEST_F(HistoryTest, AddAttempt_LossToldTwice_IsStoredOnceOrRefused) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  AttemptRecord record = Attempt("r1", 1, 1, "committed");
  record.tasks[0].train_loss = 0.5;
  record.metrics.push_back({"r1", 1, "federated", "", "train/loss", 0.5});
  ASSERT_OK(history->AddAttempt(record));
  EXPECT_EQ(Ask("SELECT count(*) FROM metric"), "1;");
  EXPECT_EQ(Ask("SELECT scope, client_id, name, value FROM metrics ORDER BY scope"),
            "central|NULL|test/accuracy|0.1;client|c|train/loss|0.5;federated|NULL|train/loss|0.5;");
  record = Attempt("r1", 2, 1, "committed");
  record.tasks[0].train_loss = 0.25;
  EXPECT_THAT(history->AddAttempt(record), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("train/loss twice")));
}

TEST_F(HistoryTest, DecideClient_KeepsWhatBecameOfTheNameAndWhoSaidSo) {
  const auto history = Open();
  AddRunWithClient(*history, "r1");
  const auto decide = [&](const std::string& action, const std::string& client_id, const std::string& detail) {
    return history->DecideClient({.at = Iso8601(7),
                                  .operator_id = "alice",
                                  .serial = "0F",
                                  .action = action,
                                  .run_id = "",
                                  .client_id = client_id,
                                  .detail = detail});
  };
  ASSERT_OK(decide("ban", "c", "sends noise"));
  ASSERT_OK(decide("approve", "not seen yet", ""));
  EXPECT_EQ(Ask("SELECT client_id, status, first_seen_at FROM clients ORDER BY 1"),
            "c|banned|1970-01-01T00:00:00.000Z;not seen yet|approved|NULL;");
  EXPECT_THAT(decide("praise", "c", ""), StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK(decide("remove", "c", ""));
  // It joins another run, and is as any other.
  ASSERT_OK(history->AddRun(Run("r2"), Model("r2", 0), {}));
  const RunClient clients[] = {{"c", 1, 1}, {"not seen yet", 1, 1}};
  ASSERT_OK(history->AddClients("r2", clients, Iso8601(9)));
  EXPECT_EQ(Ask("SELECT client_id, status FROM clients ORDER BY 1"), "c|active;not seen yet|approved;");
  ASSERT_OK(history->AddAudit({.at = Iso8601(8), .operator_id = "bob", .action = "pause", .run_id = "r1"}));
  ASSERT_OK(history->RemoveRun("r1"));
  const auto audit = history->Audit();
  ASSERT_OK(audit);
  ASSERT_EQ(audit->size(), 4u);
  EXPECT_EQ((*audit)[0].detail, "sends noise");
  EXPECT_EQ((*audit)[0].serial, "0F");
  EXPECT_EQ((*audit)[3].action, "pause") << "it outlives its run";
  EXPECT_EQ((*audit)[3].run_id, "r1");
}

TEST_F(HistoryTest, KeysTagsNotesAndBlobs_AreKept) {
  auto history = Open();
  AddRunWithClient(*history, "r1");
  EXPECT_EQ(Ask("SELECT * FROM run_keys"), "r1|run.rounds|2;");
  RunRow again = Run("r1");
  again.config = "top = 1\n\n[run]\nrounds = 3\n\n[client.optimizer]\nkind = \"sgd\"\n";
  ASSERT_OK(history->ReopenRun(again, {}));
  const auto keys = history->RunKeys("r1");
  ASSERT_OK(keys);
  ASSERT_EQ(keys->size(), 3u);
  EXPECT_EQ((*keys)[0].key + " " + (*keys)[0].value, "client.optimizer.kind \"sgd\"");
  EXPECT_EQ((*keys)[1].key + " " + (*keys)[1].value, "run.rounds 3");

  ASSERT_OK(history->AddTag("r1", "baseline"));
  ASSERT_OK(history->AddTag("r1", "baseline"));
  EXPECT_EQ(history->Tags("r1")->size(), 1u);
  ASSERT_OK(history->AddNote("r1", Iso8601(5), "it's good"));
  EXPECT_EQ(history->Notes("r1")->at(0).text, "it's good");
  EXPECT_THAT(history->AddNote("none", Iso8601(5), "x"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(history->AddNote("r1", "today", "x"), StatusIs(absl::StatusCode::kInvalidArgument));

  for (int64_t round = 1; round <= 2; ++round) {
    AttemptRecord record = Attempt("r1", round, 1, "committed");
    record.blobs.push_back({"machine", std::string("\0s", 2) + std::to_string(round)});
    ASSERT_OK(history->AddAttempt(record));
  }
  const auto blob = history->FindBlob("r1", "machine");
  ASSERT_OK(blob);
  EXPECT_EQ((*blob)->first, 2);
  EXPECT_EQ((*blob)->second.bytes, std::string("\0s2", 3));
  EXPECT_EQ(Ask("SELECT count(*) FROM blob"), "1;");
  EXPECT_FALSE(history->FindBlob("r1", "other")->has_value());
}

}  // namespace
}  // namespace rivulet
