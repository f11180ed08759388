// Training on the server's data (server.fine_tune) by the clients' trainer: for a simulation, a coordinator's process,
// and a replay.
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "federated/server_state/server_training.h"
#include "setup/run_setup.h"

namespace rivulet {

// Null if the scenario has none. It trains in the order and with the batches of an epoch of federated averaging, with a
// separate random stream of the run's seed, on a separate thread. NOT_FOUND: no such file. INVALID_ARGUMENT: a model
// without a graph, or with layers that clients keep for themselves.
StatusOr<std::unique_ptr<ServerTraining>> FineTuning(RunSetup& setup);

}  // namespace rivulet
