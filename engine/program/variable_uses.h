// Reads and writes of variables by nodes, including functions that they call.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace rivulet {

struct VariableUse {
  const Node* handle = nullptr;  // a VarHandleOp
  bool needs_value = false;      // read before it was certainly assigned here
  bool assigned = false;         // certainly has a value afterwards
  bool written = false;
};

// For `nodes` of `graph`, in execution order: one entry per variable, in order of first use. A handle alone also gives
// an entry.
std::vector<VariableUse> VariableUses(const Graph& graph, std::span<const Node* const> nodes);

// The node that names a resource tensor's resource: looks through Identity and similar ops. Never null.
const Node* ResourceHandleOf(Output resource);

}  // namespace rivulet
