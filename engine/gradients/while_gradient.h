// The gradient of a loop is a loop that runs backwards.
//
// The forward While is replaced by one that also counts its iterations. It pushes the loop variables that the gradient
// needs to lists, one element per iteration. All consumers of the old node move to the new one. The backward While pops
// the lists, last iteration first. It recomputes the iteration and its gradient with GradientFunction, and sums the
// gradients of values that every iteration reads: invariant loop variables, lists, and variables by their handles.
// Memory thus holds the loop variables of all iterations and nothing else. Loops and branches nest freely, and a loop
// without iterations leaves the gradients unchanged.
#pragma once

#include "engine/gradients/gradients.h"

namespace rivulet {

// Computes a loop's gradient. UNIMPLEMENTED: a body whose effect recomputation would repeat; an op without gradient.
Status WhileGradient(GradientContext& g);

}  // namespace rivulet
