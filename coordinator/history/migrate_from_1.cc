// Version 1 (program 0.1.0) had the tables under the names that are views now, with texts for keys, digests and times.
#include <span>
#include <string>
#include <vector>

#include "coordinator/history/config_keys.h"
#include "coordinator/history/schema.h"
#include "coordinator/history/tables.h"

namespace rivulet {
namespace {

// The place of a text in `words`, as SQL.
std::string Place(std::string_view column, std::span<const std::string_view> words) {
  std::string sql = fmt::format("CASE {}", column);
  for (size_t i = 0; i < words.size(); ++i) sql += fmt::format(" WHEN '{}' THEN {}", words[i], i);
  return sql + " END";
}

// Milliseconds of "2025-01-31T14:25:30.123Z"; NULL of NULL.
std::string Ms(std::string_view column) {
  return fmt::format("(CAST(strftime('%s', {0}) AS INTEGER) * 1000 + CAST(substr({0}, 21, 3) AS INTEGER))", column);
}

}  // namespace

Status MigrateFrom1(Database& db) {
  db.DefineBytesOfHex();
  std::string sql = "DROP VIEW round_summary; DROP VIEW client_reliability; DROP VIEW run_leaderboard;\n";
  for (const char* table :
       {"runs", "rounds", "clients", "run_clients", "client_rounds", "metrics", "models", "events"}) {
    sql += fmt::format("ALTER TABLE {0} RENAME TO {0}_1;\n", table);
  }
  sql += TablesSql();

  // Every model of a run lies in one folder: what stands before the last '/' of any path, which is empty where all are
  // gone.
  sql += fmt::format(
      "INSERT INTO run SELECT NULL, run_id, name, {}, reason, config, bytes_of_hex(plan_digest), seed, version,\n"
      "  coalesce((SELECT substr(rtrim(path, replace(path, '/', '')), 1, length(rtrim(path, replace(path, '/', ''))) - "
      "1)\n"
      "            FROM models_1 m WHERE m.run_id = runs_1.run_id AND path IS NOT NULL ORDER BY round DESC LIMIT 1), "
      "''),\n"
      "  {}, {}, {} FROM runs_1 ORDER BY rowid;\n",
      Place("status", kRunStates), Ms("created_at"), Ms("started_at"), Ms("finished_at"));
  sql += fmt::format(
      "INSERT INTO client SELECT NULL, client_id, fingerprint, 0, {}, {} FROM clients_1 ORDER BY rowid;\n"
      "INSERT OR IGNORE INTO client (client_id, status) SELECT DISTINCT parent_id, 0 FROM client_rounds_1\n"
      "  WHERE parent_id IS NOT NULL ORDER BY parent_id;\n",
      Ms("first_seen_at"), Ms("last_seen_at"));
  sql += fmt::format(
      "INSERT INTO attempt SELECT NULL, r.run, o.round, o.attempt, 0, {}, o.reason, {}, {}, o.folded, o.refused, "
      "o.dropped,\n"
      "  o.failed, o.examples, o.train_loss, o.bytes_down, o.bytes_up, o.train_seconds, o.aggregate_seconds,\n"
      "  o.evaluate_seconds FROM rounds_1 o JOIN run r ON r.run_id = o.run_id ORDER BY o.rowid;\n",
      Place("o.status", kAttemptStates), Ms("o.started_at"), Ms("o.finished_at"));
  // An id that follows from its row is not kept.
  sql += fmt::format(
      "INSERT INTO task SELECT NULL, attempt_key, client, CASE WHEN follows THEN CAST(ordinal AS INTEGER) END, "
      "status,\n"
      "  base_round, CASE WHEN committed_round <> round THEN committed_round END, parent, examples, steps, "
      "train_loss,\n"
      "  update_norm, bytes_of_hex(update_digest), CASE WHEN status <> {} OR weight IS NOT examples THEN weight END, "
      "bytes_down,\n"
      "  bytes_up, wait_seconds, train_seconds, upload_seconds, error, CASE WHEN NOT follows THEN task_id END\n"
      "FROM (SELECT *, task_id = stem || CAST(CAST(ordinal AS INTEGER) AS TEXT) AS follows\n"
      "  FROM (SELECT *, substr(task_id, length(stem) + 1) AS ordinal\n"
      "    FROM (SELECT a.attempt_key, c.client, {} AS status, t.task_id, t.round, t.base_round, t.committed_round,\n"
      "        (SELECT client FROM client p WHERE p.client_id = t.parent_id) AS parent, t.examples, t.steps, "
      "t.train_loss,\n"
      "        t.update_norm, t.update_digest, t.weight, t.bytes_down, t.bytes_up, t.wait_seconds, t.train_seconds,\n"
      "        t.upload_seconds, t.error, t.rowid AS place,\n"
      "        t.run_id || '-r' || t.round || '-a' || t.attempt || '-' || t.client_id || '-' AS stem\n"
      "      FROM client_rounds_1 t JOIN run r ON r.run_id = t.run_id JOIN client c ON c.client_id = t.client_id\n"
      "        JOIN attempt a ON a.run = r.run AND a.round = t.round AND a.attempt = t.attempt)))\n"
      "ORDER BY place;\n",
      kFolded, Place("t.status", kTaskStates));
  sql += fmt::format(
      "INSERT INTO membership SELECT r.run, c.client, o.from_round, o.from_attempt, coalesce(s.tasks, 0),\n"
      "  coalesce(s.folded, 0), coalesce(s.refused, 0), coalesce(s.dropped, 0), coalesce(s.failed, 0),\n"
      "  coalesce(s.examples, 0), coalesce(s.train_seconds, 0.0), coalesce(s.timed, 0)\n"
      "FROM run_clients_1 o JOIN run r ON r.run_id = o.run_id JOIN client c ON c.client_id = o.client_id\n"
      "LEFT JOIN (SELECT a.run, t.client, count(*) AS tasks, sum(t.status = 0) AS folded, sum(t.status = 1) AS "
      "refused,\n"
      "    sum(t.status = 2) AS dropped, sum(t.status = 3) AS failed,\n"
      "    sum(CASE t.status WHEN 0 THEN t.examples END) AS examples, sum(t.train_seconds) AS train_seconds,\n"
      "    count(t.train_seconds) AS timed\n"
      "  FROM task t JOIN attempt a ON a.attempt_key = t.attempt_key GROUP BY a.run, t.client) s\n"
      "  ON s.run = r.run AND s.client = c.client;\n");
  sql += fmt::format(
      "INSERT INTO metric SELECT r.run, m.round, {0}, c.client, m.name, m.value, NULL, NULL\n"
      "FROM metrics_1 m JOIN run r ON r.run_id = m.run_id LEFT JOIN client c ON c.client_id = m.client_id\n"
      "WHERE NOT (m.name = '{1}' AND m.scope = 'federated' AND EXISTS (SELECT 1 FROM rounds_1 o\n"
      "    WHERE o.run_id = m.run_id AND o.round = m.round AND o.status = 'committed' AND o.train_loss = m.value))\n"
      "  AND NOT (m.name = '{1}' AND m.scope = 'client' AND EXISTS (SELECT 1 FROM client_rounds_1 t\n"
      "    WHERE t.run_id = m.run_id AND t.client_id = m.client_id AND t.committed_round = m.round\n"
      "      AND t.train_loss = m.value))\n"
      "ORDER BY m.rowid;\n",
      Place("m.scope", kScopes), kTrainLoss);
  sql += fmt::format(
      "INSERT INTO model SELECT r.run, m.round, bytes_of_hex(m.digest),\n"
      "  CASE WHEN m.path = r.models || '/' || replace(m.path, r.models || '/', '') AND\n"
      "            instr(replace(m.path, r.models || '/', ''), '/') = 0\n"
      "       THEN replace(m.path, r.models || '/', '') ELSE m.path END, m.bytes, m.parameters\n"
      "FROM models_1 m JOIN run r ON r.run_id = m.run_id;\n"
      "INSERT INTO event SELECT NULL, r.run, e.round, {}, {}, e.source, e.message\n"
      "FROM events_1 e LEFT JOIN run r ON r.run_id = e.run_id ORDER BY e.rowid;\n",
      Ms("e.at"), Place("e.level", kLevels));
  for (const char* table :
       {"events", "models", "metrics", "client_rounds", "run_clients", "clients", "rounds", "runs"}) {
    sql += fmt::format("DROP TABLE {}_1;\n", table);
  }
  sql += ViewsSql();
  RIVULET_RETURN_IF_ERROR(db.Script(sql));

  RIVULET_ASSIGN_OR_RETURN(const std::vector<StoredRun> runs, Select<StoredRun>(db, "", {}));
  for (const StoredRun& run : runs) RIVULET_RETURN_IF_ERROR(WriteConfigKeys(db, *run.run, run.config));
  return absl::OkStatus();
}

}  // namespace rivulet
