// Runs of a sweep with progress on a terminal. Data is generated first, each trial shows its progress, and after Ctrl-C
// the same command resumes.
#pragma once

#include <vector>

#include "simulations/sweeps/planned_trials.h"

namespace rivulet {

// Runs every point under every seed. CANCELLED after Ctrl-C. A failed run is reported, and the others continue.
StatusOr<std::vector<SweptPoint>> RunTrialsHere(const SweepPlan& plan);

}  // namespace rivulet
