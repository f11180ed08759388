#include "simulations/sweeps/outcome.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/base/shown_text.h"
#include "engine/base/table.h"
#include "engine/base/usage_error.h"
#include "federated/evaluation/evaluator.h"

namespace rivulet {
namespace {

void Judge(SweptPoint& point, SweepOutcome& outcome) {
  std::vector<double> last, best;
  for (const SweptRun& run : point.runs) {
    const Curve* curve = FindCurve(run.curves, outcome.metric);
    if (curve == nullptr || run.status != "finished") continue;
    outcome.lower_is_better = curve->lower_is_better;
    last.push_back(curve->points.back().second);
    best.push_back(curve->best().second);
  }
  point.last = SpreadOf(last);
  point.best = SpreadOf(best);
}

// A validation set decides if there is one, so that the test set chooses nothing.
std::string JudgingMetric(const std::vector<std::string>& known) {
  for (const std::string_view metric : kJudgingMetrics) {
    const bool chooses = metric.starts_with("validation/");
    if (chooses && std::ranges::find(known, metric) != known.end()) return std::string(metric);
  }
  return FirstMetric(known);
}

std::set<std::string> KeysOf(const SweepOutcome& outcome) {
  std::set<std::string> keys;
  for (const SweptPoint& point : outcome.points)
    for (const auto& [key, value] : point.point) keys.insert(key);
  return keys;
}

}  // namespace

StatusOr<SweepOutcome> JudgeSweep(const std::string& db, std::vector<SweptPoint> points, const std::string& metric) {
  SweepOutcome outcome{.name = {}, .tag = {}, .metric = metric, .points = std::move(points), .best = {}};
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  std::vector<std::string> known;
  for (SweptPoint& point : outcome.points) {
    for (SweptRun& run : point.runs) {
      RIVULET_ASSIGN_OR_RETURN(const RunRow row, history->ResolveRun(run.run_id));
      run.status = row.status;
      RIVULET_ASSIGN_OR_RETURN(run.curves, LoadCurves(*history, run.run_id));
      for (const Curve& curve : run.curves) known.push_back(curve.name);
    }
  }
  if (outcome.metric.empty()) outcome.metric = JudgingMetric(known);
  if (!known.empty() && std::ranges::find(known, outcome.metric) == known.end()) {
    return NotFound("no run of the sweep has '{}'.{}", Shortened(outcome.metric), DidYouMean(outcome.metric, known));
  }
  for (size_t i = 0; i < outcome.points.size(); ++i) {
    SweptPoint& point = outcome.points[i];
    Judge(point, outcome);
    if (!point.whole()) continue;
    const double sign = outcome.lower_is_better ? -1 : 1;
    if (!outcome.best || sign * point.last.mean > sign * outcome.points[*outcome.best].last.mean) outcome.best = i;
  }
  return outcome;
}

std::string SweepTable(const SweepOutcome& outcome, size_t columns) {
  const std::set<std::string> keys = KeysOf(outcome);
  std::vector<Column> titles = {{.name = ""}};
  if (!outcome.points.empty()) {
    for (const auto& [key, value] : outcome.points[0].point) titles.push_back({.name = ShortKey(key, keys)});
  }
  titles.insert(titles.end(), {{.name = "runs"}, {.name = "failed", .rank = 1}, {.name = "last"}, {.name = "best"}});
  Table table(std::move(titles));
  for (size_t i = 0; i < outcome.points.size(); ++i) {
    const SweptPoint& point = outcome.points[i];
    std::vector<Cell> cells = {std::string(outcome.best == i ? "*" : "")};
    for (const auto& [key, value] : point.point) cells.push_back(CellOfToml(value));
    const auto runs = std::ssize(point.runs);
    cells.insert(cells.end(), {Cell(int64_t{runs}), Cell(runs - static_cast<int64_t>(point.last.runs))});
    for (const Spread& spread : {point.last, point.best}) {
      cells.push_back(spread.runs > 0 ? Cell(spread.Text()) : Cell());
    }
    table.Add(std::move(cells));
  }
  return table.Text(columns);
}

std::string SweepJson(const SweepOutcome& outcome) {
  Json json = {{"name", outcome.name}, {"tag", outcome.tag}, {"metric", outcome.metric}, {"points", Json::Array()}};
  for (const SweptPoint& point : outcome.points) {
    Json set = Json::Object(), runs = Json::Array();
    for (const auto& [key, value] : point.point) set[key] = value;
    for (const SweptRun& run : point.runs)
      runs.Append({{"run_id", run.run_id}, {"seed", run.seed}, {"status", run.status}});
    Json entry = {{"set", std::move(set)}, {"runs", std::move(runs)}};
    if (point.last.runs > 0) {
      entry["finished"] = point.last.runs;
      entry["last_mean"] = point.last.mean;
      entry["last_deviation"] = point.last.deviation;
      entry["best_mean"] = point.best.mean;
      entry["best_deviation"] = point.best.deviation;
    }
    json["points"].Append(std::move(entry));
  }
  json["best"] = outcome.best ? *json["points"].elements()[*outcome.best].Find("set") : Json();
  return json.Dump();
}

Chart SweepChart(const SweepOutcome& outcome) {
  Chart chart{.title = outcome.metric, .x_label = "round", .series = {}};
  for (const SweptPoint& point : outcome.points) {
    std::map<int64_t, std::vector<double>> values;
    size_t runs = 0;
    for (const SweptRun& run : point.runs) {
      const Curve* curve = FindCurve(run.curves, outcome.metric);
      if (curve == nullptr) continue;
      ++runs;
      for (const auto& [round, value] : curve->points) values[round].push_back(value);
    }
    ChartSeries series{.label = PointName(point.point), .points = {}};
    for (const auto& [round, all] : values) {
      if (all.size() == runs) series.points.emplace_back(static_cast<double>(round), SpreadOf(all).mean);
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace rivulet
