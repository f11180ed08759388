#include "inspect/spread.h"

#include <algorithm>
#include <cmath>

#include "engine/base/quantities.h"

namespace rivulet {

// One run has no deviation, and a zero would look like one.
std::string Spread::Text() const {
  return runs == 1 ? MetricText(mean) : fmt::format("{} ± {}", MetricText(mean), MetricText(deviation));
}

Spread SpreadOf(const std::vector<double>& values) {
  Spread result{.runs = values.size()};
  for (const double value : values) result.mean += value / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  if (values.size() > 1) result.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return result;
}

std::string FirstMetric(const std::vector<std::string>& known) {
  for (const char* first : {"test/accuracy", "evaluate/accuracy", "personal/accuracy", "test/loss", "train/loss"}) {
    if (std::ranges::find(known, first) != known.end()) return first;
  }
  return known.empty() ? "" : known.front();
}

// The name of a run has no effect on its results.
std::vector<std::vector<size_t>> EqualButForSeed(const std::vector<std::map<std::string, std::string>>& runs) {
  std::vector<std::vector<size_t>> groups;
  std::map<std::map<std::string, std::string>, size_t> known;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::map<std::string, std::string> keys = runs[i];
    keys.erase("run.seed");
    keys.erase("run.name");
    const auto [group, is_new] = known.try_emplace(std::move(keys), groups.size());
    if (is_new) groups.emplace_back();
    groups[group->second].push_back(i);
  }
  return groups;
}

std::vector<std::pair<int64_t, Spread>> MeanCurve(const std::vector<const Curve*>& curves) {
  std::map<int64_t, std::vector<double>> by_round;
  for (const Curve* curve : curves)
    for (const auto& [round, value] : curve->points) by_round[round].push_back(value);
  std::vector<std::pair<int64_t, Spread>> means;
  for (const auto& [round, values] : by_round)
    if (values.size() == curves.size()) means.emplace_back(round, SpreadOf(values));
  return means;
}

const Curve* FindCurve(const std::vector<Curve>& curves, const std::string& name) {
  const auto found = std::ranges::find(curves, name, &Curve::name);
  return found == curves.end() ? nullptr : &*found;
}

}  // namespace rivulet
