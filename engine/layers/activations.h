// Activation functions composed of other ops, for layers and importers. x has any floating type and any shape; errors
// stick in the scope.
#pragma once

#include "engine/graph/scope.h"

namespace rivulet {

// x · sigmoid(x): Ramachandran et al. (2017), and SiLU.
Output Swish(const Scope& scope, Output x);
// x · min(max(x + 3, 0), 6) / 6: Howard et al., "Searching for MobileNetV3" (2019).
Output HardSwish(const Scope& scope, Output x);
// x · tanh(softplus(x)): Misra (2019).
Output Mish(const Scope& scope, Output x);

}  // namespace rivulet
