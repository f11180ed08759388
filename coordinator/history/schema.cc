#include "coordinator/history/schema.h"

#include <span>

#include "coordinator/history/row_columns.h"
#include "coordinator/history/tables.h"

namespace rivulet {
namespace {

// Tasks of an attempt, and of a client in it, are found by the table's UNIQUE index, to which a round's tasks are
// appended. A client's tasks are searched in each attempt of its run, 2 µs per attempt. An index of clients would find
// them at once, but each task of a round would go to another of its pages. After some hundred rounds of many clients
// these exceed the cache, and writing a round takes three times as long. Metrics' keys begin with the usual query, one
// name of a run.
constexpr const char* kIndices = R"sql(
CREATE UNIQUE INDEX task_by_id ON task (task_id) WHERE task_id IS NOT NULL;
CREATE UNIQUE INDEX metric_key ON metric (run, scope, name, round, coalesce(client, 0));
CREATE INDEX note_by_run ON note (run, at);
CREATE INDEX event_by_run ON event (run, at);
)sql";

// "CASE column WHEN 0 THEN 'running' … END"
std::string Word(std::string_view column, std::span<const std::string_view> words) {
  std::string sql = fmt::format("CASE {}", column);
  for (size_t i = 0; i < words.size(); ++i) sql += fmt::format(" WHEN {} THEN '{}'", i, words[i]);
  return sql + " END";
}
std::string Time(std::string_view column) {
  return fmt::format("strftime('%Y-%m-%dT%H:%M:%fZ', {} / 1000.0, 'unixepoch')", column);
}
// hex() of NULL is ''.
std::string Hex(std::string_view column) { return fmt::format("nullif(lower(hex({})), '')", column); }

constexpr std::string_view kVersionOfTask = "coalesce(t.into_round, a.round)";
constexpr std::string_view kMetricValue = "coalesce(m.value, CAST(m.right AS REAL) / m.total)";

std::string MetricsOf(int64_t scope) {
  const bool of_clients = kScopes[static_cast<size_t>(scope)] == "client";
  return fmt::format(
      "SELECT r.run_id, m.round, '{}' AS scope, {} AS client_id, m.name, {} AS value, m.right, m.total\n"
      "FROM metric m JOIN run r ON r.run = m.run{} WHERE m.scope = {}\nUNION ALL\n",
      kScopes[static_cast<size_t>(scope)], of_clients ? "c.client_id" : "NULL", kMetricValue,
      of_clients ? " JOIN client c ON c.client = m.client" : "", scope);
}

// Columns of a result as in a view, one after the other.
template <const auto& kList, auto kKeep>
std::string Listed(std::string (*expression)(std::string_view name)) {
  std::string list;
  std::apply(
      [&](const auto&... column) {
        ((list += fmt::format("{}{}", list.empty() ? "" : ", ", expression(column.name))), ...);
      },
      SqlColumnsOf<kList, kKeep>());
  return list;
}
std::string OfRound(std::string_view name) { return fmt::format("a.{}", name); }
std::string OfTask(std::string_view name) {
  if (name == "update_digest") return fmt::format("{} AS update_digest", Hex("t.update_digest"));
  if (name == "weight") {
    return fmt::format("CASE t.status WHEN {} THEN coalesce(t.weight, t.examples) ELSE t.weight END AS weight",
                       kFolded);
  }
  return fmt::format("t.{}", name);
}

std::string PointersSql() {
  return CreateTableSql<StoredPointer>() + "CREATE INDEX pointer_by_name ON pointer (name, label);\n";
}

// A quoted name from a file, which may contain anything.
std::string Quoted(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

}  // namespace

Status Migrate(Database& db, int64_t version) {
  std::string sql;
  RIVULET_RETURN_IF_ERROR(db.Query("SELECT name FROM sqlite_master WHERE type = 'view'", {}, [&](const SqlRow& row) {
    sql += fmt::format("DROP VIEW {};\n", Quoted(row.Text(0)));
  }));
  if (version == 3) sql += "DROP INDEX task_by_client;\n";
  return db.Script(sql + AddColumnsSql<StoredAttempt>(version) + AddColumnsSql<StoredTask>(version) +
                   (version < SqlTable<StoredPointer>::kSince ? PointersSql() : "") +
                   (version < SqlTable<StoredRecord>::kSince ? CreateTableSql<StoredRecord>() : "") + ViewsSql());
}

std::string TablesSql(int64_t version) {
  return CreateTableSql<StoredRun>() + CreateTableSql<StoredKey>() + CreateTableSql<StoredTag>() +
         CreateTableSql<StoredNote>() + CreateTableSql<StoredClient>() + CreateTableSql<StoredMembership>() +
         CreateTableSql<StoredAttempt>(version) + CreateTableSql<StoredTask>(version) + CreateTableSql<StoredMetric>() +
         CreateTableSql<StoredModel>() + CreateTableSql<StoredBlob>() + CreateTableSql<StoredEvent>() +
         CreateTableSql<StoredAudit>() + kIndices + (version >= SqlTable<StoredPointer>::kSince ? PointersSql() : "") +
         (version >= SqlTable<StoredRecord>::kSince ? CreateTableSql<StoredRecord>() : "");
}

// Joins use integer keys, and every expression for filters or sorting is a plain column or a constant of one arm. So
// SQLite goes from run_id, round or client_id straight to the rows, even with a million of them. An arm of `metrics`
// whose scope or name is not requested costs nothing.
std::string ViewsSql() {
  std::string sql;
  const auto view = [&](std::string_view name, const std::string& select) {
    sql += fmt::format("CREATE VIEW {} AS\n{};\n", name, select);
  };
  view("runs",
       fmt::format("SELECT run_id, name, {} AS status, reason, config, {} AS plan_digest, seed, version,\n"
                   "       {} AS created_at, {} AS started_at, {} AS finished_at, run AS rowid\nFROM run",
                   Word("status", kRunStates), Hex("plan_digest"), Time("created"), Time("started"), Time("finished")));
  view("run_keys", "SELECT r.run_id, k.key, k.value\nFROM run_key k JOIN run r ON r.run = k.run");
  view("tags", "SELECT r.run_id, t.tag\nFROM tag t JOIN run r ON r.run = t.run");
  view("notes",
       fmt::format("SELECT r.run_id, {} AS at, n.text, n.rowid AS rowid\nFROM note n JOIN run r ON r.run = n.run",
                   Time("n.at")));
  view("clients", fmt::format("SELECT client_id, fingerprint, {} AS status, {} AS first_seen_at, {} AS last_seen_at\n"
                              "FROM client WHERE first_seen IS NOT NULL OR status <> 0",
                              Word("status", kClientStates), Time("first_seen"), Time("last_seen")));
  view("run_clients",
       "SELECT r.run_id, c.client_id, m.from_round, m.from_attempt\n"
       "FROM membership m JOIN run r ON r.run = m.run JOIN client c ON c.client = m.client");
  view("rounds",
       fmt::format("SELECT r.run_id, a.round, a.attempt, {} AS status, a.reason, {} AS started_at, {} AS finished_at,\n"
                   "       a.folded + a.refused + a.dropped + a.failed AS selected, a.folded + a.refused AS reported,\n"
                   "       {},\n"
                   "       CASE a.status WHEN {} THEN\n"
                   "         (SELECT {} FROM model m WHERE m.run = a.run AND m.round = a.round) END AS model_digest\n"
                   "FROM attempt a JOIN run r ON r.run = a.run WHERE a.kind = {}",
                   Word("a.status", kAttemptStates), Time("a.started"), Time("a.finished"),
                   Listed<kRoundColumns, kStored>(OfRound), kCommitted, Hex("m.digest"), kTrain));
  const std::string folded = fmt::format("t.status = {} AND a.kind = {}", kFolded, kTrain);
  const std::string tasks =
      "FROM task t JOIN attempt a ON a.attempt_key = t.attempt_key JOIN run r ON r.run = a.run\n"
      "  JOIN client c ON c.client = t.client";
  view("client_rounds",
       fmt::format(
           "SELECT coalesce(t.task_id, r.run_id || '-' || {} || a.round || '-a' || a.attempt || '-' || c.client_id || "
           "'-'\n"
           "         || t.ordinal) AS task_id,\n"
           "       r.run_id, a.round, a.attempt, c.client_id, {} AS kind, {} AS status, t.base_round,\n"
           "       CASE WHEN {} THEN {} END AS committed_round,\n"
           "       CASE WHEN {} THEN {} - 1 - t.base_round END AS staleness,\n"
           "       (SELECT p.client_id FROM client p WHERE p.client = t.parent) AS parent_id,\n"
           "       {}, t.error,\n"
           "       t.task AS rowid\n{}",
           Word("a.kind", kTaskLetters), Word("a.kind", kTaskKinds), Word("t.status", kTaskStates), folded,
           kVersionOfTask, folded, kVersionOfTask, Listed<kTaskColumns, kStored>(OfTask), tasks));
  // A private run's spend is in its attempts' rows.
  const auto spent = [](std::string_view name, std::string_view column) {
    return fmt::format(
        "SELECT r.run_id, a.round, 'federated', NULL, '{}', a.{}, NULL, NULL\n"
        "FROM attempt a JOIN run r ON r.run = a.run\n"
        "WHERE a.kind = {} AND a.status = {} AND a.{} IS NOT NULL\nUNION ALL\n",
        name, column, kTrain, kCommitted, column);
  };
  view("metrics", MetricsOf(0) + MetricsOf(1) + MetricsOf(2) + spent("privacy/epsilon", "epsilon") +
                      spent("privacy/participant_epsilon", "participant_epsilon") +
                      fmt::format("SELECT r.run_id, a.round, 'federated', NULL, '{}', a.train_loss, NULL, NULL\n"
                                  "FROM attempt a JOIN run r ON r.run = a.run\n"
                                  "WHERE a.kind = {} AND a.status = {} AND a.train_loss IS NOT NULL\nUNION ALL\n"
                                  "SELECT r.run_id, {}, 'client', c.client_id, '{}', t.train_loss, NULL, NULL\n{}\n"
                                  "WHERE {} AND t.train_loss IS NOT NULL",
                                  kTrainLoss, kTrain, kCommitted, kVersionOfTask, kTrainLoss, tasks, folded));
  view("models",
       "SELECT r.run_id, m.round, lower(hex(m.digest)) AS digest,\n"
       "       CASE WHEN instr(m.file, '/') > 0 OR r.models = '' THEN m.file ELSE r.models || '/' || m.file END AS "
       "path,\n"
       "       m.bytes, m.parameters\nFROM model m JOIN run r ON r.run = m.run");
  view("records", fmt::format("SELECT r.run_id, c.round, {} AS digest, c.record, {} AS signature, c.certificate\n"
                              "FROM record c JOIN run r ON r.run = c.run",
                              Hex("c.digest"), Hex("c.signature")));
  view("events", fmt::format("SELECT r.run_id, e.round, {} AS at, {} AS level, e.source, e.message, e.event AS rowid\n"
                             "FROM event e LEFT JOIN run r ON r.run = e.run",
                             Time("e.at"), Word("e.level", kLevels)));
  view("audit", fmt::format("SELECT {} AS at, operator_id, serial, {} AS action, run_id, client_id, detail,\n"
                            "       audit AS rowid\nFROM audit_entry",
                            Time("at"), Word("action", kAuditActions)));

  view("pointers",
       fmt::format("SELECT name, label, run_id, round, {} AS digest, version, share, {} AS at, author, note,\n"
                   "       rolled_back, pointer AS rowid\nFROM pointer",
                   Hex("digest"), Time("at")));

  const auto central = [](std::string_view name) {
    return fmt::format(
        "(SELECT {} FROM metric m WHERE m.run = a.run AND m.scope = 0 AND m.name = '{}' AND m.round = a.round)",
        kMetricValue, name);
  };
  view("round_summary",
       fmt::format("SELECT r.run_id, r.name, a.round, a.attempt AS attempts,\n"
                   "       a.folded + a.refused + a.dropped + a.failed AS selected, {},\n"
                   "       {} AS test_accuracy,\n       {} AS test_loss,\n       {},\n"
                   "       (SELECT {} FROM model m WHERE m.run = a.run AND m.round = a.round) AS model_digest\n"
                   "FROM attempt a JOIN run r ON r.run = a.run\nWHERE a.kind = {} AND a.status = {}\n"
                   "ORDER BY r.run_id, a.round",
                   Listed<kRoundColumns, kBeforeMetrics>(OfRound), central("test/accuracy"), central("test/loss"),
                   Listed<kRoundColumns, kBehindMetrics>(OfRound), Hex("m.digest"), kTrain, kCommitted));
  view("client_reliability",
       fmt::format("SELECT r.run_id, c.client_id, m.tasks, m.folded, m.refused, m.dropped, m.failed,\n"
                   "       CAST(m.folded AS REAL) / m.tasks AS reliability, m.examples,\n"
                   "       m.train_seconds / nullif(m.timed, 0) AS mean_train_seconds, {} AS last_seen_at\n"
                   "FROM membership m JOIN run r ON r.run = m.run JOIN client c ON c.client = m.client\n"
                   "WHERE m.tasks > 0\nORDER BY r.run_id, c.client_id",
                   Time("c.last_seen")));
  view(
      "run_leaderboard",
      fmt::format(
          "WITH accuracy AS (\n"
          "  SELECT m.run, m.round, {0} AS value,\n"
          "         row_number() OVER (PARTITION BY m.run ORDER BY {0} DESC, m.round) AS best,\n"
          "         row_number() OVER (PARTITION BY m.run ORDER BY m.round DESC) AS latest\n"
          "  FROM run j JOIN metric m ON m.run = j.run AND m.scope = 0 AND m.name = CASE WHEN EXISTS (\n"
          "    SELECT 1 FROM metric v WHERE v.run = j.run AND v.scope = 0 AND v.name = 'validation/accuracy')\n"
          "    THEN 'validation/accuracy' ELSE 'test/accuracy' END)\n"
          "SELECT r.run_id, r.name, {1} AS status, r.seed,\n"
          "       (SELECT count(*) FROM attempt a WHERE a.run = r.run AND a.kind = {2} AND a.status = {3}) AS rounds,\n"
          "       b.value AS best_accuracy, b.round AS best_round, l.value AS last_accuracy, l.round AS last_round,\n"
          "       (SELECT sum(a.train_seconds + a.aggregate_seconds + a.evaluate_seconds)\n"
          "        FROM attempt a WHERE a.run = r.run AND a.kind = {2}) AS seconds,\n"
          "       {4} AS created_at\nFROM run r\n"
          "LEFT JOIN accuracy b ON b.run = r.run AND b.best = 1\n"
          "LEFT JOIN accuracy l ON l.run = r.run AND l.latest = 1\n"
          "ORDER BY best_accuracy DESC, best_round",
          kMetricValue, Word("r.status", kRunStates), kTrain, kCommitted, Time("r.created")));
  return sql;
}

}  // namespace rivulet
