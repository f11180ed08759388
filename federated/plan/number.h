// Numbers of a plan's graphs: rates, factors and counts are float64 scalars.
#pragma once

#include "engine/graph/scope.h"

namespace rivulet {

inline Output Number(const Scope& scope, double value) { return scope.Const(Tensor::Scalar(value), "number"); }

}  // namespace rivulet
