// Nodes that run functions (calls, branches, loops) in which a size depends on values. No program can run such a
// function, so the session runs it like a graph: cut into parts, once for each call and each iteration of a loop.
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
  std::shared_ptr<const RunPlan> plan;  // null: nothing to run; the results are arguments
  std::vector<int> arguments;           // per feed of the plan
  std::vector<int> fetch_of;            // per result: its fetch, or -1
  std::vector<int> argument_of;         // per result without a fetch: the argument that it returns
};
// A node that is run in this way. Arguments and results exclude handles of variables.
struct CutCall {
  FunctionCall call;
  std::vector<CutFunction> functions;
  uint32_t index = 0;  // index among the nodes that run functions; separates its random draws from others
};

// Returns true if the op's output sizes depend on values that are unknown before it runs.
bool HasDynamicSizes(const Node& node);
// Returns true if a function that `node` runs, directly or indirectly, has such an op.
bool MustBeCut(const Graph& graph, const Node& node);

// The body of function `name` of `graph` as called by `node`, with the variables of node's handles in place of resource
// arguments. UNIMPLEMENTED: an argument or result that is a list, or a result that is a handle.
struct CutBody {
  std::shared_ptr<const Graph> graph;
  std::vector<std::string> feeds, fetches, targets;
  CutFunction function;  // without its plan
};
StatusOr<CutBody> BodyOfCut(const Graph& graph, const Node& node, const FunctionCall& call, size_t function);

}  // namespace rivulet
