// What `rivulet runs`, a resumed run and tests read.
#include "coordinator/history/history.h"
#include "engine/base/nearest.h"

namespace rivulet {
StatusOr<RunRow> History::ResolveRun(const std::string& run) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(std::vector<RunRow> found, Select<RunRow>(*db_, "WHERE run_id = ?", {run}));
  // Creation times have milliseconds: rowid decides between runs of one millisecond.
  if (found.empty()) {
    RIVULET_ASSIGN_OR_RETURN(
        found, Select<RunRow>(*db_, "WHERE name = ? ORDER BY created_at DESC, rowid DESC LIMIT 1", {run}));
  }
  if (found.empty() && run == "latest") {
    RIVULET_ASSIGN_OR_RETURN(found, Select<RunRow>(*db_, "ORDER BY created_at DESC, rowid DESC LIMIT 1", {}));
    if (found.empty()) return NotFound("the history '{}' has no runs yet", path_);
  }
  if (!found.empty()) return std::move(found.front());
  std::vector<std::string> known = {"latest"};
  RIVULET_RETURN_IF_ERROR(db_->Query("SELECT run_id FROM runs UNION SELECT name FROM runs", {},
                                     [&](const SqlRow& row) { known.push_back(row.Text(0)); }));
  return NotFound("the history '{}' has no run with the id or name '{}'.{}", path_, run, DidYouMean(run, known));
}

StatusOr<std::vector<RunRow>> History::Runs() {
  MutexLock lock(mutex_);
  return Select<RunRow>(*db_, "ORDER BY created_at DESC, rowid DESC", {});
}

StatusOr<std::vector<RunSummaryRow>> History::RunSummaries() {
  MutexLock lock(mutex_);
  return Select<RunSummaryRow>(
      *db_, "ORDER BY created_at DESC, (SELECT rowid FROM runs WHERE runs.run_id = run_leaderboard.run_id) DESC", {});
}

StatusOr<std::vector<RoundRow>> History::Rounds(const std::string& run_id) {
  MutexLock lock(mutex_);
  return Select<RoundRow>(*db_, "WHERE run_id = ? ORDER BY round, attempt", {run_id});
}

StatusOr<std::vector<RoundSummaryRow>> History::RoundSummaries(const std::string& run_id) {
  MutexLock lock(mutex_);
  return Select<RoundSummaryRow>(*db_, "WHERE run_id = ? ORDER BY round", {run_id});
}

StatusOr<std::vector<ClientRoundRow>> History::ClientRounds(const std::string& run_id, std::optional<int64_t> round) {
  MutexLock lock(mutex_);
  if (!round) return Select<ClientRoundRow>(*db_, "WHERE run_id = ? ORDER BY round, attempt, client_id", {run_id});
  return Select<ClientRoundRow>(*db_, "WHERE run_id = ? AND round = ? ORDER BY attempt, client_id", {run_id, *round});
}

StatusOr<std::optional<ClientRoundRow>> History::FindTask(const std::string& task_id) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(auto tasks, Select<ClientRoundRow>(*db_, "WHERE task_id = ?", {task_id}));
  return tasks.empty() ? std::nullopt : std::optional(std::move(tasks.front()));
}

StatusOr<std::optional<ClientRoundRow>> History::LastTask(const std::string& run_id, const std::string& client_id) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(
      auto tasks,
      Select<ClientRoundRow>(*db_, "WHERE run_id = ? AND client_id = ? ORDER BY round DESC, attempt DESC LIMIT 1",
                             {run_id, client_id}));
  return tasks.empty() ? std::nullopt : std::optional(std::move(tasks.front()));
}

StatusOr<std::vector<ClientReliabilityRow>> History::ClientReliability(const std::string& run_id) {
  MutexLock lock(mutex_);
  return Select<ClientReliabilityRow>(*db_, "WHERE run_id = ? ORDER BY client_id", {run_id});
}

StatusOr<std::vector<MetricRow>> History::Metrics(const std::string& run_id, const std::string& scope) {
  MutexLock lock(mutex_);
  return Select<MetricRow>(*db_, "WHERE run_id = ? AND scope = ? ORDER BY round, name, client_id", {run_id, scope});
}

StatusOr<std::vector<ModelRow>> History::Models(const std::string& run_id) {
  MutexLock lock(mutex_);
  return Select<ModelRow>(*db_, "WHERE run_id = ? ORDER BY round", {run_id});
}

StatusOr<std::vector<EventRow>> History::Events(const std::string& run_id) {
  MutexLock lock(mutex_);
  return Select<EventRow>(*db_, "WHERE run_id = ? ORDER BY at, rowid", {run_id});
}

StatusOr<std::vector<ClientRow>> History::Clients() {
  MutexLock lock(mutex_);
  return Select<ClientRow>(*db_, "ORDER BY client_id", {});
}

StatusOr<ResumePoint> History::FindResumePoint(const std::string& run_id) {
  MutexLock lock(mutex_);
  ResumePoint point;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT coalesce(max(round), 0) FROM rounds WHERE run_id = ? AND status = 'committed'", {run_id},
                 [&](const SqlRow& row) { point.committed_round = row.Int(0); }));
  RIVULET_RETURN_IF_ERROR(db_->Query("SELECT coalesce(max(attempt), 0) + 1 FROM rounds WHERE run_id = ? AND round = ?",
                                     {run_id, point.committed_round + 1},
                                     [&](const SqlRow& row) { point.next_attempt = row.Int(0); }));
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT client_id, from_round, from_attempt FROM run_clients WHERE run_id = ? ORDER BY client_id",
                 {run_id}, [&](const SqlRow& row) {
                   point.clients.push_back({row.Text(0), row.Int(1), row.Int(2)});
                 }));
  RIVULET_RETURN_IF_ERROR(db_->Query(
      "SELECT client_id, count(*) FROM client_rounds WHERE run_id = ? AND base_round = ? GROUP BY client_id",
      {run_id, point.committed_round}, [&](const SqlRow& row) { point.leases.emplace_back(row.Text(0), row.Int(1)); }));
  return point;
}

}  // namespace rivulet
