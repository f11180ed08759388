// Conversion of a frozen graph's constants to variables. TensorFlow's freezing (convert_variables_to_constants) writes
// weights into a graph as Const nodes. After the conversion the model can be trained and its weights exchanged.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// The role of a floating constant with at least one axis, and the evidence for it.
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

// Returns a copy of `graph` in which floating constants of rank 1 and more in the place of weights are variables of the
// same names. Their initial values are the constants (target "init"). Such places are filters of convolutions, second
// operands of products, biases, scales, offsets and gathered tables: directly, behind ops that only rearrange, or as
// arguments of loops, branches and calls. Constants whose names show that they were read as variables also count. Means
// and variances of batch normalisations become variables of the segment "shared", which a step does not train. All
// else, including names, is unchanged.
StatusOr<UnfrozenGraph> Unfreeze(const Graph& graph);

}  // namespace rivulet
