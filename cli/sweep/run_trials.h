// The runs of a sweep as somebody at a terminal meets them: data is made first, each trial shows how far it is, and
// Ctrl-C ends them so that the same command goes on.
#pragma once

#include <vector>

#include "simulations/sweeps/planned_trials.h"

namespace rivulet {

// Runs every point under every seed. CANCELLED after Ctrl-C. A run that fails is reported, and the others go on.
StatusOr<std::vector<SweptPoint>> RunTrialsHere(const SweepPlan& plan);

}  // namespace rivulet
