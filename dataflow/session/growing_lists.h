// Stacks of tensor lists whose length follows from values: a list that grows as it is written to, within a loop or not.
// No program can hold such a tensor.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Whether `node` of `graph` is such a stack.
bool IsGrowingStack(const Graph& graph, const Node& node);

// A graph in which each of these TensorListStacks has a TensorListGather beside it, by a Range up to the list's length,
// for all that take the stack. The Range is an op of which a size follows from values, so a run is cut there, and the
// program behind it knows the length.
struct GatheredLists {
  std::shared_ptr<const Graph> graph;           // the one that was given, if it has no such stack
  std::map<std::string, std::string> gathered;  // stack to gather
};
StatusOr<GatheredLists> GatherGrowingLists(std::shared_ptr<const Graph> graph);

// Whether a node can be run a second time in another program, so that a list of its need not leave its own: it has no
// effect, and reads no variable.
bool CanRunAgain(const Node& node);

}  // namespace rivulet
