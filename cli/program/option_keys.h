// The keys that a scenario takes beside its table of keys: options of the chosen algorithm, selection and attack.
#pragma once

#include <vector>

#include "federated/scenario/scenario.h"

namespace rivulet {

// ScenarioKeys() and, behind them, "algorithm.mu" and the like. An option that pieces describe alike is one key, which
// `applies_when` says for whom; one that they describe in different words is a key for each description.
std::vector<ScenarioKey> KeysAndOptions();

}  // namespace rivulet
