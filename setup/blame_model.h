// Classification of an error in creating a run or its model: a usage error, or a fault of a file.
#pragma once

#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Classifies `error`, from creating a run or its model. It becomes a usage error if it is about the scenario's own
// model settings (an unknown preset or layer type, unknown variables to freeze), but not if it is about the content of
// a file.
Status BlameModel(const Scenario& scenario, Status error);

}  // namespace rivulet
