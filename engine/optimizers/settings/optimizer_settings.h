// The settings of every kind of optimiser, stated once: names, ranges, meanings, and the defaults that are usual for
// the kind. OptimizerSpec's defaults and checks follow from them, and so do the scenario keys client.optimizer.*.
#pragma once

#include <string>
#include <vector>

#include "engine/base/setting.h"

namespace rivulet {

struct OptimizerTable {
  std::string name;               // "sgd", "momentum", …
  std::string doc;                // completes "`name` …" in a reference: "descends by the gradient"
  std::vector<Setting> settings;  // learning_rate first; every one is a field of OptimizerSpec
};

// In the order of OptimizerSpec::Kind.
const std::vector<OptimizerTable>& OptimizerTables();

}  // namespace rivulet
