// Extension of a graph by the nodes of a GraphDef, which may take inputs from nodes that the graph has.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// `graph` with the nodes and functions of `graph_def`. DATA_LOSS: no GraphDef. ALREADY_EXISTS: a name is taken. Others
// as ParseGraph.
StatusOr<Graph> ExtendedGraph(const Graph& graph, std::string_view graph_def);

}  // namespace rivulet
