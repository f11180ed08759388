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
  std::string label;         // the name that its runs share, and where two settings share one what differs
  std::vector<size_t> runs;  // places in Comparison::runs
};

struct Comparison {
  std::vector<ComparedRun> runs;
  std::vector<ComparedSetting> settings;
  std::vector<std::string> metrics;
  std::set<std::string> differing;  // keys that tell settings apart, but for names and seeds
};

// INVALID_ARGUMENT: fewer than two runs.
StatusOr<Comparison> LoadComparison(std::span<const PlacedRun> runs);

// The last or the best values of `metric` over the runs of a setting that have it.
Spread LastOf(const Comparison& comparison, const ComparedSetting& setting, const std::string& metric);
Spread BestOf(const Comparison& comparison, const ComparedSetting& setting, const std::string& metric);

// A line a setting, the mean over its runs, and a band of one standard deviation where it has several.
Chart ComparisonChart(const Comparison& comparison, const std::string& metric);

}  // namespace rivulet
