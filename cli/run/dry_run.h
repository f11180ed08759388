// What a simulation would be, without running it: its clients, tasks and updates, and the memory that they are planned
// to take.
#pragma once

#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Prints it for so many workers; 0: one per core. Makes data that is generated, deals it out, and compiles the client's
// programs; writes no history. Errors as RunSetup and PlanMemory.
Status DryRun(const Scenario& scenario, int workers, bool json);

}  // namespace rivulet
