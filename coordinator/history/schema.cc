#include "coordinator/history/schema.h"

namespace rivulet {
namespace {

constexpr const char* kVersion1 = R"sql(
CREATE TABLE runs (
  run_id      TEXT PRIMARY KEY NOT NULL,
  name        TEXT NOT NULL,
  status      TEXT NOT NULL CHECK (status IN ('running', 'finished', 'interrupted', 'failed')),
  reason      TEXT,
  config      TEXT NOT NULL,
  plan_digest TEXT NOT NULL,
  seed        INTEGER NOT NULL,
  version     TEXT NOT NULL,
  created_at  TEXT NOT NULL,
  started_at  TEXT,
  finished_at TEXT
) STRICT;

CREATE TABLE rounds (
  run_id            TEXT NOT NULL REFERENCES runs (run_id),
  round             INTEGER NOT NULL CHECK (round >= 1),
  attempt           INTEGER NOT NULL CHECK (attempt >= 1),
  status            TEXT NOT NULL CHECK (status IN ('committed', 'abandoned', 'failed')),
  reason            TEXT,
  started_at        TEXT NOT NULL,
  finished_at       TEXT NOT NULL,
  selected          INTEGER NOT NULL,
  reported          INTEGER NOT NULL,
  folded            INTEGER NOT NULL,
  refused           INTEGER NOT NULL,
  dropped           INTEGER NOT NULL,
  failed            INTEGER NOT NULL,
  examples          INTEGER NOT NULL,
  train_loss        REAL,
  bytes_down        INTEGER NOT NULL,
  bytes_up          INTEGER NOT NULL,
  train_seconds     REAL NOT NULL,
  aggregate_seconds REAL NOT NULL,
  evaluate_seconds  REAL NOT NULL,
  model_digest      TEXT,
  PRIMARY KEY (run_id, round, attempt)
) STRICT;

CREATE TABLE clients (
  client_id     TEXT PRIMARY KEY NOT NULL,
  fingerprint   TEXT,
  status        TEXT NOT NULL,
  first_seen_at TEXT NOT NULL,
  last_seen_at  TEXT NOT NULL
) STRICT;

CREATE TABLE run_clients (
  run_id       TEXT NOT NULL REFERENCES runs (run_id),
  client_id    TEXT NOT NULL REFERENCES clients (client_id),
  from_round   INTEGER NOT NULL,
  from_attempt INTEGER NOT NULL,
  PRIMARY KEY (run_id, client_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE client_rounds (
  task_id         TEXT PRIMARY KEY NOT NULL,
  run_id          TEXT NOT NULL,
  round           INTEGER NOT NULL,
  attempt         INTEGER NOT NULL,
  client_id       TEXT NOT NULL REFERENCES clients (client_id),
  kind            TEXT NOT NULL CHECK (kind IN ('train', 'evaluate')),
  status          TEXT NOT NULL CHECK (status IN ('folded', 'refused', 'dropped', 'failed')),
  base_round      INTEGER NOT NULL,
  committed_round INTEGER,
  staleness       INTEGER,
  parent_id       TEXT,
  examples        INTEGER,
  steps           INTEGER,
  train_loss      REAL,
  update_norm     REAL,
  update_digest   TEXT,
  weight          INTEGER,
  bytes_down      INTEGER NOT NULL,
  bytes_up        INTEGER NOT NULL,
  wait_seconds    REAL,
  train_seconds   REAL,
  upload_seconds  REAL,
  error           TEXT,
  FOREIGN KEY (run_id, round, attempt) REFERENCES rounds (run_id, round, attempt)
) STRICT;
CREATE INDEX client_rounds_by_round ON client_rounds (run_id, round, attempt);
CREATE INDEX client_rounds_by_client ON client_rounds (run_id, client_id, round, attempt);

CREATE TABLE metrics (
  run_id    TEXT NOT NULL REFERENCES runs (run_id),
  round     INTEGER NOT NULL,
  scope     TEXT NOT NULL CHECK (scope IN ('central', 'federated', 'client')),
  client_id TEXT REFERENCES clients (client_id),
  name      TEXT NOT NULL,
  value     REAL,
  CHECK ((scope = 'client') = (client_id IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX metrics_key ON metrics (run_id, round, scope, name, coalesce(client_id, ''));

CREATE TABLE models (
  run_id     TEXT NOT NULL REFERENCES runs (run_id),
  round      INTEGER NOT NULL CHECK (round >= 0),
  digest     TEXT NOT NULL,
  path       TEXT,
  bytes      INTEGER NOT NULL,
  parameters INTEGER NOT NULL,
  PRIMARY KEY (run_id, round)
) STRICT;

CREATE TABLE events (
  run_id  TEXT REFERENCES runs (run_id),
  round   INTEGER,
  at      TEXT NOT NULL,
  level   TEXT NOT NULL CHECK (level IN ('info', 'warning', 'error')),
  source  TEXT NOT NULL,
  message TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_run ON events (run_id, at);

CREATE VIEW round_summary AS
SELECT r.run_id, runs.name, r.round, r.attempt AS attempts, r.selected, r.folded, r.refused, r.dropped, r.failed,
       r.examples, r.train_loss,
       (SELECT value FROM metrics m WHERE m.run_id = r.run_id AND m.round = r.round AND m.scope = 'central'
                                      AND m.name = 'test/accuracy') AS test_accuracy,
       (SELECT value FROM metrics m WHERE m.run_id = r.run_id AND m.round = r.round AND m.scope = 'central'
                                      AND m.name = 'test/loss') AS test_loss,
       r.bytes_down, r.bytes_up, r.train_seconds, r.aggregate_seconds, r.evaluate_seconds, r.model_digest
FROM rounds r JOIN runs ON runs.run_id = r.run_id
WHERE r.status = 'committed'
ORDER BY r.run_id, r.round;

CREATE VIEW client_reliability AS
SELECT c.run_id, c.client_id, count(*) AS tasks,
       sum(c.status = 'folded') AS folded, sum(c.status = 'refused') AS refused, sum(c.status = 'dropped') AS dropped,
       sum(c.status = 'failed') AS failed, avg(c.status = 'folded') AS reliability,
       sum(CASE WHEN c.status = 'folded' THEN c.examples ELSE 0 END) AS examples,
       avg(c.train_seconds) AS mean_train_seconds, clients.last_seen_at
FROM client_rounds c JOIN clients ON clients.client_id = c.client_id
GROUP BY c.run_id, c.client_id
ORDER BY c.run_id, c.client_id;

CREATE VIEW run_leaderboard AS
WITH accuracy AS (
  SELECT run_id, round, value,
         row_number() OVER (PARTITION BY run_id ORDER BY value DESC, round) AS best,
         row_number() OVER (PARTITION BY run_id ORDER BY round DESC) AS latest
  FROM metrics WHERE scope = 'central' AND name = 'test/accuracy')
SELECT runs.run_id, runs.name, runs.status, runs.seed,
       (SELECT count(*) FROM rounds r WHERE r.run_id = runs.run_id AND r.status = 'committed') AS rounds,
       b.value AS best_accuracy, b.round AS best_round, l.value AS last_accuracy, l.round AS last_round,
       (SELECT sum(train_seconds + aggregate_seconds + evaluate_seconds) FROM rounds r WHERE r.run_id = runs.run_id)
         AS seconds,
       runs.created_at
FROM runs
LEFT JOIN accuracy b ON b.run_id = runs.run_id AND b.best = 1
LEFT JOIN accuracy l ON l.run_id = runs.run_id AND l.latest = 1
ORDER BY best_accuracy DESC, best_round;
)sql";

// A migration is never edited once it was released, since histories exist that were made by it: a change of the schema
// is another entry, and a file's version is how many it has seen.
constexpr const char* kMigrations[] = {kVersion1};

}  // namespace

std::span<const char* const> HistoryMigrations() { return kMigrations; }

}  // namespace rivulet
