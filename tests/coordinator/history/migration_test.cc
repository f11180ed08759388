// Histories as program 0.1.0 (version-1.sql), one before operators (version-2.sql) and one that kept tasks by client
// (version-3.sql) wrote them, brought to this version.
#include <sqlite3.h>
#include <unistd.h>

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

class MigrationTest : public ::testing::Test {
 protected:
  explicit MigrationTest(const char* sample_name = "version-1.sql") {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = ::testing::TempDir() + fmt::format("migration-{}-{}", getpid(), info->name());
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/runs.sqlite";
    std::ifstream file(fmt::format("{}/tests/coordinator/history/{}", RIVULET_SOURCE_DIR, sample_name));
    const std::string sample((std::istreambuf_iterator<char>(file)), {});
    EXPECT_FALSE(sample.empty());
    EXPECT_EQ(Ask(sample), "");
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
  // All rows of what version 1 told, table by table, view by view.
  std::vector<std::string> Pages() {
    std::vector<std::string> pages;
    for (
        const char* query :
        {"SELECT run_id, name, status, reason, config, plan_digest, seed, version, created_at, started_at, finished_at "
         "FROM runs ORDER BY rowid",
         "SELECT run_id, round, attempt, status, reason, started_at, finished_at, selected, reported, folded, refused, "
         "dropped, failed, examples, train_loss, bytes_down, bytes_up, train_seconds, aggregate_seconds, "
         "evaluate_seconds, model_digest FROM rounds ORDER BY run_id, round, attempt",
         "SELECT client_id, fingerprint, status, first_seen_at, last_seen_at FROM clients ORDER BY client_id",
         "SELECT run_id, client_id, from_round, from_attempt FROM run_clients ORDER BY run_id, client_id",
         "SELECT task_id, run_id, round, attempt, client_id, kind, status, base_round, committed_round, staleness, "
         "parent_id, examples, steps, train_loss, update_norm, update_digest, weight, bytes_down, bytes_up, "
         "wait_seconds, train_seconds, upload_seconds, error FROM client_rounds ORDER BY rowid",
         "SELECT run_id, round, scope, client_id, name, value FROM metrics ORDER BY 1, 2, 3, 5, 4",
         "SELECT run_id, round, digest, path, bytes, parameters FROM models ORDER BY run_id, round",
         "SELECT run_id, round, at, level, source, message FROM events ORDER BY rowid",
         "SELECT run_id, name, round, attempts, selected, folded, refused, dropped, failed, examples, train_loss, "
         "test_accuracy, test_loss, bytes_down, bytes_up, train_seconds, aggregate_seconds, evaluate_seconds, "
         "model_digest FROM round_summary",
         "SELECT run_id, client_id, tasks, folded, refused, dropped, failed, reliability, examples, "
         "mean_train_seconds, last_seen_at FROM client_reliability",
         "SELECT run_id, name, status, seed, rounds, best_accuracy, best_round, last_accuracy, last_round, seconds, "
         "created_at FROM run_leaderboard ORDER BY run_id"}) {
      pages.push_back(Ask(query));
      EXPECT_GT(std::count(pages.back().begin(), pages.back().end(), '\n'), 1) << query << "\n" << pages.back();
    }
    return pages;
  }

  std::string folder_, path_;
};

// From the versions whose views are those of today, by what wrote them.
class LaterMigrationTest : public MigrationTest, public ::testing::WithParamInterface<int> {
 protected:
  LaterMigrationTest() : MigrationTest(fmt::format("version-{}.sql", GetParam()).c_str()) {}
  std::string AllViews() {
    std::string said;
    for (const char* view : {"runs", "run_keys", "notes", "clients", "run_clients", "rounds", "client_rounds",
                             "metrics", "models", "events", "round_summary", "client_reliability", "run_leaderboard"}) {
      const std::string rows = Ask(fmt::format("SELECT * FROM {}", view));
      EXPECT_NE(rows, "") << view;
      said += rows;
    }
    return said;
  }
};

INSTANTIATE_TEST_SUITE_P(Versions, LaterMigrationTest, ::testing::Values(2, 3));

TEST_P(LaterMigrationTest, EveryView_SaysWhatItsVersionSaid) {
  ASSERT_EQ(Ask("PRAGMA user_version"), fmt::format("{}|\n", GetParam()));
  const std::string before = AllViews();
  ASSERT_OK(History::Open(path_, History::Access::kReadWrite));
  EXPECT_EQ(AllViews(), before);
  EXPECT_EQ(Ask("PRAGMA user_version; PRAGMA foreign_key_check; PRAGMA integrity_check"), "4|\nok|\n");
  EXPECT_EQ(Ask("SELECT action, detail FROM audit"), GetParam() == 2 ? "" : "pause|a short break|\n");
}

TEST_P(LaterMigrationTest, Schema_IsThatOfANewHistory) {
  ASSERT_OK(History::Open(path_, History::Access::kReadOnly));
  const std::string fresh = folder_ + "/fresh.sqlite";
  ASSERT_OK(History::Open(fresh, History::Access::kReadWrite));
  const char* all = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name";
  EXPECT_EQ(Ask(all), Ask(fresh, all));
}

TEST_F(MigrationTest, EveryView_SaysWhatVersion1Said) {
  ASSERT_EQ(Ask("PRAGMA user_version"), "1|\n");
  const std::vector<std::string> before = Pages();
  ASSERT_OK(History::Open(path_, History::Access::kReadWrite));
  EXPECT_EQ(Ask("PRAGMA user_version"), "4|\n");
  const std::vector<std::string> after = Pages();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i], before[i]);
  EXPECT_EQ(Ask("PRAGMA foreign_key_check"), "");
  EXPECT_EQ(Ask("PRAGMA integrity_check"), "ok|\n");
  EXPECT_EQ(Ask("SELECT count(*) FROM metric WHERE name = 'train/loss'"), "0|\n") << "rounds and tasks say it";
  EXPECT_EQ(Ask("SELECT count(*) FROM task WHERE task_id IS NOT NULL"), "0|\n") << "ids follow from the rows";
  EXPECT_EQ(Ask("SELECT value FROM run_keys WHERE key = 'client.optimizer.kind' GROUP BY value"), "\"sgd\"|\n");
}

TEST_F(MigrationTest, Schema_IsThatOfANewHistory) {
  ASSERT_OK(History::Open(path_, History::Access::kReadWrite));
  const std::string fresh = folder_ + "/fresh.sqlite";
  ASSERT_OK(History::Open(fresh, History::Access::kReadWrite));
  const char* all = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name";
  EXPECT_EQ(Ask(all), Ask(fresh, all));
}

TEST_F(MigrationTest, AReader_BringsItUpToDateToo) {
  const auto history = History::Open(path_, History::Access::kReadOnly);
  ASSERT_OK(history);
  EXPECT_EQ((*history)->Runs()->size(), 4u);
  EXPECT_EQ(Ask("PRAGMA user_version"), "4|\n");
}

// One of them brings it up to date, and the others find it so, whenever they came.
TEST_F(MigrationTest, ManyAtOnce_NobodyIsToldAnything) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto history = History::Open(path_, i % 2 == 0 ? History::Access::kReadWrite : History::Access::kReadOnly);
      ASSERT_OK(history);
      EXPECT_EQ((*history)->Runs()->size(), 4u);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Ask("PRAGMA user_version; PRAGMA integrity_check"), "4|\nok|\n");
}

TEST_F(MigrationTest, ARunGoesOn_WhereItStood) {
  std::string run = Ask("SELECT run_id FROM runs WHERE status = 'interrupted'");
  run.resize(run.find('|'));
  const auto history = History::Open(path_, History::Access::kReadWrite);
  ASSERT_OK(history);
  const auto point = (*history)->FindResumePoint(run);
  ASSERT_OK(point);
  EXPECT_EQ(point->committed_round, 3);
  EXPECT_EQ(point->next_attempt, 1);
  EXPECT_EQ(point->clients.size(), 20u);
  EXPECT_EQ((*history)->ResolveRun("latest")->run_id, run);
  const auto tasks = (*history)->ClientRounds(run, 3);
  ASSERT_OK(tasks);
  for (const ClientRoundRow& task : *tasks) {
    const auto found = (*history)->FindTask(task.task_id);
    ASSERT_OK(found);
    ASSERT_TRUE(found->has_value()) << task.task_id;
    EXPECT_EQ((*found)->update_digest, task.update_digest);
  }
  AttemptRecord next;
  next.round = (*history)->Rounds(run)->back();
  next.round.round = 4;
  next.tasks = *tasks;
  for (ClientRoundRow& task : next.tasks) {
    task.round = task.base_round = 4;
    task.committed_round.reset();
    task.task_id = fmt::format("{}-r4-a1-{}-0", run, task.client_id);
  }
  ModelRow model = (*history)->Models(run)->back();
  model.round = 4;
  next.model = model;
  next.forget_models = {0, 1, 2};
  EXPECT_OK((*history)->AddAttempt(next));
  EXPECT_EQ(Ask(fmt::format("SELECT round FROM models WHERE run_id = '{}' AND path IS NOT NULL", run)), "3|\n4|\n");
}

TEST_F(MigrationTest, WhatCannotBeRead_LeavesVersion1Whole) {
  Ask("UPDATE models SET digest = 'no digest' WHERE round = 0");
  const std::vector<std::string> before = Pages();
  EXPECT_THAT(History::Open(path_, History::Access::kReadWrite),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("not 64 hexadecimal digits")));
  EXPECT_EQ(Ask("PRAGMA user_version"), "1|\n");
  EXPECT_EQ(Pages(), before);
}

}  // namespace
}  // namespace rivulet
