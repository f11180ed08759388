// The most updates that a version of a scenario may have. A Poisson cohort has a random size around
// server.clients_per_round, so its sums leave room for more than twice as many; a larger cohort ends the run.
#pragma once

#include <cstdint>

#include "federated/scenario/scenario.h"

namespace rivulet {

inline constexpr char kPoissonSelector[] = "poisson";

inline int64_t MostUpdatesOf(const Scenario& scenario) {
  const int64_t planned = scenario.server.clients_per_round;
  return scenario.selection.name == kPoissonSelector ? 2 * planned + 50 : planned;
}

}  // namespace rivulet
