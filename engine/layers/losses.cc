#include "engine/layers/losses.h"

#include "engine/layers/scalar.h"

namespace rivulet {
Output SquaredError(const Scope& scope, Output prediction, Output target) {
  if (!prediction || !target) return {};
  return scope.Op("SquaredDifference", {prediction, target});
}

Output HuberLoss(const Scope& scope, Output prediction, Output target, double delta) {
  if (!prediction || !target) return {};
  if (!(delta > 0)) {
    scope.Fail(InvalidArgument("a Huber loss with delta {}; it must be above 0", delta));
    return {};
  }
  const Scope s = scope.SubScope("huber_loss");
  const Output error = s.Op("Abs", {s.Op("Sub", {prediction, target})});
  // With q = min(|e|, delta): q²/2 + delta (|e| - q).
  const Output bound = ScalarLike(s, prediction, delta);
  const Output near = s.Op("Minimum", {error, bound});
  const Output square = s.Op("Mul", {s.Op("Square", {near}), ScalarLike(s, prediction, 0.5)});
  return s.Op("AddV2", {square, s.Op("Mul", {s.Op("Sub", {error, near}), bound})});
}

Output SigmoidCrossEntropyWithLogits(const Scope& scope, Output logits, Output labels) {
  if (!logits || !labels) return {};
  const Scope s = scope.SubScope("sigmoid_cross_entropy");
  // max(x, 0) - x z + log(1 + e^-|x|), with selects, as the gradients of Relu and Abs at 0 would sum incorrectly.
  const Output zero = ScalarLike(s, logits, 0);
  const Output positive = s.Op("GreaterEqual", {logits, zero});
  const Output relu = s.Op("SelectV2", {positive, logits, zero});
  const Output minus_magnitude = s.Op("SelectV2", {positive, s.Op("Neg", {logits}), logits});
  const Output linear = s.Op("Sub", {relu, s.Op("Mul", {logits, labels})});
  return s.Op("AddV2", {linear, s.Op("Log1p", {s.Op("Exp", {minus_magnitude})})});
}

}  // namespace rivulet
