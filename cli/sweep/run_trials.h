// The runs of a sweep as somebody at a terminal meets them: data is made first, each trial shows how far it is, and
// Ctrl-C ends them so that the same command goes on.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/run/options.h"
#include "cli/sweep/outcome.h"
#include "simulations/sweeps/points.h"
#include "simulations/sweeps/trials.h"

namespace rivulet {

struct RunTrialsOptions {
  ScenarioOptions scenario;  // to which each point adds its keys
  std::vector<SweepPoint> points;
  uint64_t first_seed = 1;
  int64_t seeds = 1;  // that follow each other
  TrialOptions trials;
};

// Every point under every seed. All are read before the first is run: what one of them says wrongly is a usage error.
// CANCELLED after Ctrl-C. A run that fails is told of, and the others go on.
StatusOr<std::vector<SweptPoint>> RunTrials(const RunTrialsOptions& options);

// Those of them that the history has and that are over, finished or failed; nothing is run, and no data is made. A point
// none of whose runs is there has none.
StatusOr<std::vector<SweptPoint>> GatherTrials(const RunTrialsOptions& options);

}  // namespace rivulet
