#include "coordinator/history/backup.h"

#include <filesystem>
#include <functional>

#include "coordinator/history/database.h"
#include "coordinator/history/history.h"
#include "engine/base/folder_lock.h"
#include "engine/base/sha256.h"
#include "tests/testing/forwarding_file_system.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class BackupTest : public testing::FolderTest {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(history_, History::Open(from_, History::Access::kReadWrite));
    RunRow run;
    run.run_id = "r";
    run.name = "demo";
    run.status = "running";
    run.config = "[run]\n";
    run.plan_digest = Sha256Of("plan").Hex();
    run.version = "0.1.0";
    run.created_at = run.started_at = Iso8601(0);
    std::filesystem::create_directories(Path("runs.sqlite.models/r"));
    Write("runs.sqlite.models/r/plan", "plan");
    Write("runs.sqlite.models/r/lock", "");
    ASSERT_OK(history_->AddRun(run, Model(0), {}));
    const RunClient client = {"c", 1, 1};
    ASSERT_OK(history_->AddClients("r", std::span(&client, 1), Iso8601(0)));
  }
  std::string ModelPath(int64_t round) const {
    return Path(fmt::format("runs.sqlite.models/r/round-00000{}.safetensors", round));
  }
  ModelRow Model(int64_t round) {
    const std::string bytes = fmt::format("version {}", round);
    Write(fmt::format("runs.sqlite.models/r/round-00000{}.safetensors", round), bytes);
    return {"r", round, Sha256Of(bytes).Hex(), fmt::format("runs.sqlite.models/r/round-00000{}.safetensors", round),
            9,   1};
  }
  void Commit(int64_t round) {
    AttemptRecord record;
    record.round.run_id = "r";
    record.round.round = round;
    record.round.attempt = 1;
    record.round.status = "committed";
    record.round.started_at = record.round.finished_at = Iso8601(0);
    record.model = Model(round);
    ASSERT_OK(history_->AddAttempt(record));
  }

  const std::string from_ = Path("runs.sqlite"), to_ = Path("copies/monday.sqlite");
  std::unique_ptr<History> history_;
};

TEST_F(BackupTest, HistoryThatIsWritten_IsCopiedWithItsModelsAndPlan) {
  Commit(1);
  ASSERT_OK_AND_ASSIGN(const Backup backup, BackUpHistory(FileSystem::Default(), from_, to_));
  EXPECT_EQ(backup.runs, 1);
  EXPECT_EQ(backup.files, 3);
  Commit(2);  // the source is nobody's but its writer's
  ASSERT_OK_AND_ASSIGN(const auto copy, History::Open(to_, History::Access::kReadWrite));
  ASSERT_OK_AND_ASSIGN(const ResumePoint point, copy->FindResumePoint("r"));
  EXPECT_EQ(point.committed_round, 1);
  const std::string folder = JoinPath(FolderOf(to_), History::ModelsFolder(to_, "r"));
  EXPECT_EQ(FileSystem::Default().ReadAll(JoinPath(folder, "round-000001.safetensors")).value(), "version 1");
  EXPECT_EQ(FileSystem::Default().ReadAll(JoinPath(folder, "plan")).value(), "plan");
  EXPECT_FALSE(FileSystem::Default().Exists(JoinPath(folder, "lock")));
  EXPECT_THAT(FileSystem::Default().List(FolderOf(to_)).value(), Not(Contains(HasSubstr(".tmp-"))));
}

// Calls a function before the first reading of a path.
class Interfering final : public testing::ForwardingFileSystem {
 public:
  Interfering(std::string path, std::function<void()> before) : path_(std::move(path)), before_(std::move(before)) {}
  StatusOr<std::string> ReadAll(const std::string& path) override {
    if (path == path_ && before_) std::exchange(before_, nullptr)();
    return ForwardingFileSystem::ReadAll(path);
  }

 private:
  const std::string path_;
  std::function<void()> before_;
};

TEST_F(BackupTest, NewestVersionPrunedMeanwhile_IsCopiedAsOfANewerOne) {
  Commit(1);
  Interfering fs(ModelPath(1), [&] {
    Commit(2);
    std::filesystem::remove(ModelPath(1));
  });
  ASSERT_OK(BackUpHistory(fs, from_, to_).status());
  ASSERT_OK_AND_ASSIGN(const auto copy, History::Open(to_, History::Access::kReadWrite));
  ASSERT_OK_AND_ASSIGN(const ResumePoint point, copy->FindResumePoint("r"));
  EXPECT_EQ(point.committed_round, 2);
  const std::string folder = JoinPath(FolderOf(to_), History::ModelsFolder(to_, "r"));
  EXPECT_TRUE(FileSystem::Default().Exists(JoinPath(folder, "round-000002.safetensors")));
}

// However fast it commits: of a run that prunes at once whatever is asked for first, each copying of the history would
// name a version that is gone.
TEST_F(BackupTest, RunThatPrunesAtOnce_RemovesNothingWhileItsLastVersionIsCopied) {
  Commit(1);
  const std::string folder = Path("runs.sqlite.models/r");
  int64_t newest = 1;
  std::vector<int64_t> left;
  class Racing final : public testing::ForwardingFileSystem {
   public:
    explicit Racing(std::function<void()> before) : before_(std::move(before)) {}
    StatusOr<std::string> ReadAll(const std::string& path) override {
      if (path.ends_with(".safetensors")) before_();
      return ForwardingFileSystem::ReadAll(path);
    }

   private:
    const std::function<void()> before_;
  } fs([&] {
    Commit(++newest);
    const auto removal = FolderLock::ToRemove(folder);
    if (removal.ok())
      std::filesystem::remove(ModelPath(newest - 1));
    else
      left.push_back(newest - 1);
  });
  ASSERT_OK(BackUpHistory(fs, from_, to_).status());
  EXPECT_THAT(left, Not(IsEmpty()));
  ASSERT_OK_AND_ASSIGN(const auto copy, History::Open(to_, History::Access::kReadWrite));
  ASSERT_OK_AND_ASSIGN(const ResumePoint point, copy->FindResumePoint("r"));
  EXPECT_TRUE(FileSystem::Default().Exists(JoinPath(JoinPath(FolderOf(to_), History::ModelsFolder(to_, "r")),
                                                    fmt::format("round-00000{}.safetensors", point.committed_round))));
  EXPECT_OK(FolderLock::ToRemove(folder));
}

TEST_F(BackupTest, FilesOfSomebodyBesideIt_StayAndLeftoversGo) {
  const std::string name = "copies/monday.sqlite";
  std::filesystem::create_directory(Path("copies"));
  for (const char* left : {".tmp-0123456789abcdef", ".tmp-0123456789abcdef-wal"}) Write(name + left, "half");
  for (const char* mine : {".part", ".tmp-old", ".tmp-0123456789abcdef.txt"}) Write(name + mine, "somebody's");
  Write("copies/other.sqlite.tmp-0123456789abcdef", "somebody's");
  ASSERT_OK(BackUpHistory(FileSystem::Default(), from_, to_).status());
  for (const char* left : {".tmp-0123456789abcdef", ".tmp-0123456789abcdef-wal"})
    EXPECT_FALSE(FileSystem::Default().Exists(to_ + left)) << left;
  for (const char* mine : {".part", ".tmp-old", ".tmp-0123456789abcdef.txt"})
    EXPECT_EQ(testing::ContentOf(to_ + mine), "somebody's") << mine;
  EXPECT_EQ(testing::ContentOf(Path("copies/other.sqlite.tmp-0123456789abcdef")), "somebody's");
}

// Of a history that somebody else has made, nothing is brought along or written but what the program would have
// written.
TEST_F(BackupTest, HostileHistory_CopiesNothingFromElsewhereAndWritesNowhereElse) {
  Commit(1);
  ASSERT_OK(history_->Close());
  Write("secret", "somebody's");
  const auto change = [&](const std::string& sql) {
    const auto db = Database::Open(from_, Database::Access::kReadWrite);
    ASSERT_OK(db);
    ASSERT_OK((*db)->Script(sql));
  };
  for (const char* file : {"../../secret", "..", ".", "lock", "round-000009.safetensors", ""}) {
    SCOPED_TRACE(file);
    change(fmt::format("UPDATE model SET file = '{}' WHERE round = 1", file));
    ASSERT_OK(BackUpHistory(FileSystem::Default(), from_, to_).status());
    const std::string folder = JoinPath(FolderOf(to_), History::ModelsFolder(to_, "r"));
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, FileSystem::Default().List(folder));
    for (const std::string& name : names) EXPECT_NE(testing::ContentOf(JoinPath(folder, name)), "somebody's") << name;
    std::filesystem::remove_all(Path("copies"));
  }
  for (const char* id : {"", "..", "../../elsewhere", ".hidden", "a/b"}) {
    SCOPED_TRACE(id);
    change(fmt::format("UPDATE run SET run_id = '{}'", id));
    EXPECT_THAT(BackUpHistory(FileSystem::Default(), from_, to_), StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_FALSE(FileSystem::Default().Exists(to_));
    EXPECT_FALSE(FileSystem::Default().Exists(Path("elsewhere")));
    std::filesystem::remove_all(Path("copies"));
  }
  change("UPDATE run SET run_id = 'r'; CREATE TRIGGER t AFTER UPDATE ON run BEGIN DELETE FROM run; END");
  EXPECT_THAT(BackUpHistory(FileSystem::Default(), from_, to_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("has a trigger")));
}

TEST_F(BackupTest, SomethingInItsPlace_IsNotReplaced) {
  ASSERT_OK(BackUpHistory(FileSystem::Default(), from_, to_).status());
  EXPECT_THAT(BackUpHistory(FileSystem::Default(), from_, to_),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("a backup replaces nothing")));
  EXPECT_THAT(BackUpHistory(FileSystem::Default(), Path("none.sqlite"), Path("new.sqlite")),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(FileSystem::Default().Exists(Path("new.sqlite")));
}

}  // namespace
}  // namespace rivulet
