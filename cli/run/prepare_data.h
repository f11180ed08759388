// Generation of data on first use, with progress on the terminal.
#pragma once

#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// PrepareData (setup/data.h) with messages, progress, and a stop by Ctrl-C. Call it before the caller creates an
// Interrupt.
Status PrepareDataHere(const Scenario& scenario);

}  // namespace rivulet
