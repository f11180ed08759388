// A training step as graph nodes: the updates of all variables by their gradients.
#pragma once

#include <span>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"
#include "engine/optimizers/optimizer.h"

namespace rivulet {

// Adds the nodes that move each variable (a VarHandleOp's output) against its gradient. Slots are variables
// "<variable>/<slot>" of segment "slot". The decayed betas of Adam and related optimisers are "beta1_power" and
// "beta2_power". The target `init`, added if missing, sets their initial values. Returns a NoOp that runs after all
// updates. Every update waits for all gradients, so it runs after all reads of its variable that a gradient needs.
// INVALID_ARGUMENT: lists of different lengths, a variable's type or shape that differs from its gradient's, or a spec
// that Optimizer::Create refuses.
StatusOr<Node*> ApplyGradients(const Scope& scope, const OptimizerSpec& spec, std::span<const Output> variables,
                               std::span<const Output> gradients);

}  // namespace rivulet
