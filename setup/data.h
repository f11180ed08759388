// Data on first use: the data of [data.synth] is generated if data.train or data.test does not exist yet.
#pragma once

#include "engine/base/status.h"
#include "engine/data/progress.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Whether data.train names data that somebody has, and not a place for generated data: it was given without data.test,
// or by an override where the file gives data.test.
bool TrainsOnOwnData(const Scenario& scenario);

// Makes the scenario's files exist, each complete under its name or not at all. NOT_FOUND: a file that does not exist
// and that nothing generates, or own training data: by TrainsOnOwnData, or where a file gives both names, data.test is
// there, and data.train is of another folder or beside records of nearly its name. Existing files are left as they are.
// `progress` may stop it.
Status PrepareData(const Scenario& scenario, const DataProgress& progress = {});

}  // namespace rivulet
