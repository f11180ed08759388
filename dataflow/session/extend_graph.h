// Extension of a graph by the nodes of a GraphDef, which may take inputs from existing nodes.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Returns `graph` with the nodes and functions of `graph_def` added. DATA_LOSS: not a GraphDef. ALREADY_EXISTS: a name
// is taken. Others as ParseGraph.
StatusOr<Graph> ExtendedGraph(const Graph& graph, std::string_view graph_def);

}  // namespace rivulet
