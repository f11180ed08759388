// Builders of functions, and of the nodes that run them, in C++. Tensors and variable handles of the surrounding graph
// that a body uses become arguments automatically.
//
//   Output y = Cond(scope, training, [&](const Scope& s) { return std::vector{s.Op("Mul", {x, mask})}; },
//                                    [&](const Scope&) { return std::vector{x}; })[0];
//   Output n = WhileLoop(scope, [&](const Scope& s, auto v) { return s.Op("Less", {v[0], limit}); },
//                               [&](const Scope& s, auto v) { return std::vector{s.Op("AddV2", {v[0], one})}; },
//                               {zero})[0];
//
// Errors stick in the scope, as elsewhere: results are then empty, in the number that the bodies gave. Stateful ops in
// a body make the node the stateful variant (If instead of StatelessIf). Inside a body, as in a graph, only data and
// control edges order effects (Scope::WithControl).
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

// A function and what it uses of the graph that it was made in: the arguments after the given ones.
struct CapturingFunction {
  std::shared_ptr<const Function> function;  // null after an error
  std::vector<Output> captured;
};

// A function of `arguments`, of these types and shapes (unknown sizes are unknown). It is added to the scope's graph
// under a name after `name`.
CapturingFunction MakeFunction(const Scope& scope, std::string_view name, std::span<const TensorSpec> arguments,
                               const BuildBody& build);

// PartitionedCall or StatefulPartitionedCall.
std::vector<Output> Call(const Scope& scope, const CapturingFunction& function, std::vector<Output> arguments,
                         std::string_view name = "Call");

// If or StatelessIf: `then_branch` where `predicate` holds. Both give as many results, of the same types.
std::vector<Output> Cond(const Scope& scope, Output predicate, const BuildBranch& then_branch,
                         const BuildBranch& else_branch, std::string_view name = "Cond");

// Case or StatelessCase: branches[index], the last one where there is none of this index.
std::vector<Output> SwitchCase(const Scope& scope, Output index, std::span<const BuildBranch> branches,
                               std::string_view name = "Case");

// While or StatelessWhile: as long as `condition` of the loop variables holds they become `body` of them. A variable
// keeps its type and shape; `shapes`, where given, says per variable which of its sizes are unknown.
std::vector<Output> WhileLoop(const Scope& scope, const BuildCondition& condition, const BuildBody& body,
                              std::vector<Output> initial, std::string_view name = "While",
                              std::vector<Shape> shapes = {});

// A name for a function that `scope` makes, after `base`, which no function of the graph has.
std::string UniqueFunctionName(const Scope& scope, std::string_view base);

}  // namespace rivulet
