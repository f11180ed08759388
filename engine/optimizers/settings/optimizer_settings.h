// The settings of every optimiser: names, ranges, meanings and usual values. Optimisers register theirs
// (engine/optimizers/kind.h). Scenarios make the keys client.optimizer.* of them, and need no graph for it.
//
// Tables are registered before main. Reading is thread-safe once main has begun.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/setting.h"

namespace rivulet {

struct OptimizerTable {
  std::string name;               // "sgd", "momentum", …
  std::string doc;                // completes "`name`: …" in a reference: "PyTorch's Adam"
  std::vector<Setting> settings;  // learning_rate first; weight_decay last
};

// A check fails where two have one name.
void RegisterOptimizerTable(OptimizerTable table);

// In byte order of their names.
std::vector<const OptimizerTable*> OptimizerTables();
// Null: no optimiser has that name.
const OptimizerTable* FindOptimizerTable(std::string_view name);
// Calls `visit` for every table, also for those that are registered after this call.
void ForEachOptimizerTable(std::function<void(const OptimizerTable&)> visit);

// Options that several optimisers have.
Setting MomentumSetting(double usual);
Setting RhoSetting();
Setting Beta1Setting();
Setting Beta2Setting();
Setting EpsilonSetting(double usual);
Setting InitialAccumulatorSetting(double usual);

}  // namespace rivulet
