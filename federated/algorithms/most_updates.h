// Sizes of a scenario's cohorts: the maximum number of updates per version, and the rate of Poisson sampling. A Poisson
// cohort has a random size around server.clients_per_round, so its sums leave room for more than twice as many. A
// larger cohort ends the run.
#pragma once

#include <cstdint>
#include <variant>

#include "federated/scenario/scenario.h"

namespace rivulet {

inline constexpr char kPoissonSelector[] = "poisson";

inline int64_t MostUpdatesOf(const Scenario& scenario) {
  const int64_t planned = scenario.server.clients_per_round;
  return scenario.selection.name == kPoissonSelector ? 2 * planned + 50 : planned;
}

// Sampling rate of Poisson cohorts; 1 for other selections.
inline double SamplingRateOf(const Scenario& scenario) {
  const auto rate = scenario.selection.settings.find("rate");
  if (scenario.selection.name != kPoissonSelector || rate == scenario.selection.settings.end()) return 1;
  return std::get<double>(rate->second);
}

// Minimum number of versions between two tasks of one client under the selection "spaced"; 1 for others.
inline int64_t SeparationOf(const Scenario& scenario) {
  const auto separation = scenario.selection.settings.find("separation");
  if (scenario.selection.name != "spaced" || separation == scenario.selection.settings.end()) return 1;
  return std::get<int64_t>(separation->second);
}

}  // namespace rivulet
