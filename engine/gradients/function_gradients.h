// Gradients of functions, and of the nodes that run them.
//
// The gradient of a function is a function: it computes again what it needs of the forward pass, rather than being
// handed it. So a forward call stays as it was built, memory holds only what crosses the call, and a branch that was
// not taken leaves nothing to fill in; and it is exact, because draws are counted and not consumed: a gradient call
// draws from the place of its forward node (the attribute "_random_of"). Calls cost nothing for it: both are inlined,
// and what is computed twice is merged.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/function.h"

namespace rivulet {

// The function of (arguments of `function` …, gradients of its results `results` …) that gives the gradient of each of
// `arguments`: floating tensors, or handles of floating variables, whose gradient has the variable's shape. Both are
// indices. UNIMPLEMENTED: an op without gradient on the way; a result that an op with an effect gives; a variable that
// the function changes and the gradient would read again.
// `handle_types`, by argument: the type of the variable whose handle it is, for bodies that do not tell (a branch that
// does not read what the other one reads); kInvalid for others, empty for none.
StatusOr<std::shared_ptr<const Function>> GradientFunction(const Function& function, std::span<const int> results,
                                                           std::span<const int> arguments, std::string name,
                                                           std::span<const DType> handle_types = {});

// Of PartitionedCall, If and Case, with and without state.
Status FunctionCallGradient(GradientContext& g);

}  // namespace rivulet
