// A function at one call site: its result specs once all shapes are known, and the graph and signature of its body
// there. engine/compile/function_program.h compiles and runs them.
#pragma once

#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/function_call.h"
#include "engine/program/program.h"

namespace rivulet {

// Types and shapes of the results, all known; for a resource, its variable's shape. INVALID_ARGUMENT, NOT_FOUND,
// UNIMPLEMENTED as CompileProgram, each naming the function.
StatusOr<std::vector<TensorSpec>> ConcreteResults(const Function& function, std::span<const KnownArgument> arguments,
                                                  const CompileOptions& options);

// The same for a node that runs functions, by output; `inputs` are the node's. INVALID_ARGUMENT also if branches return
// different shapes, or a loop variable changes its shape between iterations.
StatusOr<std::vector<TensorSpec>> ConcreteOutputs(const Node& node, const Graph& graph,
                                                  std::span<const KnownArgument> inputs, const CompileOptions& options);

// The index of the input that is the node's output `port`, a resource; -1 if unknown.
int PassedInput(const Node& node, const Graph& graph, int port);

// A name for a handle's variable; equal names mean the same variable. "" if unknown.
std::string HandleName(Output handle, const Graph& graph);

// The variable name of a resource argument in the bindings of a function's program.
std::string ArgumentVariable(const Node& argument);

// A function's body for one call: the graph, and a signature whose feeds are the arguments that are not constants,
// whose fetches are the results that are not handles, and whose targets are the side effects.
struct FunctionSite {
  Graph body;
  Signature signature;
  std::vector<int> feeds, fetches;  // indices of arguments, indices of results
};
// `buffers`: by resource argument, in order; empty: separate buffers. `wanted`: as for CompileFunction.
StatusOr<FunctionSite> MakeFunctionSite(const Function& function, std::span<const KnownArgument> arguments,
                                        std::span<const int> buffers = {}, const std::vector<bool>& wanted = {});

}  // namespace rivulet
