// Classification of an error in creating a run or its model: a usage error, or a fault of a file.
#pragma once

#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// What `error` is where a run or its model could not be created: a usage error when it is what the scenario itself says
// of its model (a preset or a type of layer that there is not, variables to freeze that it has not), and not what a
// file of another one holds.
Status BlameModel(const Scenario& scenario, Status error);

}  // namespace rivulet
