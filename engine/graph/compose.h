// Import of one graph into another, and extraction of a subgraph.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Copies every node of `from` into `into`, named "<prefix>/<name>" (an empty prefix keeps names). Variables keep their
// names: a VarHandleOp without shared_name gets its old node name as shared_name. Nodes that read or change state
// (variables, random numbers) wait for `control_roots` (nodes of `into`), so that the copy runs after them. Handles,
// constants, placeholders and nodes computed from these alone do not wait. `new_names` (optional) receives old node
// name → new name.
// A node with one output that `instead` names is not copied: that output of `into` replaces it. So two copies can share
// their placeholders, or use other variables.
// ALREADY_EXISTS: a name is taken in `into`; nothing is copied then. INVALID_ARGUMENT: an invalid prefix, or a
// replacement that does not fit its consumers.
Status ImportInto(Graph& into, const Graph& from, std::string_view prefix, std::span<Node* const> control_roots = {},
                  std::map<std::string, std::string>* new_names = nullptr,
                  const std::map<std::string, Output, std::less<>>& instead = {});

// A copy of the nodes that `targets` need, with their names.
StatusOr<Graph> Subgraph(const Graph& graph, std::span<Node* const> targets);

}  // namespace rivulet
