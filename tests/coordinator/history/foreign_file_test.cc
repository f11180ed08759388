// A history from an untrusted source: its tables are read, and nothing that it defines is executed.
#include <sqlite3.h>

#include <filesystem>
#include <fstream>

#include "coordinator/history/database.h"
#include "coordinator/history/history.h"
#include "engine/base/sha256.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

constexpr char kEndless[] = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";

class ForeignFileTest : public testing::FolderTest {
 protected:
  void SetUp() override { Make(path_, "r1"); }
  static void Make(const std::string& path, const std::string& run_id) {
    ASSERT_OK_AND_ASSIGN(const auto history, History::Open(path, History::Access::kReadWrite));
    RunRow run;
    run.run_id = run_id;
    run.name = "demo";
    run.status = "finished";
    run.config = "[run]\n";
    run.plan_digest = Sha256Of("plan").Hex();
    run.version = "0.1.0";
    run.created_at = run.started_at = Iso8601(0);
    ASSERT_OK(history->AddRun(run, {run_id, 0, Sha256Of("0").Hex(), "", 100, 10}, {}));
  }
  // As whoever made the file would.
  void Change(const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    char* error = nullptr;
    ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
    sqlite3_close(db);
  }
  Status ImportIt() {
    RIVULET_ASSIGN_OR_RETURN(const auto ours, History::Open(Path("ours.sqlite"), History::Access::kReadWrite));
    const std::string run_id = "r1";
    return ours->Import(path_, std::span(&run_id, 1));
  }

  const std::string path_ = Path("theirs.sqlite");
};

TEST_F(ForeignFileTest, ViewsOfTheFile_AreNeverRun) {
  Change(
      fmt::format("DROP VIEW runs; CREATE VIEW runs AS {}; DROP VIEW run_leaderboard; "
                  "CREATE VIEW run_leaderboard AS {}",
                  kEndless, kEndless));
  for (const auto access : {History::Access::kReadOnly, History::Access::kReadWrite}) {
    ASSERT_OK_AND_ASSIGN(const auto history, History::Open(path_, access));
    ASSERT_OK_AND_ASSIGN(const auto runs, history->Runs());
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].run_id, "r1");
    EXPECT_EQ(history->RunSummaries()->size(), 1u);
  }
  EXPECT_OK(ImportIt());
}

TEST_F(ForeignFileTest, ViewOfAnotherName_IsAnErrorAndNoWork) {
  Change(fmt::format("CREATE VIEW mine AS {}", kEndless));
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(path_, History::Access::kReadOnly));
  EXPECT_THAT(history->Ask("SELECT * FROM mine").status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ForeignFileTest, WhatSqliteWouldRun_IsRefused) {
  const std::string whole = testing::ContentOf(path_);
  const std::pair<std::string, const char*> hostile[] = {
      {"CREATE TRIGGER gone AFTER INSERT ON event BEGIN DELETE FROM run; END", "has a trigger, 'gone'"},
      {fmt::format("PRAGMA legacy_alter_table = ON; ALTER TABLE tag RENAME TO was; CREATE VIEW tag AS {}", kEndless),
       "its table 'tag' is not that of one"},
      {"DROP TABLE note; CREATE VIRTUAL TABLE note USING fts5(run, at, text)", "its table 'note' is not that of one"},
      {"ALTER TABLE tag ADD COLUMN more INTEGER AS (length(zeroblob(1000000000)))",
       "its table 'tag' is not that of one"},
      {"CREATE INDEX slow ON event (abs(at))", "has an index of an expression, 'slow'"},
      {"CREATE INDEX part ON event (at) WHERE at > 5", "has an index of an expression, 'part'"},
      {"DROP INDEX metric_key", "its index 'metric_key' is not that of one"},
      {"DROP TABLE audit_entry", "its table 'audit_entry' is not that of one"}};
  for (const auto& [sql, fragment] : hostile) {
    SCOPED_TRACE(sql);
    Write("theirs.sqlite", whole);
    Change(sql);
    for (const auto access : {History::Access::kReadOnly, History::Access::kReadWrite}) {
      EXPECT_THAT(History::Open(path_, access).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(fragment)));
    }
    EXPECT_THAT(ImportIt(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(fragment)));
  }
}

TEST_F(ForeignFileTest, WhatAUserHasAdded_Stays) {
  Change("CREATE TABLE mine (a); CREATE INDEX by_source ON event (source); CREATE VIEW my_view AS SELECT 1");
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(path_, History::Access::kReadWrite));
  EXPECT_EQ(history->Runs()->size(), 1u);
  EXPECT_EQ(history->Ask("SELECT count(*) FROM mine")->rows.size(), 1u);
}

// Names of a file become text of a statement where an older one is brought up to date.
TEST_F(ForeignFileTest, NameOfAView_IsNoStatement) {
  std::filesystem::remove(path_);
  std::ifstream sample(RIVULET_SOURCE_DIR "/tests/coordinator/history/version-3.sql");
  Change(std::string((std::istreambuf_iterator<char>(sample)), {}));
  Change(fmt::format("CREATE VIEW \"a\"\"; ATTACH '{}' AS evil; CREATE TABLE evil.t (a); --\" AS SELECT 1",
                     Path("evil.sqlite")));
  EXPECT_OK(History::Open(path_, History::Access::kReadOnly));
  EXPECT_FALSE(std::filesystem::exists(Path("evil.sqlite")));
}

TEST_F(ForeignFileTest, WorkBeyondAnyFilesSize_IsStopped) {
  ASSERT_OK_AND_ASSIGN(const auto db, Database::Open(path_, Database::Access::kReadOnly));
  db->LimitSteps(0);
  EXPECT_THAT(db->Run(kEndless),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("takes more work than its size explains")));
  db->LimitSteps(std::nullopt);
  EXPECT_OK(db->Run("SELECT count(*) FROM run"));
}

// A state of a number that no program writes has no name, and is no reason to end.
TEST_F(ForeignFileTest, NumbersOutOfRange_ReadAsNothing) {
  Change("UPDATE run SET status = 77");
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(path_, History::Access::kReadOnly));
  EXPECT_EQ((*history->Runs())[0].status, "");
}

}  // namespace
}  // namespace rivulet
