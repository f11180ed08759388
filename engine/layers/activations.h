// Activation functions composed of other ops, for layers and importers. x has any floating type and any shape. Errors
// are kept in the scope.
#pragma once

#include "engine/graph/scope.h"

namespace rivulet {

// Returns x · sigmoid(x): Ramachandran et al. (2017), also called SiLU.
Output Swish(const Scope& scope, Output x);
// Returns x · min(max(x + 3, 0), 6) / 6: Howard et al., "Searching for MobileNetV3" (2019).
Output HardSwish(const Scope& scope, Output x);
// Returns x · tanh(softplus(x)): Misra (2019).
Output Mish(const Scope& scope, Output x);

}  // namespace rivulet
