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
