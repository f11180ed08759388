// The keys of a scenario beyond its table of keys: options of the chosen algorithm, selection and attack.
#pragma once

#include <vector>

#include "federated/scenario/scenario.h"

namespace rivulet {

// ScenarioKeys(), followed by "algorithm.mu" and the like. Options with the same description are one key, and
// `applies_when` lists their pieces; each different description gives a separate key.
std::vector<ScenarioKey> KeysAndOptions();

}  // namespace rivulet
