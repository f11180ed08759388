// Ops that a graph from another process may contain.
#pragma once

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Nothing that opens files, writes to this process's terminal or reads what was bound to it by name. PERMISSION_DENIED
// names the node and its op, in functions too.
Status CheckAllowedOps(const Graph& graph);

}  // namespace rivulet
