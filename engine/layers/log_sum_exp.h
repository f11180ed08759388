// The logarithm of a sum of exponentials, built from other ops.
#pragma once

#include <vector>

#include "engine/graph/scope.h"

namespace rivulet {

// log Σ exp(x) over the given axes, without overflow: the largest element is taken out first. -infinity where all
// elements are. Its gradient is the softmax over these axes.
Output LogSumExp(const Scope& scope, Output x, const std::vector<int32_t>& axes, bool keep_dims = false);

}  // namespace rivulet
