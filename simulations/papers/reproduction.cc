#include "simulations/papers/reproduction.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>

#include "coordinator/ledger/ledger.h"
#include "engine/base/join.h"
#include "engine/base/usage_error.h"
#include "federated/evaluation/evaluator.h"
#include "simulations/shipped/shipped_scenarios.h"

namespace rivulet {
namespace {

using Overrides = std::vector<std::pair<std::string, std::string>>;

// Where the best value so far reaches `target`, interpolated linearly between two rounds. `place` gives the positions
// of rounds.
std::optional<double> PlaceOfTarget(const Curve& curve, double target, const std::function<double(int64_t)>& place) {
  const double sign = curve.lower_is_better ? -1 : 1;
  double before = 0, best = 0;
  bool begun = false;
  for (const auto& [round, value] : curve.points) {
    const double now = place(round);
    if (sign * value >= sign * target) {
      if (!begun || value == best) return now;
      return before + (now - before) * (target - best) / (value - best);
    }
    if (!begun || sign * value > sign * best) best = value;
    before = now;
    begun = true;
  }
  return std::nullopt;
}

std::optional<double> SecondsToTarget(const Curve& curve, double target, const Curve* time) {
  if (time == nullptr) return std::nullopt;
  const std::map<int64_t, double> made(time->points.begin(), time->points.end());
  return PlaceOfTarget(curve, target, [&](int64_t round) {
    const auto found = made.find(round);
    return found == made.end() ? 0 : found->second;
  });
}

std::optional<double> ValueOf(const PaperResult& result, const std::string& metric, const SweptRun& run) {
  const Curve* const curve = FindCurve(run.curves, metric);
  if (curve == nullptr || run.status != "finished") return std::nullopt;
  switch (result.measure) {
    case PaperMeasure::kRounds:
      return PlaceOfTarget(*curve, result.target, [](int64_t round) { return static_cast<double>(round); });
    case PaperMeasure::kVirtualSeconds:
      return SecondsToTarget(*curve, result.target, FindCurve(run.curves, kVirtualSeconds));
    case PaperMeasure::kLast:
      return curve->points.back().second;
    case PaperMeasure::kBest:
      break;
  }
  return curve->best().second;
}

// The best point of the grid: among those with values for all seeds, the one with the fewest rounds or the best value.
void TakeBest(const SweepOutcome& outcome, size_t seeds, Reproduced& reproduced) {
  const PaperResult& result = *reproduced.result;
  const bool lower = result.to_target() || outcome.lower_is_better;
  reproduced.settings = outcome.points.size();
  for (const SweptPoint& point : outcome.points) {
    if (point.runs.size() < seeds) continue;
    ++reproduced.done;
    if (reproduced.curves.empty()) reproduced.curves = point.runs.front().curves;
    std::vector<double> values;
    for (const SweptRun& run : point.runs) {
      if (const auto value = ValueOf(result, outcome.metric, run)) values.push_back(*value);
    }
    if (values.size() < point.runs.size()) continue;
    const Spread spread = SpreadOf(values);
    const auto& best = reproduced.value;
    if (best && (lower ? spread.mean >= best->mean : spread.mean <= best->mean)) continue;
    reproduced.value = spread;
    reproduced.point = point.point;
    reproduced.curves = point.runs.front().curves;
  }
}

bool Says(const SweepPoint& point, const std::string& setting) {
  return std::ranges::any_of(point, [&](const auto& one) { return one.first + "=" + one.second == setting; });
}

// Any of several values for one key; all of several keys.
StatusOr<std::vector<SweepPoint>> Chosen(const std::vector<SweepPoint>& points, const PaperResult& result,
                                         const std::vector<std::string>& settings) {
  std::map<std::string, std::vector<std::string>> wanted;
  for (const std::string& setting : settings) wanted[setting.substr(0, setting.find('='))].push_back(setting);
  std::vector<SweepPoint> chosen;
  for (const SweepPoint& point : points) {
    const bool all = std::ranges::all_of(wanted, [&](const auto& of_key) {
      return std::ranges::any_of(of_key.second, [&](const std::string& setting) { return Says(point, setting); });
    });
    if (all) chosen.push_back(point);
  }
  if (!chosen.empty()) return chosen;
  std::vector<std::string> names;
  for (const SweepPoint& point : points) names.push_back(PointName(point));
  return UsageError("--setting: no setting of '{}' has {}; it has {}", result.name, Join(settings, " and "),
                    Join(names, "; "));
}

// The settings whose axes the result has: a result without a grid is not restricted.
std::vector<std::string> SettingsFor(const PaperResult& result, const std::vector<std::string>& settings) {
  std::vector<std::string> kept;
  for (const std::string& setting : settings) {
    const std::string key = setting.substr(0, setting.find('=')) + "=";
    if (std::ranges::any_of(result.grids, [&](const std::string& grid) { return grid.starts_with(key); }))
      kept.push_back(setting);
  }
  return kept;
}

// Rounds after the target are not measured, and they are often most of a paper's hundreds.
std::string StopAtTarget(const PaperResult& result, const std::string& metric) {
  return fmt::format("run.stop={} {} {}", metric, LowerIsBetter(metric) ? "<=" : ">=", result.target);
}

std::optional<double> VirtualTimeOf(const Curve* time, int64_t round) {
  if (time == nullptr) return std::nullopt;
  const auto found = std::ranges::find(time->points, round, &std::pair<int64_t, double>::first);
  return found == time->points.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::string NumberText(double value) { return fmt::format("{:.4g}", value); }

StatusOr<Reproduced> Reproduce(const Paper& paper, const PaperResult& result, const ReproduceOptions& options,
                               const RunTrials& run) {
  Reproduced reproduced{.result = &result, .point = {}, .curves = {}, .value = {}, .missed = {}};
  std::vector<std::string> sets = result.sets;
  if (result.to_target()) sets.push_back(StopAtTarget(result, paper.metric));
  RIVULET_ASSIGN_OR_RETURN(auto overrides, OverridesOf(sets));
  overrides.emplace_back("run.rounds", std::to_string(options.quick ? result.quick_rounds : result.rounds));
  const auto load = [&paper, &overrides](const Overrides& more) -> StatusOr<Scenario> {
    Overrides all = overrides;
    all.insert(all.end(), more.begin(), more.end());
    StatusOr<Scenario> scenario = LoadByFileOrName(paper.name, all);
    if (absl::IsInvalidArgument(scenario.status())) return AsUsageError(scenario.status());
    return scenario;
  };
  RIVULET_ASSIGN_OR_RETURN(std::vector<SweepPoint> points,
                           PointsOf({.grids = result.grids, .lists = {}, .randoms = {}}));
  if (options.quick) points.resize(1);
  RIVULET_ASSIGN_OR_RETURN(const Scenario first, load({}));
  SweepPlan trials{.scenario =
                       [&load](const SweepPoint& point, uint64_t seed) {
                         Overrides keys(point.begin(), point.end());
                         keys.emplace_back("run.seed", std::to_string(seed));
                         return load(keys);
                       },
                   .points = points,
                   .first_seed = first.run.seed,
                   .seeds = options.quick ? 1 : options.seeds.value_or(paper.seeds),
                   .trials = {.db_path = options.db,
                              .tag = "paper-" + paper.name,
                              .workers = static_cast<int>(options.workers.value_or(0))}};
  const std::vector<std::string> settings = SettingsFor(result, options.settings);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<SweptPoint> swept;
  if (!options.gathered) {
    RIVULET_ASSIGN_OR_RETURN(trials.points, Chosen(points, result, settings));
    RIVULET_ASSIGN_OR_RETURN(swept, run(trials));
  }
  reproduced.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (options.gathered || trials.points.size() < points.size()) {
    trials.points = std::move(points);
    RIVULET_ASSIGN_OR_RETURN(swept, GatherTrials(trials));
  }
  RIVULET_ASSIGN_OR_RETURN(const SweepOutcome outcome, JudgeSweep(options.db, std::move(swept), paper.metric));
  TakeBest(outcome, static_cast<size_t>(trials.seeds), reproduced);
  return reproduced;
}

std::string Missed(const Reproduced& reproduced, const std::vector<Reproduced>& earlier) {
  const PaperResult& result = *reproduced.result;
  std::vector<std::string> missed;
  bool whole = reproduced.whole();
  const auto other = [&](const PaperResult::Beside& beside) -> std::optional<double> {
    const auto found = std::ranges::find(earlier, beside.of, [](const Reproduced& one) { return one.result->name; });
    if (found != earlier.end()) whole = whole && found->whole();
    if (found != earlier.end() && found->value) return found->value->mean * beside.times + beside.by;
    missed.push_back(fmt::format("no value of '{}'", beside.of));
    return std::nullopt;
  };
  const auto hold = [&](std::optional<double> bound, bool at_least) {
    if (!bound) return;
    if (!reproduced.value) {
      // An unreached target needs more rounds than any bound; a failed run has less than any bound of a value.
      if (at_least != result.to_target()) missed.push_back("no value");
    } else if (at_least ? reproduced.value->mean < *bound : reproduced.value->mean > *bound) {
      missed.push_back(fmt::format("{} {}", at_least ? "at least" : "at most", NumberText(*bound)));
    }
  };
  hold(result.at_least, true);
  hold(result.at_most, false);
  if (result.at_least_beside) hold(other(*result.at_least_beside), true);
  if (result.at_most_beside) hold(other(*result.at_most_beside), false);
  return whole ? Join(missed, ", ") : "";
}

Chart ChartOf(const Paper& paper, const std::vector<Reproduced>& all) {
  const bool by_time = std::ranges::any_of(
      all, [](const Reproduced& one) { return one.result->measure == PaperMeasure::kVirtualSeconds; });
  Chart chart{.title = paper.metric, .x_label = by_time ? "virtual seconds" : "round", .series = {}};
  for (const Reproduced& one : all) {
    const Curve* const curve = FindCurve(one.curves, paper.metric);
    if (curve == nullptr) continue;
    const std::string setting = one.point.empty() ? "" : ", " + PointName(one.point);
    ChartSeries& series = chart.series.emplace_back(ChartSeries{.label = one.result->name + setting, .points = {}});
    const Curve* const time = FindCurve(one.curves, kVirtualSeconds);
    for (const auto& [round, value] : curve->points) {
      const std::optional<double> at = by_time ? VirtualTimeOf(time, round) : static_cast<double>(round);
      if (at) series.points.emplace_back(*at, value);
    }
  }
  return chart;
}

}  // namespace rivulet
