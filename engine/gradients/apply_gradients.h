// Optimisers as graph nodes: what changes variables once their gradients are known.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"

namespace rivulet {

struct OptimizerSpec {
  enum class Kind { kSgd, kMomentum };
  Kind kind = Kind::kSgd;
  double learning_rate = 0.01;
  double momentum = 0.9;  // kMomentum: accumulator = momentum · accumulator + gradient
  bool nesterov = false;  // kMomentum: moves by gradient + momentum · accumulator
};

// Adds the nodes that move each variable (a VarHandleOp's output) against its gradient: ResourceApplyGradientDescent,
// or ResourceApplyMomentum with a slot variable "<variable>/Momentum" of segment "slot", set to zero by the target
// `init`, which is added where the graph has none. Returns a NoOp that runs after all updates; an update runs after
// every read of its variable that some gradient depends on, because it waits for all gradients. INVALID_ARGUMENT: sizes
// differ, a variable of another type or shape than its gradient, a learning rate or momentum that is negative or not
// finite.
StatusOr<Node*> ApplyGradients(const Scope& scope, const OptimizerSpec& optimizer, std::span<const Output> variables,
                               std::span<const Output> gradients);

}  // namespace rivulet
