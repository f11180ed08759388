// Rows of a history as people read them: a struct per view, with a field per column, named like the column
// (docs/reference/history.md). The lists of their columns are in row_columns.h, their storage in tables.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/history/round_result.h"
#include "engine/base/status.h"
#include "federated/tasks/task_result.h"

namespace rivulet {

// UTC, "2025-01-31T14:25:30.123Z", from milliseconds since 1970.
std::string Iso8601(int64_t unix_ms);
// The inverse. INVALID_ARGUMENT: any other text.
StatusOr<int64_t> UnixMs(const std::string& iso8601);

struct RunRow {
  std::string run_id;
  std::string name;
  std::string status;  // running, finished, interrupted, failed
  std::string reason;  // why it failed, else ""
  std::string config;  // TOML
  std::string plan_digest;
  uint64_t seed = 0;
  std::string version;  // of the program that last wrote it
  std::string created_at, started_at, finished_at;
  // Another program made it, and only its numbers are known (History::AddForeignRun).
  bool foreign() const { return config.empty(); }
};

struct RoundRow : RoundResult {
  std::string run_id;
  int64_t round = 0;
  int64_t attempt = 1;
  std::string status;  // committed, abandoned, failed
  std::string reason;
  std::string started_at, finished_at;
  // Sums, which are not stored: reported = folded + refused, selected = reported + dropped + failed.
  int64_t selected = 0, reported = 0;
  std::string model_digest;  // its model's digest, if committed; not stored
};

struct ClientRow {
  std::string client_id;
  std::string fingerprint;
  std::string status;  // active, banned, approved, removed
  std::string first_seen_at, last_seen_at;
};

// A row without a weight has `examples` as its weight if it is folded.
struct ClientRoundRow : TaskResult {
  std::string task_id, run_id;
  int64_t round = 0;
  int64_t attempt = 1;
  std::string client_id;
  std::string kind = "train";
  std::string status;  // folded, refused, dropped, failed
  int64_t base_round = 0;
  std::optional<int64_t>
      committed_round;               // the model version that holds this update; of a folded one: `round` if nullopt
  std::optional<int64_t> staleness;  // committed_round - 1 - base_round; not stored
  std::string parent_id;             // the aggregator that forwarded it
  std::string error;
};

struct MetricRow {
  std::string run_id;
  int64_t round = 0;
  std::string scope;      // central, federated, client
  std::string client_id;  // scope client only
  std::string name;
  std::optional<double> value;          // of a rate: right / total
  std::optional<int64_t> right, total;  // of a rate: counts, which make it exact
};

struct ModelRow {
  std::string run_id;
  int64_t round = 0;
  std::string digest;
  std::string path;  // relative to the database's folder; "" once removed
  int64_t bytes = 0;
  int64_t parameters = 0;
};

// What a version states of how it was made.
struct RecordRow {
  std::string run_id;
  int64_t round = 0;
  std::string digest;       // of the text
  std::string record;       // text: federated/records/version_record.h
  std::string signature;    // in hexadecimal digits; "": of a simulation, which has no certificate
  std::string certificate;  // of the coordinator that signed it, in PEM
};

struct EventRow {
  std::string run_id;
  std::optional<int64_t> round;
  std::string at;
  std::string level;  // info, warning, error
  std::string source;
  std::string message;
  std::string client_id = {}, task_id = {};  // for logs: the history stores the message alone
};

struct RunKeyRow {
  std::string run_id, key, value;
};

struct TagRow {
  std::string run_id, tag;
};

struct NoteRow {
  std::string run_id, at, text;
};

// An operator's action on a run or a client.
struct AuditRow {
  std::string at, operator_id;
  std::string serial;  // of the operator's certificate; "" without one
  std::string action;  // approve, ban, remove, submit, pause, resume, stop, abort
  std::string run_id, client_id;
  std::string detail;  // the given reason
};

// Bytes by version, for the program alone: the machine's state, a selector's table.
struct BlobRow {
  std::string name, bytes;
};

struct RoundSummaryRow : RoundResult {
  std::string run_id, name;
  int64_t round = 0, attempts = 1;
  int64_t selected = 0;
  std::optional<double> test_accuracy, test_loss;
  std::string model_digest;
};

struct ClientReliabilityRow {
  std::string run_id, client_id;
  int64_t tasks = 0, folded = 0, refused = 0, dropped = 0, failed = 0;
  double reliability = 0;  // folded / tasks
  int64_t examples = 0;
  std::optional<double> mean_train_seconds;
  std::string last_seen_at;
};

struct RunSummaryRow {  // run_leaderboard
  std::string run_id, name, status;
  uint64_t seed = 0;
  int64_t rounds = 0;  // committed
  std::optional<double> best_accuracy;
  std::optional<int64_t> best_round;
  std::optional<double> last_accuracy;
  std::optional<int64_t> last_round;
  double seconds = 0;
  std::string created_at;
};

}  // namespace rivulet
