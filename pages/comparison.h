// Comparison of runs side by side. Runs equal except for the seed are one setting with a mean and a spread.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "inspect/listed_runs.h"
#include "inspect/overview.h"
#include "inspect/picture/chart.h"
#include "inspect/spread.h"
#include "pages/pages.h"

namespace rivulet {

struct ComparedRun {
  std::string place;  // its id with its history's prefix (pages.h)
  ListedRun run;
  std::vector<Curve> curves;
};

struct ComparedSetting {
  std::string label;         // the name that its runs share; if settings share a name, with their differences
  std::vector<size_t> runs;  // indices into Comparison::runs
};

struct Comparison {
  std::vector<ComparedRun> runs;
  std::vector<ComparedSetting> settings;
  std::vector<std::string> metrics;
  std::set<std::string> differing;  // keys that distinguish settings, except names and seeds
};

// INVALID_ARGUMENT: fewer than two runs.
StatusOr<Comparison> LoadComparison(std::span<const PlacedRun> runs);

// The last or the best values of `metric` over the runs of a setting that have it.
Spread LastOf(const Comparison& comparison, const ComparedSetting& setting, const std::string& metric);
Spread BestOf(const Comparison& comparison, const ComparedSetting& setting, const std::string& metric);

// A line per setting, the mean over its runs, with a band of one standard deviation if it has several.
Chart ComparisonChart(const Comparison& comparison, const std::string& metric);

}  // namespace rivulet
