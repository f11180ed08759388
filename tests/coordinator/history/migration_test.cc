// Frozen histories of earlier programs: version-3.sql, which kept tasks by client, and those after it. Each is opened
// as any history, which brings an older one to this version.
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "coordinator/history/history.h"
#include "coordinator/history/schema.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

const std::string kNow = fmt::format("{}|\n", kHistoryVersion);

// What a program of a later version may have: another column of a task.
struct LaterTask : StoredTask {
  std::optional<double> idle_seconds;
};

}  // namespace

template <>
struct SqlTable<LaterTask> {
  static constexpr char kName[] = "task";
  static constexpr auto kColumns =
      std::tuple_cat(SqlTable<StoredTask>::kColumns,
                     std::tuple(SqlColumn{"idle_seconds", &LaterTask::idle_seconds, "REAL", kHistoryVersion + 1}));
  static constexpr auto& kRest = SqlTable<StoredTask>::kRest;
  static constexpr bool kWithoutRowid = false;
};

namespace {

class MigrationTest : public ::testing::TestWithParam<int> {
 protected:
  MigrationTest() {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '-');
    folder_ = ::testing::TempDir() + fmt::format("migration-{}-{}", getpid(), name);
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/runs.sqlite";
    std::ifstream file(fmt::format("{}/tests/coordinator/history/version-{}.sql", RIVULET_SOURCE_DIR, GetParam()));
    const std::string sample((std::istreambuf_iterator<char>(file)), {});
    EXPECT_FALSE(sample.empty());
    EXPECT_EQ(Ask(sample), "");
    EXPECT_EQ(Ask("PRAGMA user_version"), fmt::format("{}|\n", GetParam()));
  }
  ~MigrationTest() override { std::filesystem::remove_all(folder_); }

  // Values with their types: reals by all their digits.
  std::string Ask(const std::string& sql) { return Ask(path_, sql); }
  static std::string Ask(const std::string& path, const std::string& sql) {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    std::string answer;
    const char* rest = sql.c_str();
    while (*rest != '\0') {
      sqlite3_stmt* statement = nullptr;
      if (sqlite3_prepare_v2(db, rest, -1, &statement, &rest) != SQLITE_OK) {
        answer = sqlite3_errmsg(db);
        break;
      }
      while (statement != nullptr && sqlite3_step(statement) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(statement); ++i) {
          const bool real = sqlite3_column_type(statement, i) == SQLITE_FLOAT;
          const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
          answer += real ? fmt::format("{}", sqlite3_column_double(statement, i)) : text == nullptr ? "NULL" : text;
          answer += '|';
        }
        answer += '\n';
      }
      sqlite3_finalize(statement);
    }
    sqlite3_close(db);
    return answer;
  }
  // The views that the file itself holds, as any other program reads them: by the columns that they have now.
  std::vector<std::string> Views() {
    std::vector<std::string> queries;
    for (const char* view :
         {"runs", "run_keys", "notes", "clients", "run_clients", "rounds", "client_rounds", "metrics", "models",
          "events", "round_summary", "client_reliability", "run_leaderboard", "audit"}) {
      std::string columns =
          Ask(fmt::format("SELECT group_concat('\"' || name || '\"') FROM pragma_table_info('{}')", view));
      columns.resize(columns.rfind('|'));
      queries.push_back(fmt::format("SELECT {} FROM {}", columns, view));
    }
    return queries;
  }
  std::string AskAll(const std::vector<std::string>& queries) {
    std::string said;
    for (const std::string& query : queries) {
      const std::string rows = Ask(query);
      EXPECT_NE(rows, "") << query;
      said += rows;
    }
    return said;
  }

  std::string folder_, path_;
};

INSTANTIATE_TEST_SUITE_P(Versions, MigrationTest, ::testing::Values(3, 4, 5, 6));

TEST_P(MigrationTest, EveryView_SaysWhatItsVersionSaid) {
  const std::vector<std::string> views = Views();
  const std::string before = AskAll(views);
  ASSERT_OK(History::Open(path_, History::Access::kReadWrite));
  EXPECT_EQ(AskAll(views), before);
  EXPECT_EQ(Ask("PRAGMA user_version; PRAGMA foreign_key_check; PRAGMA integrity_check"), kNow + "ok|\n");
  EXPECT_EQ(Ask("SELECT action, detail FROM audit"), "pause|a short break|\n");
}

TEST_P(MigrationTest, Schema_IsThatOfANewHistory) {
  ASSERT_OK(History::Open(path_, History::Access::kReadOnly));
  const std::string fresh = folder_ + "/fresh.sqlite";
  ASSERT_OK(History::Open(fresh, History::Access::kReadWrite));
  // How a statement is broken into lines may differ.
  const char* all =
      "SELECT type, name, tbl_name, replace(replace(sql, char(10), ''), ' ', '') FROM sqlite_master ORDER BY type, "
      "name";
  EXPECT_EQ(Ask(all), Ask(fresh, all));
}

TEST_P(MigrationTest, AReader_BringsItUpToDateToo) {
  const auto history = History::Open(path_, History::Access::kReadOnly);
  ASSERT_OK(history);
  EXPECT_EQ((*history)->Runs()->size(), 1u);
  EXPECT_EQ(Ask("PRAGMA user_version"), kNow);
}

// One of them brings it up to date, and the others find it so, whenever they came.
TEST_P(MigrationTest, ManyAtOnce_NobodyIsToldAnything) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto history = History::Open(path_, i % 2 == 0 ? History::Access::kReadWrite : History::Access::kReadOnly);
      ASSERT_OK(history);
      EXPECT_EQ((*history)->Runs()->size(), 1u);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Ask("PRAGMA user_version; PRAGMA integrity_check"), kNow + "ok|\n");
}

TEST_P(MigrationTest, ARun_TakesFurtherRounds) {
  const auto history = History::Open(path_, History::Access::kReadWrite);
  ASSERT_OK(history);
  const std::string run = (*history)->ResolveRun("digits")->run_id;
  const auto point = (*history)->FindResumePoint(run);
  ASSERT_OK(point);
  EXPECT_EQ(point->committed_round, 2);
  EXPECT_EQ(point->next_attempt, 1);
  EXPECT_EQ(point->clients.size(), 4u);
  const auto tasks = (*history)->ClientRounds(run, 2);
  ASSERT_OK(tasks);
  ASSERT_EQ(tasks->size(), 3u);
  for (const ClientRoundRow& task : *tasks) {
    const auto found = (*history)->FindTask(task.task_id);
    ASSERT_OK(found);
    ASSERT_TRUE(found->has_value()) << task.task_id;
    EXPECT_EQ((*found)->examples, 6);
    EXPECT_EQ((*found)->update_norm, task.update_norm);
  }
  AttemptRecord next;
  next.round = (*history)->Rounds(run)->back();
  next.round.round = 3;
  next.tasks = *tasks;
  for (ClientRoundRow& task : next.tasks) {
    task.round = task.base_round = 3;
    task.committed_round.reset();
    task.task_id = fmt::format("{}-r3-a1-{}-0", run, task.client_id);
  }
  ModelRow model = (*history)->Models(run)->back();
  model.round = 3;
  next.model = model;
  next.forget_models = {0, 1};
  EXPECT_OK((*history)->AddAttempt(next));
  EXPECT_EQ(Ask("SELECT round FROM models WHERE path IS NOT NULL"), "2|\n3|\n");
  EXPECT_EQ(Ask("SELECT sum(tasks) FROM client_reliability"), "9|\n");
}

// The columns that it adds stand where it has them in a new file.
TEST_P(MigrationTest, AProgramOfALaterVersion_AddsItsColumns) {
  ASSERT_OK(History::Open(path_, History::Access::kReadWrite));
  ASSERT_EQ(Ask(AddColumnsSql<LaterTask>(kHistoryVersion)), "");
  EXPECT_EQ(AddColumnsSql<LaterTask>(kHistoryVersion + 1), "");
  const std::string fresh = folder_ + "/fresh.sqlite";
  ASSERT_EQ(Ask(fresh, CreateTableSql<LaterTask>()), "");
  const char* text = "SELECT replace(replace(sql, char(10), ''), ' ', '') FROM sqlite_master WHERE name = 'task'";
  EXPECT_EQ(Ask(text), Ask(fresh, text));

  ASSERT_OK_AND_ASSIGN(const auto db, Database::Open(path_, Database::Access::kReadWrite));
  ASSERT_OK_AND_ASSIGN(std::vector<LaterTask> tasks, Select<LaterTask>(*db, "ORDER BY task", {}));
  ASSERT_EQ(tasks.size(), 6u);
  EXPECT_EQ(tasks[0].examples, 6);
  EXPECT_EQ(tasks[0].idle_seconds, std::nullopt);
  LaterTask next = tasks[0];
  next.task.reset();
  next.ordinal = 7;
  next.idle_seconds = 0.5;
  ASSERT_OK(Insert(*db, next));
  ASSERT_OK_AND_ASSIGN(tasks, Select<LaterTask>(*db, "WHERE ordinal = 7", {}));
  EXPECT_EQ(tasks.at(0).idle_seconds, 0.5);
  EXPECT_EQ(tasks.at(0).result(), next.result());
}

class OldestVersionTest : public MigrationTest {};
INSTANTIATE_TEST_SUITE_P(Versions, OldestVersionTest, ::testing::Values(3));

TEST_P(OldestVersionTest, WhatCannotBeMigrated_IsLeftWhole) {
  Ask("DROP INDEX task_by_client");
  const std::string before = AskAll(Views());
  EXPECT_THAT(History::Open(path_, History::Access::kReadWrite),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no such index: task_by_client")));
  EXPECT_EQ(Ask("PRAGMA user_version"), "3|\n");
  EXPECT_EQ(AskAll(Views()), before);
}

TEST_P(OldestVersionTest, VersionsBeforeIt_AreRefusedByName) {
  for (const int version : {1, 2}) {
    Ask(fmt::format("PRAGMA user_version = {}", version));
    for (const auto access : {History::Access::kReadOnly, History::Access::kReadWrite}) {
      EXPECT_THAT(History::Open(path_, access),
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           HasSubstr(fmt::format("has version {}, and this program reads versions 3 to {}. The last "
                                                 "program for it is Rivulet 0.1.0",
                                                 version, kHistoryVersion))));
    }
    EXPECT_EQ(Ask("PRAGMA user_version"), fmt::format("{}|\n", version));
  }
}

}  // namespace
}  // namespace rivulet
