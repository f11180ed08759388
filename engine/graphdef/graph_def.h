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

// What a graph from outside may cost before it is refused.
struct GraphLimits {
  size_t bytes = size_t{1} << 30;
  size_t nodes = 200'000;             // of the graph, and of all function bodies together
  size_t expanded_nodes = 1'000'000;  // when a function's body is counted anew for every call
  size_t inputs_per_node = 65'536;
  size_t filled_bytes = size_t{256} << 20;  // of all tensors whose values are given once and repeated
};

struct GraphImport {
  GraphLimits limits;
  // Tensors ("loss:0") and nodes ("init"): with any given, only what these need is imported, so that a graph whose
  // other parts use ops of TensorFlow's input pipeline or checkpoints still loads. Empty: everything.
  std::vector<std::string> roots;
};

// The canonical bytes: functions that are called, by name; nodes with inputs first (otherwise in order of creation),
// attributes by name, defaults written out. Two equal graphs give equal bytes. Inferred shapes and source lines are not
// stored.
std::string SerializeGraph(const Graph& graph);

// Reads bytes from outside and builds the graph, after engine/graphdef/verify.h found no fault. Version-1 reference
// variables (VariableV2, Variable, Assign, AssignAdd, AssignSub) become VarHandleOp, ReadVariableOp and
// AssignVariableOp. DATA_LOSS: no GraphDef. INVALID_ARGUMENT, NOT_FOUND, UNIMPLEMENTED, RESOURCE_EXHAUSTED: the fault,
// naming the node.
StatusOr<Graph> ParseGraph(std::string_view graph_def, const GraphImport& options = {});
// The same from GraphDef's text format (.pbtxt).
StatusOr<Graph> ParseGraphText(std::string_view text, const GraphImport& options = {});

}  // namespace rivulet
