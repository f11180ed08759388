// The pictures of the pages, by name.
#include <algorithm>

#include "inspect/partition_picture.h"
#include "pages/comparison.h"
#include "pages/downloads.h"
#include "pages/figures.h"
#include "pages/layer_report.h"
#include "pages/page_parts.h"
#include "pages/round_pictures.h"
#include "pages/task_table.h"
#include "pages/update_histograms.h"

namespace rivulet {
namespace {

StatusOr<Picture> CurvePicture(std::span<const PlacedRun> runs, const std::string& metric) {
  if (runs.size() > 1) {
    RIVULET_ASSIGN_OR_RETURN(const Comparison comparison, LoadComparison(runs));
    if (std::ranges::find(comparison.metrics, metric) == comparison.metrics.end())
      return NotFound("none of these runs has '{}'", metric);
    return ChartPicture(ComparisonChart(comparison, metric));
  }
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, runs.front().history.ResolveRun(runs.front().run));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Curve> curves, LoadCurves(runs.front().history, run.run_id));
  const Curve* const curve = FindCurve(curves, metric);
  if (curve == nullptr) return NotFound("run '{}' has no '{}'", run.run_id, metric);
  return ChartPicture(ChartOf(*curve, run.run_id));
}

StatusOr<Picture> RoundTasksPicture(const PlacedRun& placed, const std::string& run_id, int64_t round,
                                    int64_t first_task) {
  RIVULET_ASSIGN_OR_RETURN(const auto tasks, TasksOfRound(placed.history, run_id, round));
  const size_t first = LeafOf(first_task, tasks.size());
  std::optional<Picture> picture =
      TaskLines(std::span(tasks).subspan(first, std::min(kRowsOfAPage, tasks.size() - first)));
  if (!picture) return NotFound("no time was measured in round {}", round);
  return *std::move(picture);
}

StatusOr<Picture> ClientPicture(const PlacedRun& placed, const std::string& run_id, const std::string& client,
                                int64_t first) {
  RIVULET_ASSIGN_OR_RETURN(
      const auto tasks,
      placed.history.ClientTasks(run_id, client, kRowsOfAPage, static_cast<size_t>(std::max<int64_t>(first, 0))));
  const Curve loss = LossCurve(tasks);
  if (loss.points.empty()) return NotFound("client '{}' has no training loss in run '{}'", client, run_id);
  return ChartPicture(ChartOf(loss, client));
}

}  // namespace

StatusOr<Picture> NamedPicture(std::span<const PlacedRun> runs, const HttpRequest& request) {
  if (runs.empty()) return InvalidArgument("a picture is of a run; add run=RUN to the address");
  const std::string of = request.Parameter("of");
  if (of == "curve") return CurvePicture(runs, request.Parameter("metric"));
  History& history = runs.front().history;
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history.ResolveRun(runs.front().run));
  if (of == "round")
    return RoundTasksPicture(runs.front(), run.run_id, request.Number("round"), request.Number("first"));
  if (of == "client")
    return ClientPicture(runs.front(), run.run_id, request.Parameter("client"), request.Number("first"));
  if (of == "labels") {
    RIVULET_ASSIGN_OR_RETURN(const PartitionSummary summary, LabelsOf(history, run.run_id));
    return PartitionPicture(summary, "labels by client");
  }
  if (of == "norms" || of == "changes") {
    RIVULET_ASSIGN_OR_RETURN(const LayerReport report, LoadLayerReport(history, run.run_id));
    return ChartPicture(of == "norms" ? report.norms : report.changes);
  }
  if (of == "tasks") {
    RIVULET_ASSIGN_OR_RETURN(const auto tasks, NewestTasks(history, run.run_id, kAttemptsDrawn));
    if (tasks.empty()) return NotFound("no task of run '{}' is known", run.run_id);
    return TasksPicture(tasks, runs.front().prefix + run.run_id);
  }
  RIVULET_ASSIGN_OR_RETURN(const RunOverview overview,
                           LoadOverview(history, run.run_id, OverviewParts::kWithoutClients));
  if (of == "rounds") {
    std::optional<Picture> picture = RoundsPicture(overview.attempts, runs.front().prefix + run.run_id);
    if (!picture) return NotFound("no time was measured in run '{}'", run.run_id);
    return *std::move(picture);
  }
  RIVULET_ASSIGN_OR_RETURN(std::vector<UpdateHistogram> histograms, UpdateHistograms(history, overview));
  for (UpdateHistogram& one : histograms)
    if (one.name == of) return std::move(one.picture);
  return InvalidArgument("run '{}' has no picture '{}'", run.run_id, of);
}

}  // namespace rivulet
