// Gradients of functions, and of the nodes that run them.
//
// The gradient of a function is a function. It recomputes the parts of the forward pass that it needs, instead of
// receiving them. So a forward call stays unchanged, memory holds only the values that cross the call, and a branch
// that was not taken leaves nothing to fill in. The recomputation is exact because draws are counted and not consumed:
// a gradient call draws from the position of its forward node (attribute "_random_of"). It costs nothing for calls:
// both functions are inlined, and duplicate nodes are merged.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/function.h"

namespace rivulet {

// Returns a function of (arguments of `function` …, gradients of its results `results` …). It gives the gradient of
// each of `arguments`: floating tensors, or handles of floating variables, whose gradient has the variable's shape.
// Both lists are indices. UNIMPLEMENTED: an op without gradient on the path; a result computed by an op with an effect;
// a variable that the function changes and the gradient would read again.
// `handle_types`, by argument: the type of the handle's variable, for bodies from which it is unknown (a branch that
// does not read the variable that the other branch reads); kInvalid for other arguments. May be empty.
StatusOr<std::shared_ptr<const Function>> GradientFunction(const Function& function, std::span<const int> results,
                                                           std::span<const int> arguments, std::string name,
                                                           std::span<const DType> handle_types = {});

// Computes the gradient of PartitionedCall, If and Case, stateful or stateless.
Status FunctionCallGradient(GradientContext& g);

}  // namespace rivulet
