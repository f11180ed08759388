// Data on first use: the data of [data.synth] is generated if data.train or data.test does not exist yet.
#pragma once

#include "engine/base/status.h"
#include "engine/data/progress.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Whether data.train names data that somebody has, and not a place for generated data: it was given without data.test,
// or by an override that chooses no generator (data.synth) with it.
bool TrainsOnOwnData(const Scenario& scenario);

// Makes the scenario's files exist, each complete under its name or not at all. NOT_FOUND: a file that does not exist
// and that nothing generates; own training data, by TrainsOnOwnData, or where a file gives both names and data.train is
// of another folder than data.test or beside records of nearly its name; a test set beside training data that were
// given and are there. Existing files are left as they are. `progress` may stop it.
Status PrepareData(const Scenario& scenario, const DataProgress& progress = {});

}  // namespace rivulet
