// A function at one call site: its result specs once all shapes are known, and the graph and signature of its body
// there. engine/compile/function_program.h compiles and runs them.
#pragma once

#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/function_call.h"
#include "engine/program/program.h"

namespace rivulet {

// Types and shapes of the results, all known: of a resource its variable's shape. INVALID_ARGUMENT, NOT_FOUND,
// UNIMPLEMENTED as CompileProgram, each naming the function.
StatusOr<std::vector<TensorSpec>> ConcreteResults(const Function& function, std::span<const KnownArgument> arguments,
                                                  const CompileOptions& options);

// The same of a node that runs functions, by output; `inputs` are the node's. INVALID_ARGUMENT also where branches give
// different shapes, or a loop variable changes its shape from one iteration to the next.
StatusOr<std::vector<TensorSpec>> ConcreteOutputs(const Node& node, const Graph& graph,
                                                  std::span<const KnownArgument> inputs, const CompileOptions& options);

// Which input of a node that runs functions its output `port`, a resource, is; -1 where that cannot be told.
int PassedInput(const Node& node, const Graph& graph, int port);

// Names the variable that a handle is of, as equal names tell; "" where nothing tells.
std::string HandleName(Output handle, const Graph& graph);

// How the bindings of a function's program name the variable of a resource argument.
std::string ArgumentVariable(const Node& argument);

// A function's body for one call: the graph, and a signature whose feeds are the arguments that are no constants, whose
// fetches are the results that are no handles, and whose targets are the effects.
struct FunctionSite {
  Graph body;
  Signature signature;
  std::vector<int> feeds, fetches;  // which argument, which result
};
// `buffers`, per resource argument in order, empty for one each; `wanted` as for CompileFunction.
StatusOr<FunctionSite> MakeFunctionSite(const Function& function, std::span<const KnownArgument> arguments,
                                        std::span<const int> buffers = {}, const std::vector<bool>& wanted = {});

}  // namespace rivulet
