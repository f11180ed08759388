#include "pages/comparison.h"

#include <algorithm>
#include <map>

namespace rivulet {
namespace {

constexpr size_t kKeysInLabel = 3;

std::vector<const Curve*> CurvesOf(const Comparison& comparison, const ComparedSetting& setting,
                                   const std::string& metric) {
  std::vector<const Curve*> curves;
  for (const size_t run : setting.runs)
    if (const Curve* curve = FindCurve(comparison.runs[run].curves, metric); curve != nullptr) curves.push_back(curve);
  return curves;
}

// "fedprox"; for several settings of one name "fedprox, mu = 0.1".
void Name(Comparison& comparison) {
  std::map<std::string, size_t> names;
  for (const ComparedSetting& setting : comparison.settings)
    ++names[comparison.runs[setting.runs.front()].run.row.name];
  for (ComparedSetting& setting : comparison.settings) {
    const ListedRun& run = comparison.runs[setting.runs.front()].run;
    setting.label = run.row.name;
    size_t told = 0;
    for (const std::string& key : comparison.differing) {
      const std::string value = KeyText(run, key);
      if (names[run.row.name] < 2 || value.empty() || told == kKeysInLabel) continue;
      setting.label += fmt::format(", {} = {}", ShortKey(key, comparison.differing), value);
      ++told;
    }
    if (setting.runs.size() > 1) setting.label += fmt::format(" ({} seeds)", setting.runs.size());
  }
}

// The most important metrics come first: the test set's, then others. Error bounds come last.
int RankOf(const std::string& metric) {
  if (metric.ends_with("_bound")) return 4;
  if (metric == "test/accuracy") return 0;
  return metric == "test/loss" ? 1 : metric.starts_with("test/") ? 2 : 3;
}

}  // namespace

StatusOr<Comparison> LoadComparison(std::span<const PlacedRun> names) {
  Comparison comparison;
  std::map<const History*, std::vector<ListedRun>> listed;
  for (const PlacedRun& name : names) {
    RIVULET_ASSIGN_OR_RETURN(const RunRow row, name.history.ResolveRun(name.run));
    const std::string place = name.prefix + row.run_id;
    if (std::ranges::find(comparison.runs, place, &ComparedRun::place) != comparison.runs.end()) continue;
    if (!listed.contains(&name.history)) {
      RIVULET_ASSIGN_OR_RETURN(listed[&name.history], LoadListedRuns(name.history));
    }
    RIVULET_ASSIGN_OR_RETURN(std::vector<Curve> curves, LoadCurves(name.history, row.run_id));
    for (const ListedRun& run : listed[&name.history])
      if (run.row.run_id == row.run_id) comparison.runs.push_back({place, run, std::move(curves)});
  }
  if (comparison.runs.size() < 2) return InvalidArgument("there is nothing to compare; tick at least two runs");
  std::vector<std::map<std::string, std::string>> keys;
  for (const ComparedRun& run : comparison.runs) {
    keys.push_back(run.run.keys);
    for (const Curve& curve : run.curves)
      if (std::ranges::find(comparison.metrics, curve.name) == comparison.metrics.end())
        comparison.metrics.push_back(curve.name);
  }
  std::ranges::stable_sort(comparison.metrics, {}, RankOf);
  comparison.differing = DifferingKeys(keys);
  comparison.differing.erase("run.name");
  comparison.differing.erase("run.seed");
  for (std::vector<size_t>& runs : EqualButForSeed(keys)) comparison.settings.push_back({"", std::move(runs)});
  Name(comparison);
  return comparison;
}

Spread LastOf(const Comparison& comparison, const ComparedSetting& setting, const std::string& metric) {
  std::vector<double> values;
  for (const Curve* curve : CurvesOf(comparison, setting, metric)) values.push_back(curve->points.back().second);
  return SpreadOf(values);
}

Spread BestOf(const Comparison& comparison, const ComparedSetting& setting, const std::string& metric) {
  std::vector<double> values;
  for (const Curve* curve : CurvesOf(comparison, setting, metric)) values.push_back(curve->best().second);
  return SpreadOf(values);
}

Chart ComparisonChart(const Comparison& comparison, const std::string& metric) {
  Chart chart{.title = metric, .x_label = "round", .series = {}};
  for (const ComparedSetting& setting : comparison.settings) {
    ChartSeries& series = chart.series.emplace_back();  // even if empty: colours follow the settings
    series.label = setting.label;
    for (const auto& [round, value] : MeanCurve(CurvesOf(comparison, setting, metric))) {
      const auto x = static_cast<double>(round);
      series.points.emplace_back(x, value.mean);
      if (value.runs > 1) series.band.push_back({x, value.mean - value.deviation, value.mean + value.deviation});
    }
  }
  return chart;
}

}  // namespace rivulet
