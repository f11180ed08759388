// What a simulation would be, without running it: its clients, tasks and updates, the memory that they are planned to
// take, and how long it would last by what one task and one evaluation take here.
#pragma once

#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Prints it for so many workers; 0: one per core. Makes data that is generated, deals it out, compiles the client's
// programs, trains one client and measures the initial model; writes no history. Errors as RunSetup, PlanMemory and
// Trainer.
Status DryRun(const Scenario& scenario, int workers, bool json);

}  // namespace rivulet
