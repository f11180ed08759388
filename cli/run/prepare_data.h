// Generation of data on first use, with progress on the terminal.
#pragma once

#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// PrepareData (setup/data.h), which says that it generates and how far it is, and which Ctrl-C stops.
// Before any Interrupt of the caller's.
Status PrepareDataHere(const Scenario& scenario);

}  // namespace rivulet
