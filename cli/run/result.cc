#include "cli/run/result.h"

#include <cstdio>
#include <optional>

#include "coordinator/history/history.h"
#include "coordinator/ledger/ledger.h"
#include "engine/base/file_system.h"
#include "engine/base/quantities.h"
#include "engine/base/table.h"

namespace rivulet {

Status PrintResult(const std::string& db, const std::string& run_id, bool json) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(run_id));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ModelRow> models, history->Models(run_id));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<MetricRow> metrics, history->Metrics(run_id));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<MetricRow> of_clients, history->Metrics(run_id, "federated"));
  std::optional<double> virtual_seconds;
  for (const MetricRow& metric : of_clients)
    if (metric.name == kVirtualSeconds) virtual_seconds = metric.value;
  int64_t evaluated = 0;
  for (const MetricRow& metric : metrics) evaluated = std::max(evaluated, metric.round);
  const ModelRow* model = nullptr;  // the newest
  for (const ModelRow& row : models) {
    if (model == nullptr || row.round > model->round) model = &row;
  }
  const std::string path =
      model == nullptr || model->path.empty() ? "" : JoinPath(FolderOf(history->real_path()), model->path);

  if (json) {
    Fields fields = {{"run_id", run.run_id}, {"name", run.name}, {"status", run.status}};
    if (model != nullptr) {
      fields.insert(fields.end(), {{"round", model->round}, {"model_digest", model->digest}, {"path", TextCell(path)}});
    }
    fields.emplace_back("db", db);
    for (const MetricRow& metric : metrics) {
      if (metric.round == evaluated) fields.emplace_back(metric.name, CellOrNull(metric.value));
    }
    if (virtual_seconds) fields.emplace_back("virtual_seconds", *virtual_seconds);
    fmt::print("{}\n", JsonObject(fields));
    return absl::OkStatus();
  }
  size_t width = 13;
  for (const MetricRow& metric : metrics)
    if (metric.round == evaluated && metric.value) width = std::max(width, metric.name.size());
  for (const MetricRow& metric : metrics) {
    if (metric.round != evaluated || !metric.value) continue;
    std::string name = metric.name;
    for (char& c : name) c = c == '/' ? ' ' : c;
    fmt::print("{:<{}} {}\n", name, width, MetricText(*metric.value));
  }
  if (model != nullptr) fmt::print("{:<{}} {}\n", "rounds", width, model->round);
  if (virtual_seconds) fmt::print("{:<{}} {}\n", "virtual time", width, SecondsText(*virtual_seconds));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<RoundRow> rounds, history->Rounds(run_id));
  int64_t lost = 0;
  for (const RoundRow& round : rounds) lost += round.refused + round.failed;
  if (lost > 0) fmt::print("{:<{}} {} were refused or failed\n", "tasks", width, lost);
  if (!path.empty()) fmt::print("{:<{}} {}\n", "model", width, path);
  fmt::print("{:<{}} {}, run {}\n", "history", width, db, run.run_id);
  return absl::OkStatus();
}

Status InterruptedError(const std::string& subcommand, const ScenarioOptions& options,
                        const std::string& more_arguments, const std::string& run_id) {
  int64_t round = 0;
  if (auto history = History::Open(options.db, History::Access::kReadOnly); history.ok()) {
    if (const auto rounds = (*history)->RoundSummaries(run_id); rounds.ok() && !rounds->empty()) {
      round = rounds->back().round;
    }
  }
  return Cancelled("interrupted {}; to resume: rivulet {} {}{}{}",
                   round == 0 ? "before the first round was committed" : fmt::format("after round {}", round),
                   subcommand, ShellArguments(options, run_id), more_arguments.empty() ? "" : " ", more_arguments);
}

}  // namespace rivulet
