// Insertion of a node between a placeholder and its consumers.
#pragma once

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Every consumer of `before` reads `after` instead, except the node `made` (may be null), which computes `after`.
// Errors as Graph::ReplaceInput.
Status ReplaceInputOfConsumers(Graph& graph, Output before, Output after, const Node* made);

}  // namespace rivulet
