// What the coordinator writes.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "coordinator/history/history.h"

namespace rivulet {
std::string Iso8601(int64_t unix_ms) {
  int64_t seconds = unix_ms / 1000;
  int64_t milliseconds = unix_ms % 1000;
  if (milliseconds < 0) {
    milliseconds += 1000;
    --seconds;
  }
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc{};
  gmtime_r(&time, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, milliseconds);
}

Status History::InsertEvents(std::span<const EventRow> events) {
  for (const EventRow& event : events) RIVULET_RETURN_IF_ERROR(Insert(*db_, event));
  return absl::OkStatus();
}

Status History::AddRun(const RunRow& run, const ModelRow& initial_model, std::span<const EventRow> events) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  RIVULET_RETURN_IF_ERROR(Insert(*db_, run));
  RIVULET_RETURN_IF_ERROR(Insert(*db_, initial_model));
  RIVULET_RETURN_IF_ERROR(InsertEvents(events));
  return transaction->Commit();
}

Status History::ReopenRun(const RunRow& run, std::span<const EventRow> events) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  RIVULET_RETURN_IF_ERROR(db_->Run(
      "UPDATE runs SET status = 'running', reason = NULL, config = ?, version = ?, finished_at = NULL WHERE run_id = ?",
      {run.config, run.version, run.run_id}));
  RIVULET_RETURN_IF_ERROR(InsertEvents(events));
  return transaction->Commit();
}

Status History::EndRun(const std::string& run_id, const std::string& status, const std::string& reason,
                       const std::string& at, std::span<const EventRow> events) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  RIVULET_RETURN_IF_ERROR(db_->Run("UPDATE runs SET status = ?, reason = ?, finished_at = ? WHERE run_id = ?",
                                   {status, TextOrNull(reason), at, run_id}));
  RIVULET_RETURN_IF_ERROR(InsertEvents(events));
  return transaction->Commit();
}

// A client may be known from another run of this history; only being part of this one is new.
Status History::AddClients(const std::string& run_id, std::span<const RunClient> clients, const std::string& at) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  for (const RunClient& client : clients) {
    RIVULET_RETURN_IF_ERROR(
        db_->Run("INSERT INTO clients (client_id, status, first_seen_at, last_seen_at) VALUES (?, 'active', ?, ?) "
                 "ON CONFLICT (client_id) DO UPDATE SET last_seen_at = excluded.last_seen_at",
                 {client.client_id, at, at}));
    RIVULET_RETURN_IF_ERROR(
        db_->Run("INSERT OR IGNORE INTO run_clients (run_id, client_id, from_round, from_attempt) VALUES (?, ?, ?, ?)",
                 {run_id, client.client_id, client.from_round, client.from_attempt}));
  }
  return transaction->Commit();
}

// Everything that an attempt leaves, in one transaction: its round, its tasks, metrics, model and events appear
// together or not at all. The end of the run rides along with its last round, so no crash leaves a run that is complete
// and says that it is running.
Status History::AddAttempt(const AttemptRecord& attempt) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  const RoundRow& round = attempt.round;
  RIVULET_RETURN_IF_ERROR(Insert(*db_, round));
  RIVULET_ASSIGN_OR_RETURN(Statement * insert_task, db_->Prepare(InsertSql<ClientRoundRow>()));
  for (const ClientRoundRow& task : attempt.tasks) RIVULET_RETURN_IF_ERROR(Insert(*insert_task, task));
  for (const MetricRow& metric : attempt.metrics) RIVULET_RETURN_IF_ERROR(Insert(*db_, metric));
  if (attempt.model) {
    // The path goes before the file does: between the two a row names no file, which is true; the other way round it
    // would name one that is gone.
    if (attempt.forget_older_models) {
      RIVULET_RETURN_IF_ERROR(
          db_->Run("UPDATE models SET path = NULL WHERE run_id = ? AND round < ? AND path IS NOT NULL",
                   {round.run_id, round.round}));
    }
    RIVULET_RETURN_IF_ERROR(Insert(*db_, *attempt.model));
  }
  RIVULET_RETURN_IF_ERROR(InsertEvents(attempt.events));
  for (const auto& [client_id, at] : attempt.seen) {
    RIVULET_RETURN_IF_ERROR(db_->Run("UPDATE clients SET last_seen_at = ? WHERE client_id = ?", {at, client_id}));
  }
  if (attempt.finishes_run) {
    RIVULET_RETURN_IF_ERROR(
        db_->Run("UPDATE runs SET status = 'finished', reason = NULL, finished_at = ? WHERE run_id = ?",
                 {round.finished_at, round.run_id}));
  }
  return transaction->Commit();
}

}  // namespace rivulet
