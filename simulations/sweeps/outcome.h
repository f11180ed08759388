// Outcome of a sweep, read from its history: a line per point, over its seeds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "inspect/overview.h"
#include "inspect/picture/chart.h"
#include "inspect/spread.h"
#include "simulations/sweeps/points.h"

namespace rivulet {

struct SweptRun {
  std::string run_id, status;
  uint64_t seed = 0;
  std::vector<Curve> curves;
};

struct SweptPoint {
  SweepPoint point;
  std::vector<SweptRun> runs;
  // Spread of `metric` over the finished runs that have it: the value at the last round, and at the best round.
  Spread last, best;
  bool whole() const { return last.runs == runs.size(); }
};

struct SweepOutcome {
  std::string name, tag, metric;
  bool lower_is_better = false;  // of the metric
  std::vector<SweptPoint> points;
  std::optional<size_t> best;  // index of the best point by its mean last value, among those with values for all runs
};

// `points` with their runs' ids and seeds; `metric` "": the validation set's if there is one, else the most important
// one. NOT_FOUND: no run has that metric.
StatusOr<SweepOutcome> JudgeSweep(const std::string& db, std::vector<SweptPoint> points, const std::string& metric);

std::string SweepTable(const SweepOutcome& outcome, size_t columns);
std::string SweepJson(const SweepOutcome& outcome);
// A curve per point: the mean over its runs, for the rounds that all of them have.
Chart SweepChart(const SweepOutcome& outcome);

}  // namespace rivulet
