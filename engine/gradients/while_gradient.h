// The gradient of a loop is a loop that runs backwards.
//
// The forward While is replaced by one that also counts its iterations and pushes the loop variables that the gradient
// needs to lists, one element per iteration; whoever used the old one uses the new one. The backward While pops them,
// last iteration first, computes the iteration again and its gradient with GradientFunction, and sums the gradients of
// what every iteration reads: invariant loop variables, lists, and variables by their handles. So memory holds the loop
// variables of all iterations and nothing else, loops and branches nest freely, and no iterations at all leave the
// gradients as they came.
#pragma once

#include "engine/gradients/gradients.h"

namespace rivulet {

// UNIMPLEMENTED: a body with an effect, which computing it again would repeat; an op without gradient on the way.
Status WhileGradient(GradientContext& g);

}  // namespace rivulet
