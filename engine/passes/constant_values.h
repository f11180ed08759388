// Queries of constants for passes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/passes/graph_editor.h"

namespace rivulet {

// The integers of a Const of int32 or int64.
std::optional<std::vector<int64_t>> ConstantIntegers(Edge edge);

// The one value that a Const of float32, float64, int32 or int64 holds everywhere (bit for bit: a zero keeps its sign).
// nullopt where it holds several, or none.
std::optional<double> Splat(Edge edge);

// The position of the permutation's axes; nullopt unless `edge` is a constant permutation of `rank` axes.
std::optional<std::vector<int64_t>> ConstantPermutation(Edge edge, int rank);

}  // namespace rivulet
