// Opening a history: checks of its kind and version, and the settings for its durability.
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "coordinator/history/check_schema.h"
#include "coordinator/history/history.h"
#include "coordinator/history/schema.h"
#include "engine/base/file_system.h"
#include "engine/base/write_target.h"

namespace rivulet {
namespace {

StatusOr<int64_t> ReadInteger(Database& db, std::string_view sql) {
  int64_t value = 0;
  RIVULET_RETURN_IF_ERROR(db.Query(sql, {}, [&](const SqlRow& row) { value = row.Int(0); }));
  return value;
}

// How long a reader waits for an empty file to become a history.
constexpr std::chrono::seconds kBeingMade{1};

// The version; 0: an empty file, which another process may be turning into a history now. The program's
// number is in the file's header, so a foreign database is recognised before any table is read, and is never
// written. All is read in one transaction, since another process may make the file a history between two
// queries.
StatusOr<int64_t> CheckOurs(Database& db) {
  const bool alone = !db.in_transaction();
  if (alone) RIVULET_RETURN_IF_ERROR(db.Run("BEGIN"));
  const auto read = [&]() -> StatusOr<std::array<int64_t, 3>> {
    RIVULET_ASSIGN_OR_RETURN(const int64_t tables, ReadInteger(db, "SELECT count(*) FROM sqlite_master"));
    RIVULET_ASSIGN_OR_RETURN(const int64_t application, ReadInteger(db, "PRAGMA application_id"));
    RIVULET_ASSIGN_OR_RETURN(const int64_t version, ReadInteger(db, "PRAGMA user_version"));
    return std::array<int64_t, 3>{tables, application, version};
  };
  auto found = read();
  if (found.ok() && (*found)[1] == kHistoryApplicationId && (*found)[2] >= kOldestHistoryVersion &&
      (*found)[2] <= kHistoryVersion) {
    if (const Status status = CheckSchema(db, "main", db.path(), (*found)[2]); !status.ok()) found = status;
  }
  if (alone) db.Run("ROLLBACK").IgnoreError();
  RIVULET_RETURN_IF_ERROR(found.status());
  const auto [tables, application, version] = *found;
  if (tables == 0 && application == 0 && version == 0) return 0;
  if (application != kHistoryApplicationId) {
    return DataLoss("'{}' is not a Rivulet history: it is an SQLite database of something else", db.path());
  }
  if (version > kHistoryVersion) {
    return FailedPrecondition("the history '{}' has version {}, and this program knows up to {}; use a newer program",
                              db.path(), version, kHistoryVersion);
  }
  if (version < 1) return DataLoss("the history '{}' is damaged: its version is {}", db.path(), version);
  if (version < kOldestHistoryVersion) {
    return FailedPrecondition(
        "the history '{}' has version {}, and this program reads versions {} to {}. The last program for it is Rivulet "
        "0.1.0: 'rivulet runs list --db FILE' of its newest build updates the file",
        db.path(), version, kOldestHistoryVersion, kHistoryVersion);
  }
  return version;
}

// All in one transaction, with the new version number: a process that dies here leaves the old version intact.
Status MakeCurrent(Database& db) {
  RIVULET_ASSIGN_OR_RETURN(int64_t version, CheckOurs(db));
  if (version == kHistoryVersion) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(db));
  RIVULET_ASSIGN_OR_RETURN(version, CheckOurs(db));  // another process may have been faster
  if (version == 0) RIVULET_RETURN_IF_ERROR(db.Script(TablesSql() + ViewsSql()));
  if (version > 0) RIVULET_RETURN_IF_ERROR(Migrate(db, version));
  RIVULET_RETURN_IF_ERROR(db.Script(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kHistoryApplicationId, kHistoryVersion)));
  return transaction->Commit();
}

std::string BusySentence(const std::string& path) {
  return fmt::format("waiting for another process that is writing to the history '{}'", path);
}

// Describes the processes that have the file open; another writer would also prevent the writer's lock.
std::string WhoIsThere(Database& db) {
  const bool no_writer = db.Run("BEGIN IMMEDIATE").ok();
  if (no_writer) db.Run("ROLLBACK").IgnoreError();
  if (!no_writer) return BusySentence(db.path());
  return fmt::format(
      "waiting for another process that reads the history '{}' in a transaction that it does not end; let it end that, "
      "or end it (docs/reference/history.md, \"Readers\")",
      db.path());
}

// A history has its log from its first opening, even when unused; one of an earlier program has none. Changing the
// journal's mode needs exclusive use of the file for a moment. Leaves the connection without a busy handler.
Status UseWriteAheadLog(Database& db, const std::function<void(const std::string&)>& on_busy) {
  auto word = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  db.SetBusyTimeout(0);  // it would wait for some of its locks, without naming the other process
  while (true) {
    std::string mode;
    const Status status = db.Query("PRAGMA journal_mode = WAL", {}, [&](const SqlRow& row) { mode = row.Text(0); });
    if (status.ok() && mode == "wal") return absl::OkStatus();
    if (status.ok()) {
      return FailedPrecondition(
          "the history '{}' is on a file system without SQLite's write-ahead log (mode '{}'); use a local disk",
          db.path(), mode);
    }
    if (status.code() != absl::StatusCode::kUnavailable) return status;
    if (std::chrono::steady_clock::now() >= word) {
      word += std::chrono::minutes(1);
      on_busy(WhoIsThere(db));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

History::History(std::string path, std::string real_path, Access access, std::unique_ptr<Database> db)
    : path_(std::move(path)), real_path_(std::move(real_path)), access_(access), db_(std::move(db)) {}

std::string History::ModelsFolder(const std::string& real_path, const std::string& run_id) {
  return fmt::format("{}.models/{}", std::string_view(real_path).substr(real_path.rfind('/') + 1), run_id);
}

void History::SetOnBusy(std::function<void(const std::string&)> on_busy) {
  MutexLock lock(mutex_);
  if (db_ == nullptr || access_ != Access::kReadWrite) return;
  db_->WaitWithoutEnd([on_busy = std::move(on_busy), sentence = BusySentence(path_)] { on_busy(sentence); });
}

StatusOr<std::unique_ptr<History>> History::Open(const std::string& path, Access access) {
  const bool writes = access == Access::kReadWrite;
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<Database> db,
                           Database::Open(path, writes ? Database::Access::kReadWrite : Database::Access::kReadOnly));
  // SQLite keeps the log beside the file behind a link, and the other files are there too: two names of one history are
  // one history.
  RIVULET_ASSIGN_OR_RETURN(const WriteTarget real, WriteTargetOf(path));
  const auto say = [](const std::string& sentence) { fmt::print(stderr, "{}\n", sentence); };
  const auto wait = [&] { db->WaitWithoutEnd([say, sentence = BusySentence(path)] { say(sentence); }); };
  if (writes) wait();
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(real.path, unknown);
  db->LimitSteps(unknown ? 0 : static_cast<int64_t>(bytes));
  // Before anything is written: a foreign file stays unchanged.
  RIVULET_ASSIGN_OR_RETURN(int64_t version, CheckOurs(*db));
  if (writes) {
    RIVULET_RETURN_IF_ERROR(UseWriteAheadLog(*db, say));
    wait();
    // Only BringOver decides the content of a file without its log, so there are no automatic checkpoints. Sixty rounds
    // of a thousand tasks are one transaction of some megabytes; a smaller cache would write its pages to the log
    // several times.
    RIVULET_RETURN_IF_ERROR(
        db->Script("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -8192"));
    RIVULET_RETURN_IF_ERROR(MakeCurrent(*db));
    RIVULET_RETURN_IF_ERROR(
        db->Script("PRAGMA foreign_keys = ON"));  // afterwards, because a migration drops tables that others refer to
    RIVULET_RETURN_IF_ERROR(UseOwnViews(*db));
    db->LimitSteps(std::nullopt);
    return std::unique_ptr<History>(new History(path, real.path, access, std::move(db)));
  }
  // A file has its name before it has its tables: a reader in between must not refuse it as foreign.
  for (const auto until = std::chrono::steady_clock::now() + kBeingMade; version == 0;) {
    if (std::chrono::steady_clock::now() > until) {
      return NotFound(
          "'{}' holds no history yet: the file is empty, because its first run has not begun or could not be written; "
          "the next run with this --db uses the file",
          path);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    RIVULET_ASSIGN_OR_RETURN(version, CheckOurs(*db));
  }
  if (version < kHistoryVersion) {
    // A reader migrates an older history too: otherwise a run would have to be started to view earlier ones.
    db.reset();
    if (const Status status = Open(path, Access::kReadWrite).status(); !status.ok()) {
      return Annotate(status, fmt::format("the history '{}' has the older version {} and cannot be migrated to {}",
                                          path, version, kHistoryVersion));
    }
    return Open(path, access);
  }
  RIVULET_RETURN_IF_ERROR(db->Script("PRAGMA query_only = OFF"));
  RIVULET_RETURN_IF_ERROR(UseOwnViews(*db));
  RIVULET_RETURN_IF_ERROR(db->Script("PRAGMA query_only = ON"));
  db->LimitSteps(std::nullopt);
  return std::unique_ptr<History>(new History(path, real.path, access, std::move(db)));
}

// The log's mode stays: to leave and enter it again needs exclusive use of the file, which any reader in a transaction
// prevents. The last process to close the file removes the log.
Status History::Close() {
  MutexLock lock(mutex_);
  if (db_ == nullptr) return absl::OkStatus();
  Status status;
  if (access_ == Access::kReadWrite) {
    // Another process may be reading or writing: then it handles the log, and this call does not wait.
    db_->SetBusyTimeout(0);
    status = db_->Query("PRAGMA wal_checkpoint(TRUNCATE)", {}, nullptr);
    if (status.code() == absl::StatusCode::kUnavailable) status = absl::OkStatus();
  }
  db_.reset();
  return status;
}

History::~History() { Close().IgnoreError(); }

}  // namespace rivulet
