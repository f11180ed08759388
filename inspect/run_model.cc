#include "inspect/run_model.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "coordinator/history/history.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/shown_text.h"
#include "engine/base/usage_error.h"
#include "federated/evaluation/evaluator.h"
#include "federated/server_optimizers/averaged.h"
#include "federated/server_state/server_state.h"

namespace rivulet {
namespace {

StatusOr<int64_t> BestRound(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(const auto metrics, history.Metrics(run_id));
  for (const std::string_view name : kJudgingMetrics) {
    std::optional<std::pair<double, int64_t>> best;  // higher is better; the earliest of equals
    for (const MetricRow& metric : metrics) {
      if (!metric.value || metric.name != name) continue;
      const double worth = LowerIsBetter(name) ? -*metric.value : *metric.value;
      if (!best || worth > best->first) best = {worth, metric.round};
    }
    if (best) return best->second;
  }
  return FailedPrecondition("no model of run '{}' has been evaluated on a test or validation set, so none is the best",
                            run_id);
}

// The number of models in a version: its own, and those of clusters 1, 2, …
int64_t ClustersOf(const ServerState& state) {
  int64_t count = 1;
  while (!state.flat(fmt::format("{}cluster_{}", kServerPrefix, count)).empty()) ++count;
  return count;
}

}  // namespace

bool NamesRound(std::string_view what) {
  const size_t colon = what.rfind(':');
  if (colon == what.npos || colon == 0) return false;
  const std::string_view round = what.substr(colon + 1);
  return round == "latest" || round == "best" ||
         (!round.empty() && round.find_first_not_of("0123456789") == round.npos);
}

StatusOr<RunModel> FindRunModel(const std::string& db, const std::string& what) {
  const bool says_round = NamesRound(what);
  const std::string name = says_round ? what.substr(0, what.rfind(':')) : what;
  const std::string round = says_round ? what.substr(what.rfind(':') + 1) : "latest";
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(name));
  RIVULET_ASSIGN_OR_RETURN(const auto models, history->Models(run.run_id));
  std::vector<std::string> kept;
  for (const ModelRow& row : models)
    if (!row.path.empty()) kept.push_back(fmt::format("{}", row.round));
  if (kept.empty()) return FailedPrecondition("the history '{}' keeps no model of run '{}'", db, run.run_id);
  int64_t wanted = 0;
  if (round == "latest") {
    const auto newest = std::find_if(models.rbegin(), models.rend(), [](const ModelRow& m) { return !m.path.empty(); });
    wanted = newest->round;
  } else if (round == "best") {
    RIVULET_ASSIGN_OR_RETURN(wanted, BestRound(*history, run.run_id));
  } else if (std::from_chars(round.data(), round.data() + round.size(), wanted).ec != std::errc()) {
    return UsageError("'{}' is no round", Shortened(round));
  }
  const auto model = std::ranges::find(models, wanted, &ModelRow::round);
  if (model == models.end()) {
    return NotFound("run '{}' has no round {}; its models are those of rounds {} to {}", run.run_id, wanted,
                    models.front().round, models.back().round);
  }
  if (model->path.empty()) {
    if (kept.size() > 8) kept.erase(kept.begin() + 3, kept.end() - 4);
    return FailedPrecondition(
        "the model of round {}{} of run '{}' was not kept; the models of rounds {} were (run.keep_models decides)",
        wanted, round == "best" ? ", the best," : "", run.run_id, Join(kept, ", "));
  }
  // The history may have been copied here with its models: the file is looked for in its run's models folder, for any
  // path in the row.
  const std::string file = model->path.substr(model->path.rfind('/') + 1);
  const std::string folder = History::ModelsFolder(history->real_path(), run.run_id);
  return RunModel{run.run_id, wanted, JoinPath(FolderOf(history->real_path()), JoinPath(folder, file)), run.config};
}

StatusOr<std::shared_ptr<const Model>> ReadRunModel(const RunModel& run, std::shared_ptr<const ModelLayout> layout,
                                                    std::optional<int64_t> cluster) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(run.path));
  const StatusOr<ServerState> state = ReadServerState(std::move(layout), bytes);
  if (!state.ok()) return Annotate(state.status(), run.path);
  if (!cluster) return MeasuredModel(*state);
  const int64_t clusters = ClustersOf(*state);
  if (clusters == 1) return UsageError("--cluster: run {} has one model; leave it out", run.run_id);
  if (*cluster >= clusters)
    return UsageError("--cluster is {}, and the models of run {} are 0 to {}", *cluster, run.run_id, clusters - 1);
  return *cluster == 0 ? MeasuredModel(*state)
                       : ModelOfFlat(*state, fmt::format("{}cluster_{}", kServerPrefix, *cluster));
}

}  // namespace rivulet
