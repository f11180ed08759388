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
  std::vector<std::string> settings;  // KEY=VALUE: of each grid only points that say so; empty: all
  std::optional<int64_t> seeds;       // in the place of the paper's
  std::optional<int64_t> workers;
  bool quick = false, gathered = false;
};

// Outcome of one result.
struct Reproduced {
  const PaperResult* result;
  SweepPoint point;               // the best of its grid
  std::vector<Curve> curves;      // of the first run of that, or of any that there is
  std::optional<Spread> value;    // over its seeds; none: the target was not reached
  size_t settings = 0, done = 0;  // of its grid: how many there are, and of how many all seeds are over
  std::string missed;             // the bound that it should have come out at; "": none
  double seconds = 0;             // of all its runs that were not there already
  // More settings may still do better, or be the first that did anything.
  bool whole() const { return done == settings; }
};

// Runs what `options` ask for of one result by `run`, and reads what the history has of it. A usage error: no point of
// its grid says what options.settings want.
StatusOr<Reproduced> Reproduce(const Paper& paper, const PaperResult& result, const ReproduceOptions& options,
                               const RunTrials& run);

// Every bound that its value does not keep, as words. Of a result that is not whole none that more of it could mend.
std::string Missed(const Reproduced& reproduced, const std::vector<Reproduced>& earlier);

// With the four digits that papers give.
std::string NumberText(double value);

// A curve a result: of the best setting, over rounds, or over virtual time where a result is measured in that.
Chart ChartOf(const Paper& paper, const std::vector<Reproduced>& all);

}  // namespace rivulet
