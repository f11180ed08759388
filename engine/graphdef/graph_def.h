// Serialization of graphs as GraphDef, wire-compatible with TensorFlow's, to and from Graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Limits on the cost of a foreign graph; beyond them it is refused.
struct GraphLimits {
  size_t bytes = size_t{1} << 30;
  size_t nodes = 200'000;             // of the graph and all function bodies together
  size_t expanded_nodes = 1'000'000;  // with a function's body counted for every call
  size_t inputs_per_node = 65'536;
  size_t filled_bytes = size_t{256} << 20;  // of all tensors that are given as one repeated value
};

struct GraphImport {
  GraphLimits limits;
  // Tensors ("loss:0") and nodes ("init"). If any are given, only their dependencies are imported, so that a graph with
  // ops of TensorFlow's input pipeline or checkpoints elsewhere still loads. Empty: import everything.
  std::vector<std::string> roots;
};

// Returns the canonical bytes: called functions by name; nodes with inputs first (otherwise in order of creation),
// attributes by name, with explicit defaults. Equal graphs give equal bytes. Inferred shapes and source lines are not
// stored.
std::string SerializeGraph(const Graph& graph);

// Builds a graph from foreign bytes, after engine/graphdef/verify.h has found no fault. Version-1 reference variables
// (VariableV2, Variable, Assign, AssignAdd, AssignSub) become VarHandleOp, ReadVariableOp and AssignVariableOp.
// DATA_LOSS: not a GraphDef. INVALID_ARGUMENT, NOT_FOUND, UNIMPLEMENTED, RESOURCE_EXHAUSTED: the fault, with the node's
// name.
StatusOr<Graph> ParseGraph(std::string_view graph_def, const GraphImport& options = {});
// The same from GraphDef's text format (.pbtxt).
StatusOr<Graph> ParseGraphText(std::string_view text, const GraphImport& options = {});

}  // namespace rivulet
