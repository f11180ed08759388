// Transformations of gradients between ComputeGradients and ApplyGradients. Each function adds nodes and returns the
// new gradients in the same order; errors go to the scope.
#pragma once

#include <span>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/graph/scope.h"

namespace rivulet {

// Clips every element to [-limit, limit]. INVALID_ARGUMENT: a limit that is not positive.
std::vector<Output> ClipGradientsByValue(const Scope& scope, std::span<const Output> gradients, double limit);

// Multiplies all gradients by clip_norm / max(norm, clip_norm); norm is the length of their concatenation. Equals
// tf.clip_by_global_norm and, except for its 1e-6, torch.nn.utils.clip_grad_norm_. INVALID_ARGUMENT: a norm that is not
// positive, or gradients of several types.
std::vector<Output> ClipGradientsByNorm(const Scope& scope, std::span<const Output> gradients, double clip_norm);

}  // namespace rivulet
