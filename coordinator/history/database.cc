#include "coordinator/history/database.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "coordinator/history/full_disk.h"
#include "coordinator/history/immutable_file.h"
#include "engine/base/check.h"
#include "engine/base/display_name.h"
#include "engine/base/file_system.h"

namespace rivulet {
namespace {

std::string HexOf(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

// Resets a bound and stepped statement in any case, so that it is ready for its next use. Bindings are cleared too,
// because they point to the caller's texts.
class ResetAtEnd {
 public:
  explicit ResetAtEnd(sqlite3_stmt* statement) : statement_(statement) {}
  ~ResetAtEnd() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }

 private:
  sqlite3_stmt* statement_;
};

int Bind(sqlite3_stmt* statement, int index, const SqlValue& value) {
  struct Binder {
    sqlite3_stmt* statement;
    int index;
    int operator()(std::monostate) const { return sqlite3_bind_null(statement, index); }
    int operator()(int64_t v) const { return sqlite3_bind_int64(statement, index, v); }
    int operator()(double v) const { return sqlite3_bind_double(statement, index, v); }
    int operator()(std::string_view v) const {
      return sqlite3_bind_text64(statement, index, v.data() == nullptr ? "" : v.data(), v.size(), SQLITE_STATIC,
                                 SQLITE_UTF8);
    }
    int operator()(SqlBlob v) const {
      return sqlite3_bind_blob64(statement, index, v.bytes.data() == nullptr ? "" : v.bytes.data(), v.bytes.size(),
                                 SQLITE_STATIC);
    }
  };
  return std::visit(Binder{statement, index}, value);
}

// Finds the actual reason, since SQLite reports "unable to open database file" for all of these.
Status CheckPath(const std::string& path, Database::Access access) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return InvalidArgument("history '{}' is a folder; name a file in it", path);
    if (!S_ISREG(info.st_mode)) return InvalidArgument("history '{}' is not a plain file", path);
    return absl::OkStatus();
  }
  if (errno == EACCES) return PermissionDenied("history '{}' cannot be reached: {}", path, std::strerror(errno));
  if (access == Database::Access::kReadOnly) return NotFound("there is no history at '{}'", path);
  const std::string folder = FolderOf(path);
  if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return NotFound("the folder '{}' for the history '{}' does not exist; create it first", folder, path);
  }
  return absl::OkStatus();
}

}  // namespace

bool SqlRow::IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
int64_t SqlRow::Int(int column) const { return sqlite3_column_int64(statement_, column); }
double SqlRow::Real(int column) const { return sqlite3_column_double(statement_, column); }
std::string SqlRow::Text(int column) const {
  const auto* text = sqlite3_column_type(statement_, column) == SQLITE_BLOB
                         ? static_cast<const char*>(sqlite3_column_blob(statement_, column))
                         : reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (text == nullptr) return "";
  return std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

StatusOr<std::unique_ptr<Database>> Database::OpenInMemory() {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(":memory:", &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (handle == nullptr) return ResourceExhausted("no memory to open a database");
  std::unique_ptr<Database> db(new Database(":memory:", handle));
  if (code != SQLITE_OK) return db->Error(code, "open");
  return db;
}

// A file's schema is data: none of it is executed, whoever made it.
void Database::Defend() {
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
}

StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, Access access) {
  if (path.empty()) return InvalidArgument("the history's file name is empty");
  RIVULET_RETURN_IF_ERROR(CheckPath(path, access));
  // Otherwise SQLite would count each allocation under one lock of the process. If other code in the process has used
  // it before, it continues to count.
  [[maybe_unused]] static const int uncounted = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  sqlite3* handle = nullptr;
  // A reader opens for writing too, if it may: the log or journal of a crash must be merged before anything can be
  // read. For a write-protected file SQLite falls back to reading alone.
  const int flags =
      SQLITE_OPEN_READWRITE | (access == Access::kReadWrite ? SQLITE_OPEN_CREATE : 0) | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  if (handle == nullptr) return ResourceExhausted("no memory to open the history '{}'", path);
  std::unique_ptr<Database> db(new Database(path, handle));
  if (code != SQLITE_OK) return db->Error(code, "open");
  if (access == Access::kReadOnly && MustBeImmutable(handle, path)) {
    sqlite3_close(std::exchange(db->db_, nullptr));
    const int again = sqlite3_open_v2(ImmutableUri(path).c_str(), &handle,
                                      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
    if (handle == nullptr) return ResourceExhausted("no memory to open the history '{}'", path);
    db->db_ = handle;
    if (again != SQLITE_OK) return db->Error(again, "open");
  }
  db->Defend();
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, 20'000);
  if (access == Access::kReadWrite && sqlite3_db_readonly(handle, "main") == 1) {
    return PermissionDenied("the history '{}' is read-only; its run cannot be recorded", path);
  }
  if (access == Access::kReadOnly) RIVULET_RETURN_IF_ERROR(db->Run("PRAGMA query_only = ON"));
  return db;
}

// One step copies all pages under one read lock, which blocks no other process with a write-ahead log. With several
// steps, each commit between two of them would restart the copy.
Status Database::BackUp(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<Database> target, Open(path, Access::kReadWrite));
  sqlite3_backup* const backup = sqlite3_backup_init(target->db_, "main", db_, "main");
  if (backup == nullptr) return target->Error(sqlite3_errcode(target->db_), "begin");
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int code = sqlite3_backup_step(backup, -1);
  while ((code == SQLITE_BUSY || code == SQLITE_LOCKED) && std::chrono::steady_clock::now() < give_up) {
    sqlite3_sleep(20);
    code = sqlite3_backup_step(backup, -1);
  }
  const int finished = sqlite3_backup_finish(backup);
  if (code != SQLITE_DONE) return target->Error(code, "write");
  if (finished != SQLITE_OK) return target->Error(finished, "write");
  return target->Run("PRAGMA journal_mode = DELETE");
}

Database::~Database() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement->statement_);
  sqlite3_close(db_);
}

Status Database::Error(int code, std::string_view doing) const {
  // The message may repeat text of the file, which anyone may have written.
  const std::string said = DisplayText(sqlite3_errmsg(db_), 200);
  if (IsFullDisk(db_, code, path_)) {
    return ResourceExhausted("cannot {} the history '{}': the disk is full; free some space, or name a --db elsewhere",
                             doing, path_);
  }
  switch (code & 0xFF) {
    case SQLITE_INTERRUPT:
      if (!stopped_.ok()) return std::exchange(stopped_, absl::OkStatus());
      return Cancelled("the query of the history '{}' was stopped", path_);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:  // too many other processes were opening it
      return Unavailable("cannot {} the history '{}': another process is writing to it and does not finish", doing,
                         path_);
    case SQLITE_NOTADB:
      return DataLoss("'{}' is not a Rivulet history: it is not an SQLite database", path_);
    case SQLITE_CORRUPT:
      return DataLoss("the history '{}' is damaged ({}); restore it from a copy", path_, said);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      return PermissionDenied("cannot {} the history '{}': {}; is it and its folder writable?", doing, path_, said);
    case SQLITE_CONSTRAINT:
      return AlreadyExists("cannot {} the history '{}': {}", doing, path_, said);
    default:
      return Internal("cannot {} the history '{}': {} (SQLite code {})", doing, path_, said, code);
  }
}

// Cached by text: code that writes many rows calls this once and keeps the statement.
StatusOr<Statement*> Database::Prepare(std::string_view sql) {
  std::string key(sql);
  if (const auto found = statements_.find(key); found != statements_.end()) return found->second.get();
  sqlite3_stmt* handle = nullptr;
  const int code =
      sqlite3_prepare_v3(db_, key.c_str(), static_cast<int>(key.size()), SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  if (code != SQLITE_OK) return Error(code, "read");
  std::unique_ptr<Statement> statement(new Statement(*this, handle));
  return statements_.emplace(std::move(key), std::move(statement)).first->second.get();
}

// Values are always bound and never written into the text, so names from outside cannot be SQL.
Status Statement::Query(std::span<const SqlValue> values, const std::function<void(const SqlRow&)>& row) {
  const bool reads = sqlite3_stmt_readonly(statement_) != 0;
  const ResetAtEnd reset(statement_);
  RIVULET_CHECK(static_cast<size_t>(sqlite3_bind_parameter_count(statement_)) == values.size(), "{}",
                sqlite3_sql(statement_));
  int index = 0;
  for (const SqlValue& value : values) {
    if (const int code = Bind(statement_, ++index, value); code != SQLITE_OK) {
      return db_.Error(code, "bind values for");
    }
  }
  while (true) {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_DONE) return absl::OkStatus();
    if (code != SQLITE_ROW) return db_.Error(code, reads ? "read" : "write to");
    if (row) row(SqlRow(statement_));
  }
}

Status Database::Query(std::string_view sql, std::initializer_list<SqlValue> values,
                       const std::function<void(const SqlRow&)>& row) {
  RIVULET_ASSIGN_OR_RETURN(Statement * statement, Prepare(sql));
  return statement->Query(std::span(values.begin(), values.size()), row);
}

// Not cached, because it is asked once. The handle becomes a Statement at once, with the usual errors and end.
StatusOr<SqlAnswer> Database::Ask(const std::string& sql, std::initializer_list<SqlValue> values) {
  sqlite3_stmt* handle = nullptr;
  const char* rest = nullptr;
  const int code = sqlite3_prepare_v3(db_, sql.c_str(), static_cast<int>(sql.size()), 0, &handle, &rest);
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owner(handle, sqlite3_finalize);
  if (code == SQLITE_ERROR)
    return InvalidArgument("SQLite does not understand the question: {}", DisplayText(sqlite3_errmsg(db_), 200));
  if (code != SQLITE_OK) return Error(code, "read");
  if (handle == nullptr) return InvalidArgument("the question is empty; ask with SELECT");
  if (std::string_view(rest).find_first_not_of(" \t\r\n;") != std::string_view::npos)
    return InvalidArgument("a question is one statement, and '{}' follows it", rest);
  if (sqlite3_stmt_readonly(handle) == 0)
    return InvalidArgument("that would write to the history '{}', which is only read here; ask with SELECT", path_);
  if (static_cast<size_t>(sqlite3_bind_parameter_count(handle)) != values.size())
    return InvalidArgument("the question has {} parameters, and {} values are given",
                           sqlite3_bind_parameter_count(handle), values.size());
  SqlAnswer answer;
  for (int column = 0; column < sqlite3_column_count(handle); ++column)
    answer.columns.emplace_back(sqlite3_column_name(handle, column));
  Statement statement(*this, handle);
  RIVULET_RETURN_IF_ERROR(statement.Query(std::span(values.begin(), values.size()), [&](const SqlRow& row) {
    std::vector<SqlShown>& shown = answer.rows.emplace_back();
    for (int column = 0; column < static_cast<int>(answer.columns.size()); ++column) {
      switch (sqlite3_column_type(handle, column)) {
        case SQLITE_NULL:
          shown.emplace_back();
          break;
        case SQLITE_INTEGER:
          shown.emplace_back(row.Int(column));
          break;
        case SQLITE_FLOAT:
          shown.emplace_back(row.Real(column));
          break;
        case SQLITE_BLOB:
          shown.emplace_back(HexOf(row.Text(column)));
          break;
        default:
          shown.emplace_back(row.Text(column));
      }
    }
  }));
  return answer;
}

Status Database::Run(std::string_view sql, std::initializer_list<SqlValue> values) {
  return Query(sql, values, nullptr);
}

Status Database::Script(const std::string& sql) {
  const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, "write to");
}

namespace {

// Pages that a connection has read from its file.
int64_t PagesRead(sqlite3* db) {
  int pages = 0, unused = 0;
  sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_MISS, &pages, &unused, 0);
  return pages;
}

}  // namespace

namespace {

constexpr int kInstructions = 50'000;  // of SQLite's machine between two checks: about a millisecond

}  // namespace

// A row of a history has some dozens of bytes, and is read and written in some hundred steps. The constant part, for a
// file of any size, takes a second or two.
void Database::LimitSteps(std::optional<int64_t> bytes) {
  constexpr int64_t kAlways = 50'000'000, kPerByte = 200;
  steps_left_ = bytes ? std::optional(kAlways + *bytes * kPerByte) : std::nullopt;
  WatchSteps();
}

void Database::WatchSteps() {
  if (!steps_left_ && !tell_reading_) return sqlite3_progress_handler(db_, 0, nullptr, nullptr);
  const auto now_and_then = [](void* self) {
    Database& db = *static_cast<Database*>(self);
    db.stopped_ = db.Step();
    return db.stopped_.ok() ? 0 : 1;
  };
  sqlite3_progress_handler(db_, kInstructions, now_and_then, this);
}

Status Database::Step() {
  if (steps_left_) *steps_left_ -= kInstructions;
  if (steps_left_ && *steps_left_ < 0) {
    return DataLoss(
        "reading the history '{}' takes more work than its size explains; it may be crafted for that, and reading "
        "stopped",
        path_);
  }
  if (!tell_reading_) return absl::OkStatus();
  const int64_t read = (PagesRead(db_) - pages_before_) * page_bytes_;
  return tell_reading_(read, read <= file_bytes_ ? file_bytes_ : 0);
}

void Database::TellReading(std::function<Status(int64_t, int64_t)> tell) {
  tell_reading_ = std::move(tell);
  Query("PRAGMA page_size", {}, [this](const SqlRow& row) { page_bytes_ = row.Int(0); }).IgnoreError();
  Query("PRAGMA page_count", {}, [this](const SqlRow& row) { file_bytes_ = row.Int(0) * page_bytes_; }).IgnoreError();
  pages_before_ = PagesRead(db_);
  WatchSteps();
}

void Database::SetBusyTimeout(int milliseconds) { sqlite3_busy_timeout(db_, milliseconds); }

void Database::WaitWithoutEnd(std::function<void()> on_busy) {
  on_busy_ = std::move(on_busy);
  const auto wait = [](void* self, int times) {
    Database& db = *static_cast<Database*>(self);
    const auto now = std::chrono::steady_clock::now();
    if (times == 0) db.next_word_ = now + std::chrono::seconds(2);
    if (now >= db.next_word_) {
      db.next_word_ = now + std::chrono::minutes(1);
      if (db.on_busy_) db.on_busy_();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(1 + times, 50)));
    return 1;
  };
  sqlite3_busy_handler(db_, wait, this);
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }
int64_t Database::changes() const { return sqlite3_changes64(db_); }
int64_t Database::last_row() const { return sqlite3_last_insert_rowid(db_); }

// IMMEDIATE takes the writer's lock at once. A transaction that begins by reading must request it later, and may be
// refused if another one has written in between.
StatusOr<std::unique_ptr<SqlTransaction>> SqlTransaction::Begin(Database& db) {
  RIVULET_RETURN_IF_ERROR(db.Run("BEGIN IMMEDIATE"));
  return std::unique_ptr<SqlTransaction>(new SqlTransaction(db));
}

SqlTransaction::~SqlTransaction() {
  // SQLite has already rolled back after some errors (disk full, I/O).
  if (open_ && db_.in_transaction()) db_.Run("ROLLBACK").IgnoreError();
}

Status SqlTransaction::Commit() {
  const Status status = db_.Run("COMMIT");
  if (status.ok()) open_ = false;
  return status;
}

}  // namespace rivulet
