// Scalar constants for functions that build graphs of any floating type.
#pragma once

#include "engine/graph/scope.h"

namespace rivulet {

// Returns `value` as a scalar of the floating type of `like`; an empty Output if `like` is empty.
Output ScalarLike(const Scope& scope, Output like, double value);

}  // namespace rivulet
