// SQLite in RAII: a connection with its prepared statements, and transactions that roll back unless committed. It has
// no knowledge of runs. Views and triggers of a file are never run: a statement that names such a view is an error, and
// temporary views of the connection replace them.
//
// Not thread-safe: the owner serialises calls. Errors are one sentence with the file's name. RESOURCE_EXHAUSTED: disk
// full. UNAVAILABLE: locked by another process for longer than the busy timeout. DATA_LOSS: damaged, or no SQLite file.
// PERMISSION_DENIED: unreadable or unwritable. ALREADY_EXISTS: a duplicate key. INTERNAL otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "engine/base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace rivulet {

struct SqlBlob {
  std::string_view bytes;
};
// NULL, INTEGER, REAL, TEXT or BLOB. Text and bytes are borrowed during the call.
using SqlValue = std::variant<std::monostate, int64_t, double, std::string_view, SqlBlob>;

// NULL for "".
inline SqlValue TextOrNull(std::string_view text) { return text.empty() ? SqlValue() : SqlValue(text); }

// One row of a result, valid during the callback. Columns count from 0; NULL reads as 0 or "".
class SqlRow {
 public:
  explicit SqlRow(sqlite3_stmt* statement) : statement_(statement) {}
  bool IsNull(int column) const;
  int64_t Int(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;  // of a BLOB: its bytes

 private:
  sqlite3_stmt* statement_;
};

// A value for display: NULL, a bool, a number or text; bytes as hexadecimal digits.
using SqlShown = std::variant<std::monostate, bool, int64_t, double, std::string>;

// The result of a query: the names of its columns, and a value per column for each row.
struct SqlAnswer {
  std::vector<std::string> columns;
  std::vector<std::vector<SqlShown>> rows;
};

class Database;

// A statement that is prepared once and run many times: a row costs its binding and its step. Owned by its database.
class Statement {
 public:
  Status Run(std::span<const SqlValue> values) { return Query(values, nullptr); }
  Status Run(std::initializer_list<SqlValue> values) {
    return Query(std::span(values.begin(), values.size()), nullptr);
  }
  // The same, calling `row` for each row of the result.
  Status Query(std::span<const SqlValue> values, const std::function<void(const SqlRow&)>& row);

 private:
  friend class Database;
  Statement(const Database& db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}
  const Database& db_;
  sqlite3_stmt* const statement_;
};

class Database {
 public:
  enum class Access { kReadOnly, kReadWrite };  // kReadWrite creates the file

  static StatusOr<std::unique_ptr<Database>> Open(const std::string& path, Access access);
  static StatusOr<std::unique_ptr<Database>> OpenInMemory();
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // The statement of this text, prepared once. Valid as long as the database.
  StatusOr<Statement*> Prepare(std::string_view sql);
  // Runs one statement, as Prepare.
  Status Run(std::string_view sql, std::initializer_list<SqlValue> values = {});
  // The same, calling `row` for each row of the result.
  Status Query(std::string_view sql, std::initializer_list<SqlValue> values,
               const std::function<void(const SqlRow&)>& row);
  // The result of one statement from outside the program. INVALID_ARGUMENT: SQLite's error; it is not one statement; it
  // would write; it has other parameters than `values`.
  StatusOr<SqlAnswer> Ask(const std::string& sql, std::initializer_list<SqlValue> values);
  // Runs several statements, separated by ';'.
  Status Script(const std::string& sql);
  // Writes the database's present state to `path`, a new file without a log, synced. Writers may continue meanwhile.
  Status BackUp(const std::string& path);
  // Calls `tell` periodically while a statement reads, on its thread, with the bytes read from the file and the
  // file's size, or 0 once more than the whole file has been read. An error stops the statement and is
  // returned.
  void TellReading(std::function<Status(int64_t read, int64_t bytes)> tell);
  // Limits the SQLite instructions of this connection's further statements, in total, to the most that a
  // file of `bytes` can need; then DATA_LOSS, because the file was made to occupy the program. nullopt: no
  // limit.
  void LimitSteps(std::optional<int64_t> bytes);
  // Sets how long a call waits for another process's transaction: by default 20 s, then UNAVAILABLE.
  void SetBusyTimeout(int milliseconds);
  // From now on a call waits indefinitely, and calls `on_busy` after two seconds and every minute.
  void WaitWithoutEnd(std::function<void()> on_busy);
  bool in_transaction() const;
  int64_t changes() const;   // rows that the last statement inserted, updated or deleted
  int64_t last_row() const;  // the key of the last row inserted
  const std::string& path() const { return path_; }

 private:
  friend class Statement;
  Database(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}
  Status Error(int code, std::string_view doing) const;
  void Defend();
  void WatchSteps();
  Status Step();

  std::string path_;
  sqlite3* db_;
  std::function<void()> on_busy_;
  std::chrono::steady_clock::time_point next_word_;  // the time of the next call of on_busy_
  std::function<Status(int64_t, int64_t)> tell_reading_;
  std::optional<int64_t> steps_left_;
  int64_t pages_before_ = 0, page_bytes_ = 0, file_bytes_ = 0;  // at the call of LimitSteps or TellReading
  mutable Status stopped_;                                      // the error that stopped the last statement
  std::unordered_map<std::string, std::unique_ptr<Statement>> statements_;
};

// BEGIN IMMEDIATE … COMMIT. Rolled back when destroyed without Commit, or when Commit fails.
class SqlTransaction {
 public:
  static StatusOr<std::unique_ptr<SqlTransaction>> Begin(Database& db);
  ~SqlTransaction();
  SqlTransaction(const SqlTransaction&) = delete;
  SqlTransaction& operator=(const SqlTransaction&) = delete;
  Status Commit();

 private:
  explicit SqlTransaction(Database& db) : db_(db) {}
  Database& db_;
  bool open_ = true;
};

}  // namespace rivulet
