// Dry run of a simulation: its clients, tasks and updates, their planned memory, and an estimated duration. The
// estimate scales the measured time of one task and one evaluation.
#pragma once

#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Prints it for so many workers; 0: one per core. Generates missing data, divides it, compiles the client's
// programs, trains one client and measures the initial model; writes no history. Errors as RunSetup, PlanMemory and
// Trainer.
Status DryRun(const Scenario& scenario, int workers, bool json);

}  // namespace rivulet
