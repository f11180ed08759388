// Columns of rows.h, from which SELECT and output derive. A list of two dozen columns takes a compiler half a second
// wherever it is read. Few users of a row need its columns, so they are separate from the rows.
#pragma once

#include <tuple>

#include "coordinator/history/columns.h"
#include "coordinator/history/rows.h"

namespace rivulet {

// Columns of a result that a view has.
inline constexpr auto kStored = [](size_t, int history) { return history > 0; };
inline constexpr auto kBeforeMetrics = [](size_t place, int) { return place < kRoundColumnsBeforeMetrics; };
inline constexpr auto kBehindMetrics = [](size_t place, int) { return place >= kRoundColumnsBeforeMetrics; };

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
  static constexpr auto kColumns = std::tuple_cat(
      std::tuple(SqlColumn{"run_id", &RoundRow::run_id}, SqlColumn{"round", &RoundRow::round},
                 SqlColumn{"attempt", &RoundRow::attempt}, SqlColumn{"status", &RoundRow::status},
                 SqlColumn{"reason", &RoundRow::reason}, SqlColumn{"started_at", &RoundRow::started_at},
                 SqlColumn{"finished_at", &RoundRow::finished_at}, SqlColumn{"selected", &RoundRow::selected},
                 SqlColumn{"reported", &RoundRow::reported}),
      SqlColumnsOf<kRoundColumns, kStored>(), std::tuple(SqlColumn{"model_digest", &RoundRow::model_digest}));
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
  static constexpr auto kColumns = std::tuple_cat(
      std::tuple(SqlColumn{"task_id", &ClientRoundRow::task_id}, SqlColumn{"run_id", &ClientRoundRow::run_id},
                 SqlColumn{"round", &ClientRoundRow::round}, SqlColumn{"attempt", &ClientRoundRow::attempt},
                 SqlColumn{"client_id", &ClientRoundRow::client_id}, SqlColumn{"kind", &ClientRoundRow::kind},
                 SqlColumn{"status", &ClientRoundRow::status}, SqlColumn{"base_round", &ClientRoundRow::base_round},
                 SqlColumn{"committed_round", &ClientRoundRow::committed_round},
                 SqlColumn{"staleness", &ClientRoundRow::staleness},
                 SqlColumn{"parent_id", &ClientRoundRow::parent_id}),
      SqlColumnsOf<kTaskColumns, kStored>(), std::tuple(SqlColumn{"error", &ClientRoundRow::error}));
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
struct SqlTable<RecordRow> {
  static constexpr char kName[] = "records";
  static constexpr auto kColumns =
      std::tuple(SqlColumn{"run_id", &RecordRow::run_id}, SqlColumn{"round", &RecordRow::round},
                 SqlColumn{"digest", &RecordRow::digest}, SqlColumn{"record", &RecordRow::record},
                 SqlColumn{"signature", &RecordRow::signature}, SqlColumn{"certificate", &RecordRow::certificate});
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
  static constexpr auto kColumns = std::tuple_cat(
      std::tuple(SqlColumn{"run_id", &RoundSummaryRow::run_id}, SqlColumn{"name", &RoundSummaryRow::name},
                 SqlColumn{"round", &RoundSummaryRow::round}, SqlColumn{"attempts", &RoundSummaryRow::attempts},
                 SqlColumn{"selected", &RoundSummaryRow::selected}),
      SqlColumnsOf<kRoundColumns, kBeforeMetrics>(),
      std::tuple(SqlColumn{"test_accuracy", &RoundSummaryRow::test_accuracy},
                 SqlColumn{"test_loss", &RoundSummaryRow::test_loss}),
      SqlColumnsOf<kRoundColumns, kBehindMetrics>(),
      std::tuple(SqlColumn{"model_digest", &RoundSummaryRow::model_digest}));
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
