// A training step as graph nodes: the updates of all variables by their gradients.
#pragma once

#include <span>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"
#include "engine/optimizers/optimizer.h"

namespace rivulet {

// Adds the nodes that move each variable (a VarHandleOp's output) against its gradient. Slots are variables
// "<variable>/<slot>" of segment "slot", and the decayed betas of Adam and its kin "beta1_power" and "beta2_power"; the
// target `init`, which is added where the graph has none, gives them their first values. Returns a NoOp that runs after
// all updates; an update runs after every read of its variable that some gradient depends on, because it waits for all
// gradients. INVALID_ARGUMENT: sizes differ, a variable of another type or shape than its gradient, what
// Optimizer::Create refuses.
StatusOr<Node*> ApplyGradients(const Scope& scope, const OptimizerSpec& spec, std::span<const Output> variables,
                               std::span<const Output> gradients);

}  // namespace rivulet
