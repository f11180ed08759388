#include "engine/layers/activations.h"

#include "engine/layers/scalar.h"

namespace rivulet {

Output Swish(const Scope& scope, Output x) {
  if (!x) return {};
  const Scope s = scope.SubScope("swish");
  return s.Op("Mul", {x, s.Op("Sigmoid", {x})});
}

Output HardSwish(const Scope& scope, Output x) {
  if (!x) return {};
  const Scope s = scope.SubScope("hard_swish");
  const Output gate = s.Op("Relu6", {s.Op("AddV2", {x, ScalarLike(s, x, 3)})});
  return s.Op("Mul", {x, s.Op("Mul", {gate, ScalarLike(s, x, 1.0 / 6)})});
}

Output Mish(const Scope& scope, Output x) {
  if (!x) return {};
  const Scope s = scope.SubScope("mish");
  return s.Op("Mul", {x, s.Op("Tanh", {s.Op("Softplus", {x})})});
}

Output HardSigmoid(const Scope& scope, Output x, double alpha, double beta) {
  if (!x) return {};
  const Scope s = scope.SubScope("hard_sigmoid");
  const Output line = s.Op("AddV2", {s.Op("Mul", {x, ScalarLike(s, x, alpha)}), ScalarLike(s, x, beta)});
  return s.Op("ClipByValue", {line, ScalarLike(s, x, 0), ScalarLike(s, x, 1)});
}

Output PRelu(const Scope& scope, Output x, Output slope) {
  if (!x || !slope) return {};
  const Scope s = scope.SubScope("prelu");
  const Output below = s.Op("Mul", {slope, s.Op("Relu", {s.Op("Neg", {x})})});
  return s.Op("Sub", {s.Op("Relu", {x}), below});
}

Output ThresholdedRelu(const Scope& scope, Output x, double theta) {
  if (!x) return {};
  const Scope s = scope.SubScope("thresholded_relu");
  const Output above = s.Op("Greater", {x, ScalarLike(s, x, theta)});
  return s.Op("SelectV2", {above, x, ScalarLike(s, x, 0)});
}

Output Celu(const Scope& scope, Output x, double alpha) {
  if (!x) return {};
  if (!(alpha > 0)) {
    scope.Fail(InvalidArgument("Celu of '{}' with alpha {}; it must be above 0", x.name(), alpha));
    return {};
  }
  const Scope s = scope.SubScope("celu");
  const Output zero = ScalarLike(s, x, 0), factor = ScalarLike(s, x, alpha);
  const Output below = s.Op("Mul", {s.Op("Elu", {s.Op("RealDiv", {s.Op("Minimum", {x, zero}), factor})}), factor});
  return s.Op("AddV2", {s.Op("Relu", {x}), below});
}

Output EluWithAlpha(const Scope& scope, Output x, double alpha) {
  if (!x) return {};
  const Scope s = scope.SubScope("elu");
  if (alpha == 1) return s.Op("Elu", {x});
  const Output below = s.Op("Elu", {s.Op("Minimum", {x, ScalarLike(s, x, 0)})});
  return s.Op("AddV2", {s.Op("Relu", {x}), s.Op("Mul", {below, ScalarLike(s, x, alpha)})});
}

}  // namespace rivulet
