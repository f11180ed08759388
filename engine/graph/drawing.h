// Drawings of graphs: DOT for Graphviz, and the form of GraphDef in which TensorBoard shows shapes.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// "digraph …": a box per node with op, name and output shapes; control edges are dashed.
std::string ToDot(const Graph& graph);

// A copy whose nodes have their outputs' shapes in the attribute "_output_shapes", as TensorFlow's do. Constants of
// more than a few elements keep their shape but not their values, which drawings never show.
StatusOr<Graph> WithOutputShapes(const Graph& graph);

}  // namespace rivulet
