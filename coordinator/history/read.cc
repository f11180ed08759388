// Reads for `rivulet runs`, resumed runs and tests.
#include <cctype>

#include "coordinator/history/history.h"
#include "coordinator/history/row_columns.h"
#include "coordinator/history/tables.h"
#include "engine/base/nearest.h"

namespace rivulet {
StatusOr<RunRow> History::ResolveRun(const std::string& run) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(std::vector<RunRow> found, Select<RunRow>(*db_, "WHERE run_id = ?", {run}));
  // Creation times have milliseconds: rowid decides between runs of the same millisecond.
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
      *db_, "ORDER BY created_at DESC, (SELECT run FROM run WHERE run.run_id = run_leaderboard.run_id) DESC", {});
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

// Most tasks' ids follow from their rows and have no index; the id's parts lead to the row. A run's and a client's id
// may resemble parts of a task's, so every split is tried.
StatusOr<std::optional<ClientRoundRow>> History::FindTask(const std::string& task_id) {
  MutexLock lock(mutex_);
  std::optional<int64_t> key;
  const auto take = [&](const SqlRow& row) { key = row.Int(0); };
  RIVULET_RETURN_IF_ERROR(db_->Query("SELECT task FROM task WHERE task_id = ?", {task_id}, take));
  const std::string_view id = task_id;
  const size_t last = id.rfind('-');
  const auto number = [&](size_t& at) -> std::optional<int64_t> {
    int64_t value = 0;
    const size_t begin = at;
    for (; at < id.size() && at - begin < 18 && std::isdigit(static_cast<unsigned char>(id[at])); ++at) {
      value = value * 10 + (id[at] - '0');
    }
    // Only the written form: no sign, no leading zeros.
    return at == begin || (id[begin] == '0' && at - begin > 1) ? std::nullopt : std::optional(value);
  };
  for (size_t dash = id.find('-'); !key && last != id.npos && dash < last; dash = id.find('-', dash + 1)) {
    size_t at = dash + 1;
    int64_t kind = 0;
    while (kind < static_cast<int64_t>(kTaskLetters.size()) &&
           !id.substr(at).starts_with(kTaskLetters[static_cast<size_t>(kind)])) {
      ++kind;
    }
    if (kind == static_cast<int64_t>(kTaskLetters.size())) continue;
    ++at;
    const auto round = number(at);
    if (!round || !id.substr(at).starts_with("-a")) continue;
    at += 2;
    const auto attempt = number(at);
    if (!attempt || at >= last || id[at] != '-') continue;
    const std::string_view client_id = id.substr(at + 1, last - at - 1);
    size_t end = last + 1;
    const auto ordinal = number(end);
    if (!ordinal || end != id.size()) continue;
    RIVULET_RETURN_IF_ERROR(db_->Query(
        "SELECT t.task FROM run r JOIN attempt a ON a.run = r.run JOIN client c JOIN task t "
        "ON t.attempt_key = a.attempt_key AND t.client = c.client WHERE r.run_id = ? AND a.round = ? AND a.attempt = ? "
        "AND a.kind = ? AND c.client_id = ? AND t.ordinal = ?",
        {id.substr(0, dash), *round, *attempt, kind, client_id, *ordinal}, take));
  }
  if (!key) return std::nullopt;
  RIVULET_ASSIGN_OR_RETURN(auto tasks, Select<ClientRoundRow>(*db_, "WHERE rowid = ?", {*key}));
  return tasks.empty() ? std::nullopt : std::optional(std::move(tasks.front()));
}

StatusOr<std::optional<ClientRoundRow>> History::LastTask(const std::string& run_id, const std::string& client_id) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(auto tasks, Select<ClientRoundRow>(*db_,
                                                              "WHERE run_id = ? AND client_id = ? AND kind = 'train' "
                                                              "ORDER BY round DESC, attempt DESC LIMIT 1",
                                                              {run_id, client_id}));
  return tasks.empty() ? std::nullopt : std::optional(std::move(tasks.front()));
}

StatusOr<std::vector<ClientRoundRow>> History::ClientTasks(const std::string& run_id, const std::string& client_id,
                                                           size_t most, size_t skip) {
  MutexLock lock(mutex_);
  return Select<ClientRoundRow>(*db_,
                                "WHERE run_id = ? AND client_id = ? ORDER BY round DESC, attempt DESC LIMIT ? OFFSET ?",
                                {run_id, client_id, static_cast<int64_t>(most), static_cast<int64_t>(skip)});
}

StatusOr<std::vector<ClientReliabilityRow>> History::LeastReliable(const std::string& run_id, size_t most,
                                                                   size_t skip) {
  MutexLock lock(mutex_);
  return Select<ClientReliabilityRow>(*db_, "WHERE run_id = ? ORDER BY reliability, client_id LIMIT ? OFFSET ?",
                                      {run_id, static_cast<int64_t>(most), static_cast<int64_t>(skip)});
}

StatusOr<std::optional<ClientReliabilityRow>> History::ReliabilityOf(const std::string& run_id,
                                                                     const std::string& client_id) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(
      auto clients, Select<ClientReliabilityRow>(*db_, "WHERE run_id = ? AND client_id = ?", {run_id, client_id}));
  return clients.empty() ? std::nullopt : std::optional(std::move(clients.front()));
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

StatusOr<std::vector<RecordRow>> History::Records(const std::string& run_id) {
  MutexLock lock(mutex_);
  return Select<RecordRow>(*db_, "WHERE run_id = ? ORDER BY round", {run_id});
}

StatusOr<std::optional<RecordRow>> History::FindRecord(const std::string& run_id, int64_t round) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(std::vector<RecordRow> rows,
                           Select<RecordRow>(*db_, "WHERE run_id = ? AND round = ?", {run_id, round}));
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

StatusOr<std::vector<EventRow>> History::Events(const std::string& run_id) {
  MutexLock lock(mutex_);
  return Select<EventRow>(*db_, "WHERE run_id = ? ORDER BY at, rowid", {run_id});
}

StatusOr<std::vector<EventRow>> History::NewestEvents(const std::string& run_id, size_t most) {
  MutexLock lock(mutex_);
  return Select<EventRow>(*db_, "WHERE run_id = ? ORDER BY at DESC, rowid DESC LIMIT ?",
                          {run_id, static_cast<int64_t>(most)});
}

StatusOr<std::vector<AuditRow>> History::Audit() {
  MutexLock lock(mutex_);
  return Select<AuditRow>(*db_, "ORDER BY rowid", {});
}

StatusOr<std::vector<ClientRow>> History::ClientsAfter(const std::string& client_id, size_t most) {
  MutexLock lock(mutex_);
  return Select<ClientRow>(*db_, "WHERE client_id > ? ORDER BY client_id LIMIT ?",
                           {client_id, static_cast<int64_t>(most)});
}

StatusOr<std::vector<ClientRow>> History::DecidedClients() {
  MutexLock lock(mutex_);
  return Select<ClientRow>(*db_, "WHERE status <> 'active' ORDER BY client_id", {});
}

StatusOr<std::vector<ClientRow>> History::Clients() {
  MutexLock lock(mutex_);
  return Select<ClientRow>(*db_, "ORDER BY client_id", {});
}

StatusOr<std::vector<RunKeyRow>> History::RunKeys(const std::string& run_id) {
  MutexLock lock(mutex_);
  return Select<RunKeyRow>(*db_, "WHERE run_id = ? ORDER BY key", {run_id});
}

StatusOr<std::vector<TagRow>> History::Tags(const std::string& run_id) {
  MutexLock lock(mutex_);
  return Select<TagRow>(*db_, "WHERE run_id = ? ORDER BY tag", {run_id});
}

StatusOr<std::vector<NoteRow>> History::Notes(const std::string& run_id) {
  MutexLock lock(mutex_);
  return Select<NoteRow>(*db_, "WHERE run_id = ? ORDER BY at, rowid", {run_id});
}

StatusOr<std::optional<std::pair<int64_t, BlobRow>>> History::FindBlob(const std::string& run_id,
                                                                       const std::string& name) {
  MutexLock lock(mutex_);
  std::optional<std::pair<int64_t, BlobRow>> blob;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT b.round, b.bytes FROM blob b JOIN run r ON r.run = b.run WHERE r.run_id = ? AND b.name = ? "
                 "ORDER BY b.round DESC LIMIT 1",
                 {run_id, name}, [&](const SqlRow& row) {
                   blob = {row.Int(0), {name, row.Text(1)}};
                 }));
  return blob;
}

void History::TellReading(std::function<Status(int64_t, int64_t)> tell) {
  MutexLock lock(mutex_);
  db_->TellReading(std::move(tell));
}

StatusOr<SqlAnswer> History::Ask(const std::string& sql, std::initializer_list<SqlValue> values) {
  MutexLock lock(mutex_);
  return db_->Ask(sql, values);
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
      db_->Query("SELECT count(*) FROM events WHERE run_id = ? AND source = 'run' AND substr(message, 1, ?) = ?",
                 {run_id, static_cast<int64_t>(std::string_view(kResumedEvent).size()), kResumedEvent},
                 [&](const SqlRow& row) { point.resumes = row.Int(0); }));
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT client_id, from_round, from_attempt FROM run_clients WHERE run_id = ? ORDER BY client_id",
                 {run_id}, [&](const SqlRow& row) {
                   point.clients.push_back({row.Text(0), row.Int(1), row.Int(2)});
                 }));
  // A task ends in an attempt after the version that it started from.
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT client_id, count(*) FROM client_rounds WHERE run_id = ? AND round > ? AND base_round = ? AND "
                 "kind = 'train' GROUP BY client_id ORDER BY client_id",
                 {run_id, point.committed_round, point.committed_round},
                 [&](const SqlRow& row) { point.leases.emplace_back(row.Text(0), row.Int(1)); }));
  RIVULET_RETURN_IF_ERROR(db_->Query(
      "SELECT a.round FROM attempt a JOIN run r ON r.run = a.run WHERE r.run_id = ? AND a.kind = 1 AND a.round >= ?",
      {run_id, point.committed_round - 1}, [&](const SqlRow& row) { point.measured.push_back(row.Int(0)); }));
  return point;
}

// SQLite takes the other columns from the row with the maximum, if there is a single max().
StatusOr<std::vector<std::string>> History::NewestFolded(const std::string& run_id, int64_t last) {
  MutexLock lock(mutex_);
  std::vector<std::string> tasks;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT task_id, max(round) FROM client_rounds WHERE run_id = ? AND kind = 'train' AND "
                 "committed_round <= ? GROUP BY client_id",
                 {run_id, last}, [&](const SqlRow& row) { tasks.push_back(row.Text(0)); }));
  return tasks;
}

StatusOr<std::vector<ParticipationRow>> History::Participations(const std::string& run_id) {
  MutexLock lock(mutex_);
  std::vector<ParticipationRow> rows;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT client_id, max(committed_round), count(*), examples, train_loss, train_seconds FROM "
                 "client_rounds WHERE run_id = ? AND kind = 'train' AND committed_round IS NOT NULL GROUP BY client_id "
                 "ORDER BY client_id",
                 {run_id}, [&](const SqlRow& row) {
                   rows.push_back({row.Text(0), row.Int(1), row.Int(2), row.Int(3), row.Real(4), row.Real(5)});
                 }));
  return rows;
}

}  // namespace rivulet
