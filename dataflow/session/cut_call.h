// Nodes that run functions (calls, branches, loops) within which a size follows from values. No program can run such a
// function, so a session runs it as it runs a graph: cut into parts, once for each call and each turn of a loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/function_call.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct RunPlan;  // dataflow/session/run_plan.h

// A function of a cut call.
struct CutFunction {
  std::shared_ptr<const RunPlan> plan;  // null: nothing to run, its results are its arguments
  std::vector<int> arguments;           // per feed of the plan
  std::vector<int> fetch_of;            // per result: its fetch, or -1
  std::vector<int> argument_of;         // per result without a fetch: the argument that it hands back
};
// A node that is run so. Arguments and results count those that are no handles of variables.
struct CutCall {
  FunctionCall call;
  std::vector<CutFunction> functions;
  uint32_t index = 0;  // among the nodes that run functions: tells its draws from all others
};

// An op whose outputs' sizes follow from values that are not known before it runs.
bool HasDynamicSizes(const Node& node);
// Whether a function that `node` runs, or one that this calls in turn, has such an op.
bool MustBeCut(const Graph& graph, const Node& node);

// The body of function `name` of `graph` as `node` calls it, with the variables of node's handles in the place of
// resource arguments. UNIMPLEMENTED: an argument or result that is a list, or a result that is a handle.
struct CutBody {
  std::shared_ptr<const Graph> graph;
  std::vector<std::string> feeds, fetches, targets;
  CutFunction function;  // without its plan
};
StatusOr<CutBody> BodyOfCut(const Graph& graph, const Node& node, const FunctionCall& call, size_t function);

}  // namespace rivulet
