// Import of one graph into another, and extraction of a subgraph.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Copies every node of `from` into `into`, named "<prefix>/<name>" (an empty prefix leaves names as they are).
// Variables keep their names: a VarHandleOp without shared_name gets its old node name as shared_name. Nodes that read
// or change state (variables, random numbers) wait for `control_roots` (nodes of `into`), so that the copy runs after
// them; the handles themselves, constants, placeholders and what is computed from these alone wait for nothing.
// `new_names` (optional) receives old node name → new one.
// A node of one output that `instead` names is not copied: what it gave comes from that output of `into`. So two copies
// share their placeholders, or take their variables from other places.
// ALREADY_EXISTS: a name is taken in `into`; nothing has been copied then. INVALID_ARGUMENT: a prefix that is no name,
// or what `instead` gives does not fit where it is used.
Status ImportInto(Graph& into, const Graph& from, std::string_view prefix, std::span<Node* const> control_roots = {},
                  std::map<std::string, std::string>* new_names = nullptr,
                  const std::map<std::string, Output, std::less<>>& instead = {});

// A copy of what `targets` need, names kept.
StatusOr<Graph> Subgraph(const Graph& graph, std::span<Node* const> targets);

}  // namespace rivulet
