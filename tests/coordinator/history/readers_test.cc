// Other readers of the file while runs begin and write, and a full disk.
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "coordinator/history/history.h"
#include "engine/base/sha256.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class ReadersTest : public testing::FolderTest {
 protected:
  Status AddRun(const std::string& id) {
    RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(path_, History::Access::kReadWrite));
    RunRow run;
    run.run_id = id;
    run.name = "demo";
    run.status = "running";
    run.config = "[run]\n" + std::string(5000, '#');
    run.plan_digest = Sha256Of("plan").Hex();
    run.version = "0.1.0";
    run.created_at = run.started_at = Iso8601(0);
    RIVULET_RETURN_IF_ERROR(history->AddRun(run, {id, 0, Sha256Of("0").Hex(), "", 100, 10}, {}));
    return history->Close();
  }
  size_t Runs() {
    const auto history = History::Open(path_, History::Access::kReadOnly);
    EXPECT_OK(history);
    return history.ok() ? (*history)->Runs()->size() : 0;
  }
  sqlite3* Other(const char* sql) {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    return db;
  }
  // In a process of its own; its exit status.
  int InAChild(const std::function<int()>& call) {
    const pid_t pid = fork();
    if (pid == 0) _exit(call());
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  const std::string path_ = Path("runs.sqlite");
};

TEST_F(ReadersTest, ReaderInATransaction_HoldsNoNewRunUp) {
  ASSERT_OK(AddRun("r1"));
  sqlite3* const reader = Other("BEGIN; SELECT count(*) FROM runs");
  EXPECT_OK(AddRun("r2"));
  EXPECT_OK(AddRun("r3"));
  EXPECT_EQ(sqlite3_exec(reader, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(reader);
  EXPECT_EQ(Runs(), 3u);
}

// Of a program that left the log's mode at a clean end; a reader of such a file is in the way, and is named as one.
TEST_F(ReadersTest, ReaderOfAFileWithoutALog_IsWaitedForAndNamed) {
  ASSERT_OK(AddRun("r1"));
  sqlite3_close(Other("PRAGMA journal_mode = DELETE"));
  sqlite3* const reader = Other("BEGIN; SELECT count(*) FROM runs");
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    sqlite3_exec(reader, "COMMIT", nullptr, nullptr, nullptr);
  });
  ::testing::internal::CaptureStderr();
  const Status status = AddRun("r2");
  const std::string said = ::testing::internal::GetCapturedStderr();
  ends.join();
  sqlite3_close(reader);
  EXPECT_OK(status);
  EXPECT_THAT(said, HasSubstr("waiting for another process that reads the history"));
  EXPECT_THAT(said, ::testing::Not(HasSubstr("is writing")));
}

TEST_F(ReadersTest, WriterOfAFileWithoutALog_IsNamedAsOne) {
  ASSERT_OK(AddRun("r1"));
  sqlite3_close(Other("PRAGMA journal_mode = DELETE"));
  sqlite3* const writer = Other("BEGIN IMMEDIATE");
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    sqlite3_exec(writer, "COMMIT", nullptr, nullptr, nullptr);
  });
  ::testing::internal::CaptureStderr();
  EXPECT_OK(AddRun("r2"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("that is writing to the history"));
  ends.join();
  sqlite3_close(writer);
}

// SQLite needs a file of its own beside a log, and there is no room for one where nothing may be made.
TEST_F(ReadersTest, FolderThatIsReadOnly_IsReadFrom) {
  ASSERT_OK(AddRun("r1"));
  for (const char* mode : {"WAL", "DELETE"}) {
    SCOPED_TRACE(mode);
    sqlite3_close(Other(fmt::format("PRAGMA journal_mode = {}", mode).c_str()));
    ASSERT_EQ(chmod(path_.c_str(), 0444), 0);
    ASSERT_EQ(chmod(folder_.path().c_str(), 0555), 0);
    EXPECT_EQ(InAChild([&] {
                // Modes keep root from nothing.
                if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 3;
                if (access(folder_.path().c_str(), W_OK) == 0) return 4;
                return Runs() == 1 ? 0 : 1;
              }),
              0);
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  }
}

TEST_F(ReadersTest, DiskThatIsFullAtAnyByte_IsCalledFullAndTheFileIsTakenOver) {
  int refused = 0;
  for (const rlim_t limit : {0, 1, 100, 512, 4096, 4097, 8192, 32768, 40000, 65536, 100000, 200000}) {
    SCOPED_TRACE(limit);
    const int code = InAChild([&] {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit most{limit, limit};
      setrlimit(RLIMIT_FSIZE, &most);
      const Status status = AddRun("r1");
      if (status.ok()) return 0;
      const bool told =
          absl::IsResourceExhausted(status) && Message(status).find("the disk is full") != std::string::npos;
      if (!told) fmt::print(stderr, "limit {}: {}\n", limit, Message(status));
      return told ? 1 : 2;
    });
    EXPECT_LT(code, 2);
    refused += code == 1;
    if (code == 1 && std::filesystem::exists(path_) && std::filesystem::file_size(path_) == 0) {
      EXPECT_THAT(
          History::Open(path_, History::Access::kReadOnly).status(),
          StatusIs(absl::StatusCode::kNotFound, HasSubstr("the file is empty, because its first run has not begun")));
    }
    EXPECT_OK(AddRun(fmt::format("after-{}", limit)));
    EXPECT_EQ(Runs(), code == 0 ? 2u : 1u);
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) std::filesystem::remove(file);
  }
  EXPECT_GT(refused, 5);
}

}  // namespace
}  // namespace rivulet
