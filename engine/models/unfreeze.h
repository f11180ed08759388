// Conversion of a frozen graph's constants to variables. TensorFlow's freezing (convert_variables_to_constants) writes
// weights into a graph as Const nodes. After the conversion the model can be trained and its weights exchanged.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// What a floating constant of at least one axis is, and by what it is told.
struct FrozenConstant {
  std::string name;
  std::string role;  // "weight", "running statistic" or "constant"
  std::string why;   // "input 1 of MatMul 'dense/MatMul'"
};

struct UnfrozenGraph {
  Graph graph;
  std::vector<std::string> variables;  // names of the constants that became variables, in the graph's order
  std::vector<FrozenConstant> constants;
};

// A copy of `graph` in which floating constants of rank 1 and more that stand where weights stand are variables of the
// same names, whose first values are the constants (target "init"): filters of convolutions, the second operand of
// products, biases, scales and offsets, tables that are gathered from, directly, through ops that only rearrange, or as
// arguments of loops, branches and calls; and constants whose name tells that they were read as variables. The means
// and variances of batch normalisations become variables of the segment "shared", which a step does not train.
// Everything else, names included, stays.
StatusOr<UnfrozenGraph> Unfreeze(const Graph& graph);

}  // namespace rivulet
