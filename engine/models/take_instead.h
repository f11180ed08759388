// Something put between a placeholder and whoever takes it.
#pragma once

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Whatever took `before` takes `after`, but for the node `made`, which may be null: that from which `after` comes.
// Errors as Graph::ReplaceInput.
Status TakeInstead(Graph& graph, Output before, Output after, const Node* made);

}  // namespace rivulet
