// Data on first use: what [data.synth] describes is generated when data.train or data.test does not exist yet.
#pragma once

#include "engine/base/status.h"
#include "engine/data/progress.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Makes the scenario's files exist, each complete under its name or not at all. NOT_FOUND: a file that does not exist
// and that nothing generates. Existing files are left as they are. `progress` may stop it.
Status PrepareData(const Scenario& scenario, const DataProgress& progress = {});

}  // namespace rivulet
