// The rows of a history as people read them: a struct per view, a field per column, under the column's name
// (docs/history.md), and the list of columns that SELECT and what is printed derive from. How they are stored is
// tables.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "coordinator/history/columns.h"

namespace rivulet {

// UTC, "2025-01-31T14:25:30.123Z", from milliseconds since 1970.
std::string Iso8601(int64_t unix_ms);
// And back. INVALID_ARGUMENT: no such text.
StatusOr<int64_t> UnixMs(const std::string& iso8601);

struct RunRow {
  std::string run_id;
  std::string name;
  std::string status;  // running, finished, interrupted, failed
  std::string reason;  // why it failed, else ""
  std::string config;  // TOML
  std::string plan_digest;
  uint64_t seed = 0;
  std::string version;  // of the program that wrote it last
  std::string created_at, started_at, finished_at;
  // Another program did it, and only its numbers are known (History::AddForeignRun).
  bool foreign() const { return config.empty(); }
};

struct RoundRow {
  std::string run_id;
  int64_t round = 0;
  int64_t attempt = 1;
  std::string status;  // committed, abandoned, failed
  std::string reason;
  std::string started_at, finished_at;
  // Sums, and not written: reported = folded + refused, selected = reported + dropped + failed.
  int64_t selected = 0, reported = 0;
  int64_t folded = 0, refused = 0, dropped = 0, failed = 0;
  int64_t examples = 0;              // of folded updates
  std::optional<double> train_loss;  // mean over those examples
  int64_t bytes_down = 0, bytes_up = 0;
  double train_seconds = 0, aggregate_seconds = 0, evaluate_seconds = 0;
  std::string model_digest;  // of a committed round; its model's, and not written
};

struct ClientRow {
  std::string client_id;
  std::string fingerprint;
  std::string status;  // active, banned, approved, removed
  std::string first_seen_at, last_seen_at;
};

struct ClientRoundRow {
  std::string task_id, run_id;
  int64_t round = 0;
  int64_t attempt = 1;
  std::string client_id;
  std::string kind = "train";
  std::string status;  // folded, refused, dropped, failed
  int64_t base_round = 0;
  std::optional<int64_t>
      committed_round;               // the model version that holds this update; of a folded one: `round` if nullopt
  std::optional<int64_t> staleness;  // committed_round - 1 - base_round, and not written
  std::string parent_id;             // the tier it came through
  std::optional<int64_t> examples, steps;
  std::optional<double> train_loss, update_norm;
  std::string update_digest;
  std::optional<int64_t> weight;  // of a folded one: `examples` if nullopt
  int64_t bytes_down = 0, bytes_up = 0;
  std::optional<double> wait_seconds, train_seconds, upload_seconds;
  std::string error;
};

struct MetricRow {
  std::string run_id;
  int64_t round = 0;
  std::string scope;      // central, federated, client
  std::string client_id;  // scope client only
  std::string name;
  std::optional<double> value;          // of a rate: right / total
  std::optional<int64_t> right, total;  // of a rate: counts, so that it is exact
};

struct ModelRow {
  std::string run_id;
  int64_t round = 0;
  std::string digest;
  std::string path;  // relative to the database's folder; "" once removed
  int64_t bytes = 0;
  int64_t parameters = 0;
};

struct EventRow {
  std::string run_id;
  std::optional<int64_t> round;
  std::string at;
  std::string level;  // info, warning, error
  std::string source;
  std::string message;
  std::string client_id = {}, task_id = {};  // of whom it is, for logs: the history has the sentence alone
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

// What an operator did to a run or a client.
struct AuditRow {
  std::string at, operator_id;
  std::string serial;  // of the operator's certificate; "" without
  std::string action;  // approve, ban, remove, submit, pause, resume, stop, abort
  std::string run_id, client_id;
  std::string detail;  // a reason that was given
};

// Bytes by version, for the program alone: the machine's state, a selector's table.
struct BlobRow {
  std::string name, bytes;
};

struct RoundSummaryRow {
  std::string run_id, name;
  int64_t round = 0, attempts = 1;
  int64_t selected = 0, folded = 0, refused = 0, dropped = 0, failed = 0, examples = 0;
  std::optional<double> train_loss, test_accuracy, test_loss;
  int64_t bytes_down = 0, bytes_up = 0;
  double train_seconds = 0, aggregate_seconds = 0, evaluate_seconds = 0;
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

// --- Columns, by the members' names ----------------------------------------------------------------------------------

template <>
struct SqlTable<RunRow> {
  static constexpr char kName[] = "runs";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"run_id", &RunRow::run_id}, SqlColumn{"name", &RunRow::name}, SqlColumn{"status", &RunRow::status},
      SqlColumn{"reason", &RunRow::reason}, SqlColumn{"config", &RunRow::config},
      SqlColumn{"plan_digest", &RunRow::plan_digest}, SqlColumn{"seed", &RunRow::seed},
      SqlColumn{"version", &RunRow::version}, SqlColumn{"created_at", &RunRow::created_at},
      SqlColumn{"started_at", &RunRow::started_at}, SqlColumn{"finished_at", &RunRow::finished_at});
};

template <>
struct SqlTable<RoundRow> {
  static constexpr char kName[] = "rounds";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"run_id", &RoundRow::run_id}, SqlColumn{"round", &RoundRow::round},
      SqlColumn{"attempt", &RoundRow::attempt}, SqlColumn{"status", &RoundRow::status},
      SqlColumn{"reason", &RoundRow::reason}, SqlColumn{"started_at", &RoundRow::started_at},
      SqlColumn{"finished_at", &RoundRow::finished_at}, SqlColumn{"selected", &RoundRow::selected},
      SqlColumn{"reported", &RoundRow::reported}, SqlColumn{"folded", &RoundRow::folded},
      SqlColumn{"refused", &RoundRow::refused}, SqlColumn{"dropped", &RoundRow::dropped},
      SqlColumn{"failed", &RoundRow::failed}, SqlColumn{"examples", &RoundRow::examples},
      SqlColumn{"train_loss", &RoundRow::train_loss}, SqlColumn{"bytes_down", &RoundRow::bytes_down},
      SqlColumn{"bytes_up", &RoundRow::bytes_up}, SqlColumn{"train_seconds", &RoundRow::train_seconds},
      SqlColumn{"aggregate_seconds", &RoundRow::aggregate_seconds},
      SqlColumn{"evaluate_seconds", &RoundRow::evaluate_seconds}, SqlColumn{"model_digest", &RoundRow::model_digest});
};

template <>
struct SqlTable<ClientRow> {
  static constexpr char kName[] = "clients";
  static constexpr auto kColumns =
      std::tuple(SqlColumn{"client_id", &ClientRow::client_id}, SqlColumn{"fingerprint", &ClientRow::fingerprint},
                 SqlColumn{"status", &ClientRow::status}, SqlColumn{"first_seen_at", &ClientRow::first_seen_at},
                 SqlColumn{"last_seen_at", &ClientRow::last_seen_at});
};

template <>
struct SqlTable<ClientRoundRow> {
  static constexpr char kName[] = "client_rounds";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"task_id", &ClientRoundRow::task_id}, SqlColumn{"run_id", &ClientRoundRow::run_id},
      SqlColumn{"round", &ClientRoundRow::round}, SqlColumn{"attempt", &ClientRoundRow::attempt},
      SqlColumn{"client_id", &ClientRoundRow::client_id}, SqlColumn{"kind", &ClientRoundRow::kind},
      SqlColumn{"status", &ClientRoundRow::status}, SqlColumn{"base_round", &ClientRoundRow::base_round},
      SqlColumn{"committed_round", &ClientRoundRow::committed_round},
      SqlColumn{"staleness", &ClientRoundRow::staleness}, SqlColumn{"parent_id", &ClientRoundRow::parent_id},
      SqlColumn{"examples", &ClientRoundRow::examples}, SqlColumn{"steps", &ClientRoundRow::steps},
      SqlColumn{"train_loss", &ClientRoundRow::train_loss}, SqlColumn{"update_norm", &ClientRoundRow::update_norm},
      SqlColumn{"update_digest", &ClientRoundRow::update_digest}, SqlColumn{"weight", &ClientRoundRow::weight},
      SqlColumn{"bytes_down", &ClientRoundRow::bytes_down}, SqlColumn{"bytes_up", &ClientRoundRow::bytes_up},
      SqlColumn{"wait_seconds", &ClientRoundRow::wait_seconds},
      SqlColumn{"train_seconds", &ClientRoundRow::train_seconds},
      SqlColumn{"upload_seconds", &ClientRoundRow::upload_seconds}, SqlColumn{"error", &ClientRoundRow::error});
};

template <>
struct SqlTable<MetricRow> {
  static constexpr char kName[] = "metrics";
  static constexpr auto kColumns =
      std::tuple(SqlColumn{"run_id", &MetricRow::run_id}, SqlColumn{"round", &MetricRow::round},
                 SqlColumn{"scope", &MetricRow::scope}, SqlColumn{"client_id", &MetricRow::client_id},
                 SqlColumn{"name", &MetricRow::name}, SqlColumn{"value", &MetricRow::value},
                 SqlColumn{"right", &MetricRow::right}, SqlColumn{"total", &MetricRow::total});
};

template <>
struct SqlTable<ModelRow> {
  static constexpr char kName[] = "models";
  static constexpr auto kColumns =
      std::tuple(SqlColumn{"run_id", &ModelRow::run_id}, SqlColumn{"round", &ModelRow::round},
                 SqlColumn{"digest", &ModelRow::digest}, SqlColumn{"path", &ModelRow::path},
                 SqlColumn{"bytes", &ModelRow::bytes}, SqlColumn{"parameters", &ModelRow::parameters});
};

template <>
struct SqlTable<EventRow> {
  static constexpr char kName[] = "events";
  static constexpr auto kColumns =
      std::tuple(SqlColumn{"run_id", &EventRow::run_id}, SqlColumn{"round", &EventRow::round},
                 SqlColumn{"at", &EventRow::at}, SqlColumn{"level", &EventRow::level},
                 SqlColumn{"source", &EventRow::source}, SqlColumn{"message", &EventRow::message});
};

template <>
struct SqlTable<RoundSummaryRow> {
  static constexpr char kName[] = "round_summary";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"run_id", &RoundSummaryRow::run_id}, SqlColumn{"name", &RoundSummaryRow::name},
      SqlColumn{"round", &RoundSummaryRow::round}, SqlColumn{"attempts", &RoundSummaryRow::attempts},
      SqlColumn{"selected", &RoundSummaryRow::selected}, SqlColumn{"folded", &RoundSummaryRow::folded},
      SqlColumn{"refused", &RoundSummaryRow::refused}, SqlColumn{"dropped", &RoundSummaryRow::dropped},
      SqlColumn{"failed", &RoundSummaryRow::failed}, SqlColumn{"examples", &RoundSummaryRow::examples},
      SqlColumn{"train_loss", &RoundSummaryRow::train_loss},
      SqlColumn{"test_accuracy", &RoundSummaryRow::test_accuracy}, SqlColumn{"test_loss", &RoundSummaryRow::test_loss},
      SqlColumn{"bytes_down", &RoundSummaryRow::bytes_down}, SqlColumn{"bytes_up", &RoundSummaryRow::bytes_up},
      SqlColumn{"train_seconds", &RoundSummaryRow::train_seconds},
      SqlColumn{"aggregate_seconds", &RoundSummaryRow::aggregate_seconds},
      SqlColumn{"evaluate_seconds", &RoundSummaryRow::evaluate_seconds},
      SqlColumn{"model_digest", &RoundSummaryRow::model_digest});
};

template <>
struct SqlTable<ClientReliabilityRow> {
  static constexpr char kName[] = "client_reliability";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"run_id", &ClientReliabilityRow::run_id}, SqlColumn{"client_id", &ClientReliabilityRow::client_id},
      SqlColumn{"tasks", &ClientReliabilityRow::tasks}, SqlColumn{"folded", &ClientReliabilityRow::folded},
      SqlColumn{"refused", &ClientReliabilityRow::refused}, SqlColumn{"dropped", &ClientReliabilityRow::dropped},
      SqlColumn{"failed", &ClientReliabilityRow::failed}, SqlColumn{"reliability", &ClientReliabilityRow::reliability},
      SqlColumn{"examples", &ClientReliabilityRow::examples},
      SqlColumn{"mean_train_seconds", &ClientReliabilityRow::mean_train_seconds},
      SqlColumn{"last_seen_at", &ClientReliabilityRow::last_seen_at});
};

template <>
struct SqlTable<RunSummaryRow> {
  static constexpr char kName[] = "run_leaderboard";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"run_id", &RunSummaryRow::run_id}, SqlColumn{"name", &RunSummaryRow::name},
      SqlColumn{"status", &RunSummaryRow::status}, SqlColumn{"seed", &RunSummaryRow::seed},
      SqlColumn{"rounds", &RunSummaryRow::rounds}, SqlColumn{"best_accuracy", &RunSummaryRow::best_accuracy},
      SqlColumn{"best_round", &RunSummaryRow::best_round}, SqlColumn{"last_accuracy", &RunSummaryRow::last_accuracy},
      SqlColumn{"last_round", &RunSummaryRow::last_round}, SqlColumn{"seconds", &RunSummaryRow::seconds},
      SqlColumn{"created_at", &RunSummaryRow::created_at});
};

template <>
struct SqlTable<RunKeyRow> {
  static constexpr char kName[] = "run_keys";
  static constexpr auto kColumns = std::tuple(SqlColumn{"run_id", &RunKeyRow::run_id},
                                              SqlColumn{"key", &RunKeyRow::key}, SqlColumn{"value", &RunKeyRow::value});
};

template <>
struct SqlTable<TagRow> {
  static constexpr char kName[] = "tags";
  static constexpr auto kColumns = std::tuple(SqlColumn{"run_id", &TagRow::run_id}, SqlColumn{"tag", &TagRow::tag});
};

template <>
struct SqlTable<NoteRow> {
  static constexpr char kName[] = "notes";
  static constexpr auto kColumns = std::tuple(SqlColumn{"run_id", &NoteRow::run_id}, SqlColumn{"at", &NoteRow::at},
                                              SqlColumn{"text", &NoteRow::text});
};

template <>
struct SqlTable<AuditRow> {
  static constexpr char kName[] = "audit";
  static constexpr auto kColumns =
      std::tuple(SqlColumn{"at", &AuditRow::at}, SqlColumn{"operator_id", &AuditRow::operator_id},
                 SqlColumn{"serial", &AuditRow::serial}, SqlColumn{"action", &AuditRow::action},
                 SqlColumn{"run_id", &AuditRow::run_id}, SqlColumn{"client_id", &AuditRow::client_id},
                 SqlColumn{"detail", &AuditRow::detail});
};

}  // namespace rivulet
