// Data on first use: the data of [data.synth] is generated if data.train or data.test does not exist yet.
#pragma once

#include "engine/base/status.h"
#include "engine/data/progress.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Whether data.train names a user's own data and not a place for generated data: it was given without data.test, or by
// an override without a generator (data.synth).
bool TrainsOnOwnData(const Scenario& scenario);

// Generates the scenario's missing files, each complete under its name or not at all. NOT_FOUND: a missing file without
// a generator; missing own training data (TrainsOnOwnData, or a file gives both names, and data.train is in another
// folder than data.test or beside records with nearly its name); a missing test set beside existing training data that
// were given. Existing files are unchanged. `progress` may stop it.
Status PrepareData(const Scenario& scenario, const DataProgress& progress = {});

}  // namespace rivulet
