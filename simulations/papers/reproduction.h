// Reproduction of a paper's number: its runs, of which the best setting counts, and whether the result is within
// bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "inspect/picture/chart.h"
#include "simulations/papers/paper.h"
#include "simulations/sweeps/planned_trials.h"

namespace rivulet {

// Extent of a reproduction. Runs in the history count too, even if they are not repeated now.
struct ReproduceOptions {
  std::string db = "./rivulet.sqlite";
  std::vector<std::string> settings;  // KEY=VALUE: restricts each grid to matching points; empty: all
  std::optional<int64_t> seeds;       // instead of the paper's
  std::optional<int64_t> workers;
  bool quick = false, gathered = false;
};

// Outcome of one result.
struct Reproduced {
  const PaperResult* result;
  SweepPoint point;               // the best of its grid
  std::vector<Curve> curves;      // of the best point's first run, or of any run
  std::optional<Spread> value;    // over its seeds; nullopt: the target was not reached
  size_t settings = 0, done = 0;  // of its grid: their number, and the number with all seeds done
  std::string missed;             // the violated bound; "": none
  double seconds = 0;             // of all its new runs
  // Otherwise, more settings may still do better, or be the first with a result.
  bool whole() const { return done == settings; }
};

// Runs the experiments of one result by `run`, restricted by `options`, and reads the history's results. A usage error:
// no point of its grid matches options.settings.
StatusOr<Reproduced> Reproduce(const Paper& paper, const PaperResult& result, const ReproduceOptions& options,
                               const RunTrials& run);

// Every violated bound, in words. For an incomplete result, only those that more settings cannot satisfy.
std::string Missed(const Reproduced& reproduced, const std::vector<Reproduced>& earlier);

// Formats a number with four digits, as papers do.
std::string NumberText(double value);

// A curve per result, for its best setting: over rounds, or over virtual time if a result is measured in that.
Chart ChartOf(const Paper& paper, const std::vector<Reproduced>& all);

}  // namespace rivulet
