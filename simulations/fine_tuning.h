// Training on the server's data (server.fine_tune) by the clients' trainer: for a simulation, a coordinator's process,
// and a replay.
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "federated/server_state/server_training.h"
#include "setup/run_setup.h"

namespace rivulet {

// Null where the scenario asks for none. It trains in the order and with the batches of an epoch of federated
// averaging, under a stream of the run's seed that no client has, on a thread of its own.
// NOT_FOUND: no such file. INVALID_ARGUMENT: a model without a graph, or with layers that clients keep for themselves.
StatusOr<std::unique_ptr<ServerTraining>> FineTuning(RunSetup& setup);

}  // namespace rivulet
