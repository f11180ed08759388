// Writes of the coordinator: rows as people read them become rows as they are stored.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "coordinator/history/config_keys.h"
#include "coordinator/history/history.h"
#include "coordinator/history/tables.h"

namespace rivulet {
namespace {

// A name costs about 100 bytes; those of a large cohort are kept, those of a million clients are not.
constexpr size_t kClientKeys = 100'000;
// per INSERT: more would save next to nothing
constexpr size_t kTasksAtOnce = 20;

template <size_t N>
StatusOr<int64_t> PlaceOf(std::string_view word, const std::array<std::string_view, N>& words, std::string_view what) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return InvalidArgument("a history has no {} '{}'", what, word);
  return found - words.begin();
}

StatusOr<std::optional<int64_t>> UnixMsOrNull(const std::string& iso8601) {
  if (iso8601.empty()) return std::optional<int64_t>();
  RIVULET_ASSIGN_OR_RETURN(const int64_t ms, UnixMs(iso8601));
  return std::optional(ms);
}

// The common prefix of an attempt's task ids.
std::string TaskStem(const RoundRow& attempt, int64_t kind) {
  return fmt::format("{}-{}{}-a{}-", attempt.run_id, kTaskLetters[static_cast<size_t>(kind)], attempt.round,
                     attempt.attempt);
}

// The ordinal in a task's id, if the id is the one that follows from the row and its attempt's stem.
std::optional<int64_t> OrdinalIn(const ClientRoundRow& task, std::string_view stem) {
  std::string_view rest = task.task_id;
  if (!rest.starts_with(stem)) return std::nullopt;
  rest.remove_prefix(stem.size());
  if (!rest.starts_with(task.client_id)) return std::nullopt;
  rest.remove_prefix(task.client_id.size());
  // Only the written form: "-0", "-12", no leading zero.
  if (rest.size() < 2 || rest[0] != '-' || rest[1] == '-' || (rest[1] == '0' && rest.size() > 2)) return std::nullopt;
  int64_t ordinal = 0;
  const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), ordinal);
  if (error != std::errc() || end != rest.data() + rest.size()) return std::nullopt;
  return ordinal;
}

StatusOr<std::string> BytesOfHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(hex.data() + i, hex.data() + i + 2, value, 16);
    if (error != std::errc() || end != hex.data() + i + 2) return InvalidArgument("'{}' is no hexadecimal text", hex);
    bytes += static_cast<char>(value);
  }
  if (hex.size() % 2 == 1) return InvalidArgument("'{}' is no hexadecimal text", hex);
  return bytes;
}

// Entries sorted by key.
template <typename Value>
std::vector<std::pair<int64_t, const Value*>> InOrder(const std::unordered_map<int64_t, Value>& map) {
  std::vector<std::pair<int64_t, const Value*>> entries;
  entries.reserve(map.size());
  for (const auto& [key, value] : map) entries.emplace_back(key, &value);
  std::ranges::sort(entries, {}, [](const auto& entry) { return entry.first; });
  return entries;
}

}  // namespace

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

StatusOr<int64_t> UnixMs(const std::string& iso8601) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, milliseconds = 0, read = 0;
  std::sscanf(iso8601.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &year, &month, &day, &hour, &minute, &second,
              &milliseconds, &read);
  if (read != 24 || iso8601.size() != 24) {
    return InvalidArgument("'{}' is not a time such as 2025-01-31T14:25:30.123Z", iso8601);
  }
  const auto days = std::chrono::sys_days(std::chrono::year(year) / month / day).time_since_epoch().count();
  return ((int64_t{days} * 24 + hour) * 60 + minute) * 60'000 + second * 1000 + milliseconds;
}

StatusOr<int64_t> History::RunKey(const std::string& run_id) {
  if (const auto found = run_keys_.find(run_id); found != run_keys_.end()) return found->second;
  std::optional<int64_t> key;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT run FROM run WHERE run_id = ?", {run_id}, [&](const SqlRow& row) { key = row.Int(0); }));
  if (!key) return NotFound("the history '{}' has no run '{}'", path_, run_id);
  return run_keys_.emplace(run_id, *key).first->second;
}

StatusOr<int64_t> History::ClientKey(const std::string& client_id) {
  if (const auto found = client_keys_.find(client_id); found != client_keys_.end()) return found->second;
  std::optional<int64_t> key;
  RIVULET_RETURN_IF_ERROR(db_->Query("SELECT client FROM client WHERE client_id = ?", {client_id},
                                     [&](const SqlRow& row) { key = row.Int(0); }));
  if (!key) return NotFound("the history '{}' has no client '{}'", path_, client_id);
  if (client_keys_.size() >= kClientKeys) client_keys_.clear();
  return client_keys_.emplace(client_id, *key).first->second;
}

// An aggregator need not be a client: then it is a name without times. Its key is not cached, since the transaction may
// be rolled back.
StatusOr<int64_t> History::ParentKey(const std::string& parent_id) {
  std::optional<int64_t> key;
  RIVULET_RETURN_IF_ERROR(db_->Query("SELECT client FROM client WHERE client_id = ?", {parent_id},
                                     [&](const SqlRow& row) { key = row.Int(0); }));
  if (key) return *key;
  RIVULET_RETURN_IF_ERROR(Insert(*db_, StoredClient{.client_id = parent_id}));
  return db_->last_row();
}

Status History::InsertEvents(std::span<const EventRow> events) {
  for (const EventRow& event : events) {
    StoredEvent row;
    if (!event.run_id.empty()) {
      RIVULET_ASSIGN_OR_RETURN(row.run, RunKey(event.run_id));
    }
    row.round = event.round;
    RIVULET_ASSIGN_OR_RETURN(row.at, UnixMs(event.at));
    RIVULET_ASSIGN_OR_RETURN(row.level, PlaceOf(event.level, kLevels, "level"));
    row.source = event.source;
    row.message = event.message;
    RIVULET_RETURN_IF_ERROR(Insert(*db_, row));
  }
  return absl::OkStatus();
}

Status History::InsertAudit(const AuditRow& row) {
  StoredAudit stored;
  RIVULET_ASSIGN_OR_RETURN(stored.at, UnixMs(row.at));
  RIVULET_ASSIGN_OR_RETURN(stored.action, PlaceOf(row.action, kAuditActions, "action of an operator"));
  stored.operator_id = row.operator_id;
  stored.serial = row.serial;
  stored.run_id = row.run_id;
  stored.client_id = row.client_id;
  stored.detail = row.detail;
  return Insert(*db_, stored);
}

Status History::AddAudit(const AuditRow& row) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  RIVULET_RETURN_IF_ERROR(InsertAudit(row));
  return transaction->Commit();
}

Status History::DecideClient(const AuditRow& row) {
  const std::string_view status = row.action == "approve"  ? "approved"
                                  : row.action == "ban"    ? "banned"
                                  : row.action == "remove" ? "removed"
                                                           : "";
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(const int64_t state, PlaceOf(status, kClientStates, "status of a client"));
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  RIVULET_RETURN_IF_ERROR(
      db_->Run("INSERT INTO client (client_id, status) VALUES (?1, ?2) "
               "ON CONFLICT (client_id) DO UPDATE SET status = excluded.status",
               {row.client_id, state}));
  RIVULET_RETURN_IF_ERROR(InsertAudit(row));
  return transaction->Commit();
}

// A model is in its run's folder, which is stored once with its run.
Status History::InsertModel(int64_t run, const ModelRow& model) {
  StoredModel row;
  row.run = run;
  row.round = model.round;
  RIVULET_ASSIGN_OR_RETURN(row.digest, Digest::FromHex(model.digest));
  std::string folder;
  RIVULET_RETURN_IF_ERROR(db_->Query("SELECT models FROM run WHERE run = ?", {run},
                                     [&](const SqlRow& found) { folder = found.Text(0) + "/"; }));
  const bool there = model.path.starts_with(folder) && model.path.find('/', folder.size()) == model.path.npos;
  row.file = there ? model.path.substr(folder.size()) : model.path;
  row.bytes = model.bytes;
  row.parameters = model.parameters;
  return Insert(*db_, row);
}

Status History::InsertRecord(int64_t run, const RecordRow& record) {
  StoredRecord row{.run = run, .round = record.round, .record = record.record, .certificate = record.certificate};
  RIVULET_ASSIGN_OR_RETURN(row.digest, Digest::FromHex(record.digest));
  RIVULET_ASSIGN_OR_RETURN(row.signature.bytes, BytesOfHex(record.signature));
  return Insert(*db_, row);
}

Status History::InsertFirstRecord(int64_t run, const RunRow& row, const RecordRow& record) {
  RIVULET_RETURN_IF_ERROR(InsertBlob(run, 0, {kConfigurationBlob, row.config}));
  return InsertRecord(run, record);
}

Status History::AddRun(const RunRow& run, const ModelRow& initial_model, std::span<const EventRow> events,
                       const RecordRow* record) {
  MutexLock lock(mutex_);
  StoredRun row;
  row.run_id = run.run_id;
  row.name = run.name;
  RIVULET_ASSIGN_OR_RETURN(row.status, PlaceOf(run.status, kRunStates, "status of a run"));
  row.reason = run.reason;
  row.config = run.config;
  RIVULET_ASSIGN_OR_RETURN(row.plan_digest, Digest::FromHex(run.plan_digest));
  row.seed = static_cast<int64_t>(run.seed);
  row.version = run.version;
  row.models = initial_model.path.substr(0, std::max(initial_model.path.rfind('/') + 1, size_t{1}) - 1);
  RIVULET_ASSIGN_OR_RETURN(row.created, UnixMs(run.created_at));
  RIVULET_ASSIGN_OR_RETURN(row.started, UnixMsOrNull(run.started_at));
  RIVULET_ASSIGN_OR_RETURN(row.finished, UnixMsOrNull(run.finished_at));

  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  const auto write = [&]() REQUIRES(mutex_) -> Status {
    RIVULET_RETURN_IF_ERROR(Insert(*db_, row));
    const int64_t key = db_->last_row();
    RIVULET_RETURN_IF_ERROR(WriteConfigKeys(*db_, key, run.config));
    RIVULET_RETURN_IF_ERROR(InsertModel(key, initial_model));
    if (record != nullptr) RIVULET_RETURN_IF_ERROR(InsertFirstRecord(key, run, *record));
    RIVULET_RETURN_IF_ERROR(InsertEvents(events));
    return transaction->Commit();
  };
  const Status status = write();
  if (!status.ok()) run_keys_.erase(run.run_id);  // its events may have cached a key that was rolled back
  return status;
}

Status History::AddForeignRun(const RunRow& run, std::span<const RunKeyRow> keys, std::span<const MetricRow> metrics) {
  MutexLock lock(mutex_);
  StoredRun row{.run_id = run.run_id, .name = run.name, .reason = run.reason, .version = run.version};
  RIVULET_ASSIGN_OR_RETURN(row.status, PlaceOf(run.status, kRunStates, "status of a run"));
  RIVULET_ASSIGN_OR_RETURN(row.created, UnixMs(run.created_at));
  row.started = row.created;
  RIVULET_ASSIGN_OR_RETURN(row.finished, UnixMs(run.finished_at));
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  bool known = false;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT 1 FROM run WHERE run_id = ?", {run.run_id}, [&](const SqlRow&) { known = true; }));
  if (known) return AlreadyExists("the history '{}' has a run '{}' already", path_, run.run_id);
  RIVULET_RETURN_IF_ERROR(Insert(*db_, row));
  const int64_t key = db_->last_row();
  for (const RunKeyRow& told : keys)
    RIVULET_RETURN_IF_ERROR(Insert(*db_, StoredKey{.run = key, .key = told.key, .value = told.value}));
  for (const MetricRow& metric : metrics) {
    RIVULET_RETURN_IF_ERROR(
        Insert(*db_, StoredMetric{.run = key, .round = metric.round, .name = metric.name, .value = metric.value}));
  }
  return transaction->Commit();
}

Status History::ReopenRun(const RunRow& run, std::span<const EventRow> events, const RecordRow* record) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(const int64_t key, RunKey(run.run_id));
  RIVULET_ASSIGN_OR_RETURN(const int64_t running, PlaceOf("running", kRunStates, "status of a run"));
  RIVULET_ASSIGN_OR_RETURN(const Digest plan_digest, Digest::FromHex(run.plan_digest));
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  RIVULET_RETURN_IF_ERROR(db_->Run(
      "UPDATE run SET status = ?, reason = NULL, config = ?, version = ?, models = ?, plan_digest = ?, "
      "finished = NULL WHERE run = ?",
      {running, run.config, run.version, ModelsFolder(real_path_, run.run_id), SqlBlob{plan_digest.AsBytes()}, key}));
  if (record != nullptr) RIVULET_RETURN_IF_ERROR(InsertFirstRecord(key, run, *record));
  RIVULET_RETURN_IF_ERROR(WriteConfigKeys(*db_, key, run.config));
  RIVULET_RETURN_IF_ERROR(InsertEvents(events));
  return transaction->Commit();
}

Status History::EndRun(const std::string& run_id, const std::string& status, const std::string& reason,
                       const std::string& at, std::span<const EventRow> events) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(const int64_t key, RunKey(run_id));
  RIVULET_ASSIGN_OR_RETURN(const int64_t state, PlaceOf(status, kRunStates, "status of a run"));
  RIVULET_ASSIGN_OR_RETURN(const int64_t finished, UnixMs(at));
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  RIVULET_RETURN_IF_ERROR(db_->Run("UPDATE run SET status = ?, reason = ?, finished = ? WHERE run = ?",
                                   {state, TextOrNull(reason), finished, key}));
  RIVULET_RETURN_IF_ERROR(InsertEvents(events));
  return transaction->Commit();
}

// The client may be known from another run of this history; only its membership in this run is new.
StatusOr<int64_t> History::AddMember(int64_t run, const RunClient& client, int64_t at) {
  RIVULET_ASSIGN_OR_RETURN(
      Statement * insert_client,
      db_->Prepare("INSERT INTO client (client_id, status, first_seen, last_seen) VALUES (?1, 0, ?2, ?2) ON CONFLICT "
                   "(client_id) DO UPDATE SET first_seen = coalesce(first_seen, excluded.first_seen), last_seen = "
                   "excluded.last_seen, status = CASE status WHEN 3 THEN 0 ELSE status END RETURNING client"));
  static const std::string membership = fmt::format("{} ON CONFLICT DO NOTHING", InsertSql<StoredMembership>());
  RIVULET_ASSIGN_OR_RETURN(Statement * insert_membership, db_->Prepare(membership));
  StoredMembership row{.run = run, .from_round = client.from_round, .from_attempt = client.from_attempt};
  RIVULET_RETURN_IF_ERROR(insert_client->Query(std::initializer_list<SqlValue>{client.client_id, at},
                                               [&](const SqlRow& key) { row.client = key.Int(0); }));
  RIVULET_RETURN_IF_ERROR(Insert(*insert_membership, row));
  return row.client;
}

Status History::AddClients(const std::string& run_id, std::span<const RunClient> clients, const std::string& at) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(const int64_t run, RunKey(run_id));
  RIVULET_ASSIGN_OR_RETURN(const int64_t now, UnixMs(at));
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  for (const RunClient& client : clients) RIVULET_RETURN_IF_ERROR(AddMember(run, client, now).status());
  return transaction->Commit();
}

// Several tasks per INSERT, with totals for each client. Sorted by keys, as in the index of an attempt's tasks, so each
// one is appended there.
Status History::InsertTasks(int64_t run, int64_t attempt_key, const AttemptRecord& record, Changes& changes) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t kind, PlaceOf(record.kind, kTaskKinds, "kind of a task"));
  static const std::string one_sql = InsertSql<StoredTask>(), many_sql = InsertSql<StoredTask>(kTasksAtOnce);
  RIVULET_ASSIGN_OR_RETURN(Statement * insert_one, db_->Prepare(one_sql));
  RIVULET_ASSIGN_OR_RETURN(Statement * insert_many, db_->Prepare(many_sql));
  RIVULET_ASSIGN_OR_RETURN(const int64_t now, UnixMs(record.round.finished_at));
  const std::string stem = TaskStem(record.round, kind);
  std::vector<std::pair<int64_t, const ClientRoundRow*>> tasks;  // with the client's key
  tasks.reserve(record.tasks.size());
  for (const ClientRoundRow& task : record.tasks) {
    if (task.run_id != record.round.run_id || task.round != record.round.round ||
        task.attempt != record.round.attempt || task.kind != record.kind) {
      return InvalidArgument("task '{}' is not of attempt {} at round {} of run '{}'", task.task_id,
                             record.round.attempt, record.round.round, record.round.run_id);
    }
    StatusOr<int64_t> client = ClientKey(task.client_id);
    if (absl::IsNotFound(client.status())) {
      client = AddMember(run, {task.client_id, record.round.round, record.round.attempt}, now);
    }
    RIVULET_RETURN_IF_ERROR(client.status());
    tasks.emplace_back(*client, &task);
  }
  std::ranges::stable_sort(tasks, {}, [](const auto& task) { return task.first; });
  auto& totals_of_run = changes.totals[run];
  std::vector<StoredTask> rows;  // not inserted yet
  rows.reserve(kTasksAtOnce);
  for (const auto& [client, at] : tasks) {
    const ClientRoundRow& task = *at;
    StoredTask& row = rows.emplace_back();
    row.attempt_key = attempt_key;
    row.client = client;
    row.ordinal = OrdinalIn(task, stem);
    if (!row.ordinal) row.task_id = task.task_id;
    RIVULET_ASSIGN_OR_RETURN(row.status, PlaceOf(task.status, kTaskStates, "status of a task"));
    row.base_round = task.base_round;
    if (task.committed_round != task.round) row.into_round = task.committed_round;
    if (!task.parent_id.empty()) {
      RIVULET_ASSIGN_OR_RETURN(row.parent, ParentKey(task.parent_id));
    }
    row.result() = task;
    if (row.status == kFolded && task.weight == task.examples) row.weight.reset();
    row.error = task.error;

    Changes::Totals& totals = totals_of_run[row.client];
    if (totals.member.client_id.empty()) {
      totals.member = {task.client_id, task.round, task.attempt};
      totals.at = now;
    }
    ++totals.ends[static_cast<size_t>(row.status)];
    if (row.status == kFolded) totals.examples += row.examples.value_or(0);
    totals.train_seconds += row.train_seconds.value_or(0);
    totals.timed += int64_t{row.train_seconds.has_value()};

    if (rows.size() < kTasksAtOnce) continue;
    RIVULET_RETURN_IF_ERROR(Insert(*insert_many, std::span<const StoredTask>(rows)));
    rows.clear();
  }
  for (const StoredTask& row : rows) RIVULET_RETURN_IF_ERROR(Insert(*insert_one, row));
  return absl::OkStatus();
}

// Once per client, for all its tasks, in the order of the rows. A client becomes a member of the run with its first
// task: of a million clients that may be drawn, those that never are have no row.
Status History::ApplyChanges(const Changes& changes) {
  RIVULET_ASSIGN_OR_RETURN(
      Statement * add_up,
      db_->Prepare("UPDATE membership SET tasks = tasks + ?, folded = folded + ?, refused = refused + ?, "
                   "dropped = dropped + ?, failed = failed + ?, examples = examples + ?, "
                   "train_seconds = train_seconds + ?, timed = timed + ? WHERE run = ? AND client = ?"));
  for (const auto& [run, clients] : changes.totals) {
    for (const auto& [client, totals] : InOrder(clients)) {
      const auto& [folded, refused, dropped, failed] = totals->ends;
      const int64_t tasks = folded + refused + dropped + failed;
      const auto add = [&, run = run, client = client, totals = totals, folded = folded, refused = refused,
                        dropped = dropped, failed = failed] {
        return add_up->Run({tasks, folded, refused, dropped, failed, totals->examples, totals->train_seconds,
                            totals->timed, run, client});
      };
      RIVULET_RETURN_IF_ERROR(add());
      if (db_->changes() == 0) {
        RIVULET_RETURN_IF_ERROR(AddMember(run, totals->member, totals->at).status());
        RIVULET_RETURN_IF_ERROR(add());
      }
    }
  }
  RIVULET_ASSIGN_OR_RETURN(Statement * see, db_->Prepare("UPDATE client SET last_seen = ? WHERE client = ?"));
  for (const auto& [client, at] : InOrder(changes.seen)) RIVULET_RETURN_IF_ERROR(see->Run({*at, client}));
  return absl::OkStatus();
}

// Metrics that the rows of a round and its tasks contain are not written again.
Status History::InsertMetrics(int64_t run, const AttemptRecord& record) {
  const bool committed = record.kind == "train" && record.round.status == "committed";
  std::unordered_map<std::string_view, double> losses;
  if (committed && std::ranges::any_of(record.metrics, [](const auto& metric) { return metric.scope == "client"; })) {
    for (const ClientRoundRow& task : record.tasks) {
      if (task.status == "folded" && task.train_loss) losses.emplace(task.client_id, *task.train_loss);
    }
  }
  for (const MetricRow& metric : record.metrics) {
    StoredMetric row;
    row.run = run;
    row.round = metric.round;
    RIVULET_ASSIGN_OR_RETURN(row.scope, PlaceOf(metric.scope, kScopes, "scope"));
    if (committed && metric.name == kTrainLoss) {
      std::optional<double> known;
      if (metric.scope == "federated") known = record.round.train_loss;
      if (const auto loss = losses.find(metric.client_id); metric.scope == "client" && loss != losses.end()) {
        known = loss->second;
      }
      if (known && known == metric.value) continue;
      if (known) {
        return InvalidArgument("round {} of run '{}' has {} twice, as {} and as {}", metric.round, metric.run_id,
                               metric.name, *known, metric.value.value_or(0));
      }
    }
    if (!metric.client_id.empty()) {
      RIVULET_ASSIGN_OR_RETURN(row.client, ClientKey(metric.client_id));
    }
    row.name = metric.name;
    row.right = metric.right;
    row.total = metric.total;
    if (!metric.right || !metric.total) row.value = metric.value;
    RIVULET_RETURN_IF_ERROR(Insert(*db_, row));
  }
  return absl::OkStatus();
}

// Inserts an attempt's round, tasks, metrics, model and events. The end of the run is written with its last round, so
// no crash leaves a complete run with the status "running".
Status History::InsertAttempt(const AttemptRecord& attempt, Changes& changes) {
  const RoundRow& round = attempt.round;
  RIVULET_ASSIGN_OR_RETURN(const int64_t run, RunKey(round.run_id));
  StoredAttempt row;
  row.run = run;
  row.round = round.round;
  row.attempt = round.attempt;
  RIVULET_ASSIGN_OR_RETURN(row.kind, PlaceOf(attempt.kind, kTaskKinds, "kind of a task"));
  RIVULET_ASSIGN_OR_RETURN(row.status, PlaceOf(round.status, kAttemptStates, "status of an attempt"));
  row.reason = round.reason;
  RIVULET_ASSIGN_OR_RETURN(row.started, UnixMs(round.started_at));
  RIVULET_ASSIGN_OR_RETURN(row.finished, UnixMs(round.finished_at));
  row.result() = round;
  RIVULET_RETURN_IF_ERROR(Insert(*db_, row));
  RIVULET_RETURN_IF_ERROR(InsertTasks(run, db_->last_row(), attempt, changes));
  RIVULET_RETURN_IF_ERROR(InsertMetrics(run, attempt));
  // The path is removed before its file: in between, the row names no file, which is true; in the other order it would
  // name a missing one.
  for (const int64_t forgotten : attempt.forget_models) {
    RIVULET_RETURN_IF_ERROR(db_->Run("UPDATE model SET file = NULL WHERE run = ? AND round = ?", {run, forgotten}));
  }
  if (attempt.model) RIVULET_RETURN_IF_ERROR(InsertModel(run, *attempt.model));
  if (attempt.record) RIVULET_RETURN_IF_ERROR(InsertRecord(run, *attempt.record));
  for (const BlobRow& blob : attempt.blobs) RIVULET_RETURN_IF_ERROR(InsertBlob(run, round.round, blob));
  RIVULET_RETURN_IF_ERROR(InsertEvents(attempt.events));
  for (const auto& [client_id, at] : attempt.seen) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t client, ClientKey(client_id));
    changes.seen[client] = at;
  }
  if (attempt.finishes_run) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t finished, PlaceOf("finished", kRunStates, "status of a run"));
    RIVULET_RETURN_IF_ERROR(db_->Run("UPDATE run SET status = ?, reason = NULL, finished = ? WHERE run = ?",
                                     {finished, row.finished, run}));
  }
  return absl::OkStatus();
}

// They appear together or not at all, so no reader sees half a round.
Status History::AddAttempts(std::span<const AttemptRecord> attempts) {
  return AddAttempts([left = attempts]() mutable -> const AttemptRecord* {
    if (left.empty()) return nullptr;
    const AttemptRecord& first = left.front();
    left = left.subspan(1);
    return &first;
  });
}

Status History::AddAttempts(const std::function<const AttemptRecord*()>& next) {
  MutexLock lock(mutex_);
  // Keys read in a transaction that is rolled back may get another meaning later.
  struct ForgetUnlessCommitted {
    std::unordered_map<std::string, int64_t>& keys;
    bool committed = false;
    ~ForgetUnlessCommitted() {
      if (!committed) keys.clear();
    }
  } clients{client_keys_};
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  Changes changes;
  while (const AttemptRecord* attempt = next()) RIVULET_RETURN_IF_ERROR(InsertAttempt(*attempt, changes));
  RIVULET_RETURN_IF_ERROR(ApplyChanges(changes));
  const Status status = transaction->Commit();
  clients.committed = status.ok();
  return status;
}

// -1 from SQLite: there is no log, or another process is checkpointing.
StatusOr<CheckpointProgress> History::BringOver() {
  MutexLock lock(mutex_);
  CheckpointProgress now;
  RIVULET_RETURN_IF_ERROR(db_->Query("PRAGMA wal_checkpoint(PASSIVE)", {}, [&](const SqlRow& row) {
    now.log_pages = row.Int(1);
    now.pages = row.Int(0) == 0 && row.Int(1) >= 0 ? row.Int(2) : -1;
  }));
  if (now.whole()) return now;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("PRAGMA page_size", {}, [&](const SqlRow& row) { now.log_bytes = now.log_pages * row.Int(0); }));
  return now;
}

// Totals are recomputed in one pass over the remaining rows, since most of a run may be removed.
Status History::GoBack(const std::string& run_id, int64_t round, std::span<const EventRow> events) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(const int64_t run, RunKey(run_id));
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  RIVULET_RETURN_IF_ERROR(
      db_->Run("DELETE FROM task WHERE attempt_key IN (SELECT attempt_key FROM attempt WHERE run = ? AND round > ?)",
               {run, round}));
  for (const char* table : {"attempt", "metric", "model", "blob", "record"}) {
    RIVULET_RETURN_IF_ERROR(db_->Run(fmt::format("DELETE FROM {} WHERE run = ? AND round > ?", table), {run, round}));
  }
  RIVULET_RETURN_IF_ERROR(
      db_->Run("UPDATE membership SET tasks = 0, folded = 0, refused = 0, dropped = 0, failed = 0, examples = 0, "
               "train_seconds = 0, timed = 0 WHERE run = ?",
               {run}));
  RIVULET_RETURN_IF_ERROR(
      db_->Run("UPDATE membership SET tasks = s.tasks, folded = s.folded, refused = s.refused, dropped = s.dropped, "
               "failed = s.failed, examples = s.examples, train_seconds = s.train_seconds, timed = s.timed FROM "
               "(SELECT t.client, count(*) AS tasks, sum(t.status = 0) AS folded, sum(t.status = 1) AS refused, "
               "sum(t.status = 2) AS dropped, sum(t.status = 3) AS failed, coalesce(sum(iif(t.status = 0, t.examples, "
               "0)), 0) AS examples, coalesce(sum(t.train_seconds), 0) AS train_seconds, count(t.train_seconds) AS "
               "timed FROM attempt a JOIN task t ON t.attempt_key = a.attempt_key WHERE a.run = ?1 GROUP BY t.client) "
               "s WHERE membership.run = ?1 AND membership.client = s.client",
               {run}));
  RIVULET_RETURN_IF_ERROR(InsertEvents(events));
  return transaction->Commit();
}

// Referring rows are removed first.
Status History::RemoveRun(const std::string& run_id) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(const int64_t run, RunKey(run_id));
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  RIVULET_RETURN_IF_ERROR(
      db_->Run("DELETE FROM task WHERE attempt_key IN (SELECT attempt_key FROM attempt WHERE run = ?)", {run}));
  for (const char* table :
       {"attempt", "membership", "metric", "model", "blob", "record", "event", "note", "tag", "run_key", "run"})
    RIVULET_RETURN_IF_ERROR(db_->Run(fmt::format("DELETE FROM {} WHERE run = ?", table), {run}));
  run_keys_.erase(run_id);
  return transaction->Commit();
}

Status History::InsertBlob(int64_t run, int64_t round, const BlobRow& blob) {
  RIVULET_RETURN_IF_ERROR(
      db_->Run("DELETE FROM blob WHERE run = ? AND name = ? AND round <= ?", {run, blob.name, round}));
  return Insert(*db_, StoredBlob{.run = run, .round = round, .name = blob.name, .bytes = {blob.bytes}});
}

Status History::PutBlob(const std::string& run_id, int64_t round, const BlobRow& blob) {
  MutexLock lock(mutex_);
  if (db_ == nullptr) return FailedPrecondition("the history '{}' is closed", path_);
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  RIVULET_ASSIGN_OR_RETURN(const int64_t run, RunKey(run_id));
  RIVULET_RETURN_IF_ERROR(InsertBlob(run, round, blob));
  return transaction->Commit();
}

Status History::AddEvents(std::span<const EventRow> events) {
  MutexLock lock(mutex_);
  if (db_ == nullptr) return FailedPrecondition("the history '{}' is closed", path_);
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  RIVULET_RETURN_IF_ERROR(InsertEvents(events));
  return transaction->Commit();
}

Status History::AddTag(const std::string& run_id, const std::string& tag) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(const int64_t run, RunKey(run_id));
  return db_->Run("INSERT INTO tag (run, tag) VALUES (?, ?) ON CONFLICT DO NOTHING", {run, tag});
}

Status History::AddNote(const std::string& run_id, const std::string& at, const std::string& text) {
  MutexLock lock(mutex_);
  StoredNote note;
  RIVULET_ASSIGN_OR_RETURN(note.run, RunKey(run_id));
  RIVULET_ASSIGN_OR_RETURN(note.at, UnixMs(at));
  note.text = text;
  return Insert(*db_, note);
}

}  // namespace rivulet
