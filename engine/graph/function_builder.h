// Builders of functions, and of nodes that run them, in C++. Tensors and variable handles of the surrounding graph that
// a body uses become arguments automatically.
//
//   Output y = Cond(scope, training, [&](const Scope& s) { return std::vector{s.Op("Mul", {x, mask})}; },
//                                    [&](const Scope&) { return std::vector{x}; })[0];
//   Output n = WhileLoop(scope, [&](const Scope& s, auto v) { return s.Op("Less", {v[0], limit}); },
//                               [&](const Scope& s, auto v) { return std::vector{s.Op("AddV2", {v[0], one})}; },
//                               {zero})[0];
//
// Errors are kept in the scope, as elsewhere: results are then empty, in the number that the bodies returned. Stateful
// ops in a body make the node the stateful variant (If instead of StatelessIf). Inside a body, as in a graph, only data
// and control edges order side effects (Scope::WithControl).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/function.h"
#include "engine/graph/scope.h"

namespace rivulet {

using BuildBranch = std::function<std::vector<Output>(const Scope& body)>;
using BuildBody = std::function<std::vector<Output>(const Scope& body, std::span<const Output> arguments)>;
using BuildCondition = std::function<Output(const Scope& body, std::span<const Output> variables)>;

// A function, and the tensors of the surrounding graph that it uses: its arguments after the given ones.
struct CapturingFunction {
  std::shared_ptr<const Function> function;  // null after an error
  std::vector<Output> captured;
};

// Creates a function with `arguments` of these types and shapes (sizes may be unknown). It is added to the scope's
// graph with a name derived from `name`.
CapturingFunction MakeFunction(const Scope& scope, std::string_view name, std::span<const TensorSpec> arguments,
                               const BuildBody& build);

// Adds PartitionedCall or StatefulPartitionedCall.
std::vector<Output> Call(const Scope& scope, const CapturingFunction& function, std::vector<Output> arguments,
                         std::string_view name = "Call");

// Adds If or StatelessIf: `then_branch` if `predicate` is true. Both must return equal numbers and types of results.
std::vector<Output> Cond(const Scope& scope, Output predicate, const BuildBranch& then_branch,
                         const BuildBranch& else_branch, std::string_view name = "Cond");

// Adds Case or StatelessCase: branches[index], or the last one if `index` is out of range.
std::vector<Output> SwitchCase(const Scope& scope, Output index, std::span<const BuildBranch> branches,
                               std::string_view name = "Case");

// Adds While or StatelessWhile: while `condition` of the loop variables is true, `body` computes their next values. A
// variable keeps its type and shape; `shapes`, if given, states for each variable which of its sizes are unknown.
std::vector<Output> WhileLoop(const Scope& scope, const BuildCondition& condition, const BuildBody& body,
                              std::vector<Output> initial, std::string_view name = "While",
                              std::vector<Shape> shapes = {});

// An unused name for a function that `scope` creates, derived from `base`.
std::string UniqueFunctionName(const Scope& scope, std::string_view base);

}  // namespace rivulet
