// Queries about constants for passes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/passes/graph_editor.h"

namespace rivulet {

// The integers of a Const of type int32 or int64.
std::optional<std::vector<int64_t>> ConstantIntegers(Edge edge);

// The single value of all elements of a Const of type float32, float64, int32 or int64 (exact to the bit: zeros keep
// their sign). nullopt if it has different values, or none.
std::optional<double> Splat(Edge edge);

// The position of the permutation's axes; nullopt unless `edge` is a constant permutation of `rank` axes.
std::optional<std::vector<int64_t>> ConstantPermutation(Edge edge, int rank);

}  // namespace rivulet
