// The settings of every optimiser: names, ranges, meanings and defaults. Optimisers register theirs
// (engine/optimizers/kind.h). Scenarios derive the keys client.optimizer.* from them, without needing a graph.
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

// Registers a table. A check fails if two have the same name.
void RegisterOptimizerTable(OptimizerTable table);

// Returns all tables in byte order of their names.
std::vector<const OptimizerTable*> OptimizerTables();
// Finds a table by an optimiser's name; null if there is none.
const OptimizerTable* FindOptimizerTable(std::string_view name);
// Calls `visit` for every table, including tables that are registered later.
void ForEachOptimizerTable(std::function<void(const OptimizerTable&)> visit);

// Settings of several optimisers.
Setting MomentumSetting(double usual);
Setting RhoSetting();
Setting Beta1Setting();
Setting Beta2Setting();
Setting EpsilonSetting(double usual);
Setting InitialAccumulatorSetting(double usual);

}  // namespace rivulet
