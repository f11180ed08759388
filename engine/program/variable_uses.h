// Reads and writes of variables by nodes, through functions too.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace rivulet {

struct VariableUse {
  const Node* handle = nullptr;  // a VarHandleOp
  bool needs_value = false;      // read before anything here has certainly given it a value
  bool assigned = false;         // has certainly a value afterwards
  bool written = false;
};

// Of `nodes` of `graph`, which come in the order in which they run; one entry per variable, in order of first use. A
// handle alone is an entry too.
std::vector<VariableUse> VariableUses(const Graph& graph, std::span<const Node* const> nodes);

// The node that names what a resource tensor stands for: through Identity and its like. Never null.
const Node* ResourceHandleOf(Output resource);

}  // namespace rivulet
