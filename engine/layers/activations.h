// Activation functions that are built of other ops, for layers and importers. x is of any floating type and any shape;
// errors stick in the scope.
#pragma once

#include "engine/graph/scope.h"

namespace rivulet {

// x · sigmoid(x): Ramachandran et al. (2017), and SiLU.
Output Swish(const Scope& scope, Output x);
// x · min(max(x + 3, 0), 6) / 6: Howard et al., "Searching for MobileNetV3" (2019).
Output HardSwish(const Scope& scope, Output x);
// x · tanh(softplus(x)): Misra (2019).
Output Mish(const Scope& scope, Output x);
// min(max(alpha x + beta, 0), 1). Keras has alpha = 0.2 or 1/6, beta = 0.5; ONNX 0.2 and 0.5.
Output HardSigmoid(const Scope& scope, Output x, double alpha, double beta);
// x where it is above 0, else slope · x, slope being learnt and broadcast to x. At 0 its gradient is 0, as in Keras.
Output PRelu(const Scope& scope, Output x, Output slope);
// x where x > theta, else 0.
Output ThresholdedRelu(const Scope& scope, Output x, double theta);
// x where it is above 0, else alpha (e^(x / alpha) - 1): Barron (2017). alpha > 0.
Output Celu(const Scope& scope, Output x, double alpha);
// x where it is above 0, else alpha (e^x - 1); the op Elu has alpha = 1.
Output EluWithAlpha(const Scope& scope, Output x, double alpha);

}  // namespace rivulet
