// What `rivulet runs`, a resumed run and tests read.
#include "coordinator/history/history.h"
#include "engine/base/nearest.h"

namespace rivulet {
namespace {

constexpr const char* kRunColumns =
    "run_id, name, status, reason, config, plan_digest, seed, version, created_at, started_at, finished_at";

RunRow ReadRun(const SqlRow& row) {
  RunRow run;
  run.run_id = row.Text(0);
  run.name = row.Text(1);
  run.status = row.Text(2);
  run.reason = row.Text(3);
  run.config = row.Text(4);
  run.plan_digest = row.Text(5);
  run.seed = static_cast<uint64_t>(row.Int(6));
  run.version = row.Text(7);
  run.created_at = row.Text(8);
  run.started_at = row.Text(9);
  run.finished_at = row.Text(10);
  return run;
}

ClientRoundRow ReadTask(const SqlRow& row) {
  ClientRoundRow t;
  t.task_id = row.Text(0);
  t.run_id = row.Text(1);
  t.round = row.Int(2);
  t.attempt = row.Int(3);
  t.client_id = row.Text(4);
  t.kind = row.Text(5);
  t.status = row.Text(6);
  t.base_round = row.Int(7);
  t.committed_round = row.OptionalInt(8);
  t.staleness = row.OptionalInt(9);
  t.parent_id = row.Text(10);
  t.examples = row.OptionalInt(11);
  t.steps = row.OptionalInt(12);
  t.train_loss = row.OptionalReal(13);
  t.update_norm = row.OptionalReal(14);
  t.update_digest = row.Text(15);
  t.weight = row.OptionalInt(16);
  t.bytes_down = row.Int(17);
  t.bytes_up = row.Int(18);
  t.wait_seconds = row.OptionalReal(19);
  t.train_seconds = row.OptionalReal(20);
  t.upload_seconds = row.OptionalReal(21);
  t.error = row.Text(22);
  return t;
}

}  // namespace

StatusOr<RunRow> History::ResolveRun(const std::string& run) {
  MutexLock lock(mutex_);
  // Creation times have milliseconds: rowid decides between runs of one millisecond.
  const std::string select = fmt::format("SELECT {} FROM runs", kRunColumns);
  std::optional<RunRow> found;
  const auto take = [&](const SqlRow& row) { found = ReadRun(row); };
  RIVULET_RETURN_IF_ERROR(db_->Query(select + " WHERE run_id = ?", {run}, take));
  if (!found) {
    RIVULET_RETURN_IF_ERROR(
        db_->Query(select + " WHERE name = ? ORDER BY created_at DESC, rowid DESC LIMIT 1", {run}, take));
  }
  if (!found && run == "latest") {
    RIVULET_RETURN_IF_ERROR(db_->Query(select + " ORDER BY created_at DESC, rowid DESC LIMIT 1", {}, take));
    if (!found) return NotFound("the history '{}' has no runs yet", path_);
  }
  if (found) return *std::move(found);
  std::vector<std::string> known = {"latest"};
  RIVULET_RETURN_IF_ERROR(db_->Query("SELECT run_id FROM runs UNION SELECT name FROM runs", {},
                                     [&](const SqlRow& row) { known.push_back(row.Text(0)); }));
  return NotFound("the history '{}' has no run with the id or name '{}'.{}", path_, run, DidYouMean(run, known));
}

StatusOr<std::vector<RunRow>> History::Runs() {
  MutexLock lock(mutex_);
  std::vector<RunRow> runs;
  RIVULET_RETURN_IF_ERROR(
      db_->Query(fmt::format("SELECT {} FROM runs ORDER BY created_at DESC, rowid DESC", kRunColumns), {},
                 [&](const SqlRow& row) { runs.push_back(ReadRun(row)); }));
  return runs;
}

StatusOr<std::vector<RunSummaryRow>> History::RunSummaries() {
  MutexLock lock(mutex_);
  std::vector<RunSummaryRow> runs;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT l.run_id, l.name, l.status, l.seed, l.rounds, l.best_accuracy, l.best_round, l.last_accuracy, "
                 "l.last_round, l.seconds, l.created_at FROM run_leaderboard l JOIN runs ON runs.run_id = l.run_id "
                 "ORDER BY l.created_at DESC, runs.rowid DESC",
                 {}, [&](const SqlRow& row) {
                   RunSummaryRow& run = runs.emplace_back();
                   run.run_id = row.Text(0);
                   run.name = row.Text(1);
                   run.status = row.Text(2);
                   run.seed = static_cast<uint64_t>(row.Int(3));
                   run.rounds = row.Int(4);
                   run.best_accuracy = row.OptionalReal(5);
                   run.best_round = row.OptionalInt(6);
                   run.last_accuracy = row.OptionalReal(7);
                   run.last_round = row.OptionalInt(8);
                   run.seconds = row.Real(9);
                   run.created_at = row.Text(10);
                 }));
  return runs;
}

StatusOr<std::vector<RoundRow>> History::Rounds(const std::string& run_id) {
  MutexLock lock(mutex_);
  std::vector<RoundRow> rounds;
  RIVULET_RETURN_IF_ERROR(db_->Query(
      "SELECT run_id, round, attempt, status, reason, started_at, finished_at, selected, reported, folded, refused, "
      "dropped, failed, examples, train_loss, bytes_down, bytes_up, train_seconds, aggregate_seconds, "
      "evaluate_seconds, model_digest FROM rounds WHERE run_id = ? ORDER BY round, attempt",
      {run_id}, [&](const SqlRow& row) {
        RoundRow& r = rounds.emplace_back();
        r.run_id = row.Text(0);
        r.round = row.Int(1);
        r.attempt = row.Int(2);
        r.status = row.Text(3);
        r.reason = row.Text(4);
        r.started_at = row.Text(5);
        r.finished_at = row.Text(6);
        r.selected = row.Int(7);
        r.reported = row.Int(8);
        r.folded = row.Int(9);
        r.refused = row.Int(10);
        r.dropped = row.Int(11);
        r.failed = row.Int(12);
        r.examples = row.Int(13);
        r.train_loss = row.OptionalReal(14);
        r.bytes_down = row.Int(15);
        r.bytes_up = row.Int(16);
        r.train_seconds = row.Real(17);
        r.aggregate_seconds = row.Real(18);
        r.evaluate_seconds = row.Real(19);
        r.model_digest = row.Text(20);
      }));
  return rounds;
}

StatusOr<std::vector<RoundSummaryRow>> History::RoundSummaries(const std::string& run_id) {
  MutexLock lock(mutex_);
  std::vector<RoundSummaryRow> rounds;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT run_id, name, round, attempts, selected, folded, refused, dropped, failed, examples, "
                 "train_loss, test_accuracy, test_loss, bytes_down, bytes_up, train_seconds, aggregate_seconds, "
                 "evaluate_seconds, model_digest FROM round_summary WHERE run_id = ? ORDER BY round",
                 {run_id}, [&](const SqlRow& row) {
                   RoundSummaryRow& r = rounds.emplace_back();
                   r.run_id = row.Text(0);
                   r.name = row.Text(1);
                   r.round = row.Int(2);
                   r.attempts = row.Int(3);
                   r.selected = row.Int(4);
                   r.folded = row.Int(5);
                   r.refused = row.Int(6);
                   r.dropped = row.Int(7);
                   r.failed = row.Int(8);
                   r.examples = row.Int(9);
                   r.train_loss = row.OptionalReal(10);
                   r.test_accuracy = row.OptionalReal(11);
                   r.test_loss = row.OptionalReal(12);
                   r.bytes_down = row.Int(13);
                   r.bytes_up = row.Int(14);
                   r.train_seconds = row.Real(15);
                   r.aggregate_seconds = row.Real(16);
                   r.evaluate_seconds = row.Real(17);
                   r.model_digest = row.Text(18);
                 }));
  return rounds;
}

StatusOr<std::vector<ClientRoundRow>> History::SelectTasks(std::string_view where,
                                                           std::initializer_list<SqlValue> values) {
  std::vector<ClientRoundRow> tasks;
  const std::string sql = fmt::format(
      "SELECT task_id, run_id, round, attempt, client_id, kind, status, base_round, committed_round, staleness, "
      "parent_id, examples, steps, train_loss, update_norm, update_digest, weight, bytes_down, bytes_up, wait_seconds, "
      "train_seconds, upload_seconds, error FROM client_rounds WHERE {}",
      where);
  RIVULET_RETURN_IF_ERROR(db_->Query(sql, values, [&](const SqlRow& row) { tasks.push_back(ReadTask(row)); }));
  return tasks;
}

StatusOr<std::vector<ClientRoundRow>> History::ClientRounds(const std::string& run_id, std::optional<int64_t> round) {
  MutexLock lock(mutex_);
  if (round) return SelectTasks("run_id = ? AND round = ? ORDER BY attempt, client_id", {run_id, *round});
  return SelectTasks("run_id = ? ORDER BY round, attempt, client_id", {run_id});
}

StatusOr<std::optional<ClientRoundRow>> History::FindTask(const std::string& task_id) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(auto tasks, SelectTasks("task_id = ?", {task_id}));
  return tasks.empty() ? std::nullopt : std::optional(std::move(tasks.front()));
}

StatusOr<std::optional<ClientRoundRow>> History::LastTask(const std::string& run_id, const std::string& client_id) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(
      auto tasks,
      SelectTasks("run_id = ? AND client_id = ? ORDER BY round DESC, attempt DESC LIMIT 1", {run_id, client_id}));
  return tasks.empty() ? std::nullopt : std::optional(std::move(tasks.front()));
}

StatusOr<std::vector<ClientReliabilityRow>> History::ClientReliability(const std::string& run_id) {
  MutexLock lock(mutex_);
  std::vector<ClientReliabilityRow> clients;
  RIVULET_RETURN_IF_ERROR(db_->Query(
      "SELECT run_id, client_id, tasks, folded, refused, dropped, failed, reliability, examples, mean_train_seconds, "
      "last_seen_at FROM client_reliability WHERE run_id = ? ORDER BY client_id",
      {run_id}, [&](const SqlRow& row) {
        ClientReliabilityRow& c = clients.emplace_back();
        c.run_id = row.Text(0);
        c.client_id = row.Text(1);
        c.tasks = row.Int(2);
        c.folded = row.Int(3);
        c.refused = row.Int(4);
        c.dropped = row.Int(5);
        c.failed = row.Int(6);
        c.reliability = row.Real(7);
        c.examples = row.Int(8);
        c.mean_train_seconds = row.OptionalReal(9);
        c.last_seen_at = row.Text(10);
      }));
  return clients;
}

StatusOr<std::vector<MetricRow>> History::Metrics(const std::string& run_id, const std::string& scope) {
  MutexLock lock(mutex_);
  std::vector<MetricRow> metrics;
  RIVULET_RETURN_IF_ERROR(db_->Query(
      "SELECT run_id, round, scope, client_id, name, value FROM metrics WHERE run_id = ? AND scope = ? "
      "ORDER BY round, name, client_id",
      {run_id, scope}, [&](const SqlRow& row) {
        metrics.push_back({row.Text(0), row.Int(1), row.Text(2), row.Text(3), row.Text(4), row.OptionalReal(5)});
      }));
  return metrics;
}

StatusOr<std::vector<ModelRow>> History::Models(const std::string& run_id) {
  MutexLock lock(mutex_);
  std::vector<ModelRow> models;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT run_id, round, digest, path, bytes, parameters FROM models WHERE run_id = ? ORDER BY round",
                 {run_id}, [&](const SqlRow& row) {
                   models.push_back({row.Text(0), row.Int(1), row.Text(2), row.Text(3), row.Int(4), row.Int(5)});
                 }));
  return models;
}

StatusOr<std::vector<EventRow>> History::Events(const std::string& run_id) {
  MutexLock lock(mutex_);
  std::vector<EventRow> events;
  RIVULET_RETURN_IF_ERROR(db_->Query(
      "SELECT run_id, round, at, level, source, message FROM events WHERE run_id = ? ORDER BY at, rowid", {run_id},
      [&](const SqlRow& row) {
        events.push_back({row.Text(0), row.OptionalInt(1), row.Text(2), row.Text(3), row.Text(4), row.Text(5)});
      }));
  return events;
}

StatusOr<std::vector<ClientRow>> History::Clients() {
  MutexLock lock(mutex_);
  std::vector<ClientRow> clients;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT client_id, fingerprint, status, first_seen_at, last_seen_at FROM clients ORDER BY client_id",
                 {}, [&](const SqlRow& row) {
                   clients.push_back({row.Text(0), row.Text(1), row.Text(2), row.Text(3), row.Text(4)});
                 }));
  return clients;
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
