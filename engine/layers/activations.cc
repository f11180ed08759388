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

}  // namespace rivulet
