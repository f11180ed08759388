// Stacks of tensor lists whose length depends on values: a list that grows as it is written, within a loop or not. No
// program can hold such a tensor.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Returns true if `node` of `graph` is such a stack.
bool IsGrowingStack(const Graph& graph, const Node& node);

// A graph in which each such TensorListStack has an equivalent TensorListGather, with a Range up to the list's length
// as indices, for the stack's consumers. The size of the Range depends on a value, so a run is cut there, and the
// following program knows the length.
struct GatheredLists {
  std::shared_ptr<const Graph> graph;           // the given graph if it has no such stack
  std::map<std::string, std::string> gathered;  // stack → gather
};
StatusOr<GatheredLists> GatherGrowingLists(std::shared_ptr<const Graph> graph);

// Returns true if a node can run a second time in another program, so that a list of it need not leave its own program:
// it has no side effect, and reads no variable.
bool CanRunAgain(const Node& node);

}  // namespace rivulet
