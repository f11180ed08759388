#include "engine/layers/losses.h"

#include <algorithm>

#include "engine/layers/scalar.h"

namespace rivulet {
namespace {

bool AnyEmpty(std::span<const Output> outputs) {
  return std::any_of(outputs.begin(), outputs.end(), [](const Output& output) { return !output; });
}

Output SumOfAll(const Scope& scope, Output x) {
  const Output flat = scope.Op("Reshape", {x, scope.Const(Tensor::Of<int32_t>({1}, {-1}))});
  return scope.Op("Sum", {flat, scope.Const(Tensor::Of<int32_t>({1}, {0}))});
}

// clip_norm / max(norm, clip_norm).
Output Shrinking(const Scope& scope, Output norm, Output clip_norm) {
  return scope.Op("RealDiv", {clip_norm, scope.Op("Maximum", {norm, clip_norm})});
}

}  // namespace

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

Output NegativeLogLikelihood(const Scope& scope, Output log_probabilities, Output labels) {
  if (!log_probabilities || !labels) return {};
  if (!log_probabilities.shape().known_rank() || log_probabilities.shape().rank() != 2 ||
      log_probabilities.shape().dim(1) == kUnknownDim) {
    scope.Fail(InvalidArgument("log probabilities must be [batch, classes] with classes known, not {}",
                               log_probabilities.shape().ToString()));
    return {};
  }
  const Scope s = scope.SubScope("nll_loss");
  const auto classes = static_cast<int32_t>(log_probabilities.shape().dim(1));
  const Output one = ScalarLike(s, log_probabilities, 1), zero = ScalarLike(s, log_probabilities, 0);
  const Output chosen = s.Op("OneHot", {labels, s.Const(Tensor::Scalar(classes)), one, zero});
  // Chosen, not multiplied: 0 · -infinity must not count.
  const Output hot = s.Op("Greater", {chosen, zero});
  const Output kept = s.Op("SelectV2", {hot, log_probabilities, zero});
  return s.Op("Neg", {s.Op("Sum", {kept, s.Const(Tensor::Of<int32_t>({1}, {1}))})});
}

Output SigmoidCrossEntropyWithLogits(const Scope& scope, Output logits, Output labels) {
  if (!logits || !labels) return {};
  const Scope s = scope.SubScope("sigmoid_cross_entropy");
  // max(x, 0) - x z + log(1 + e^-|x|), with selects instead of Relu and Abs, whose gradients at 0 would add up wrongly.
  const Output zero = ScalarLike(s, logits, 0);
  const Output positive = s.Op("GreaterEqual", {logits, zero});
  const Output relu = s.Op("SelectV2", {positive, logits, zero});
  const Output minus_magnitude = s.Op("SelectV2", {positive, s.Op("Neg", {logits}), logits});
  const Output linear = s.Op("Sub", {relu, s.Op("Mul", {logits, labels})});
  return s.Op("AddV2", {linear, s.Op("Log1p", {s.Op("Exp", {minus_magnitude})})});
}

Output ClipByNorm(const Scope& scope, Output t, Output clip_norm) {
  if (!t || !clip_norm) return {};
  const Scope s = scope.SubScope("clip_by_norm");
  const Output squares = SumOfAll(s, s.Op("Square", {t}));
  // The root has no gradient at 0, and there nothing is clipped.
  const Output positive = s.Op("Greater", {squares, ScalarLike(s, t, 0)});
  const Output root = s.Op("Sqrt", {s.Op("SelectV2", {positive, squares, ScalarLike(s, t, 1)})});
  const Output norm = s.Op("SelectV2", {positive, root, squares});
  return s.Op("RealDiv", {s.Op("Mul", {t, clip_norm}), s.Op("Maximum", {norm, clip_norm})});
}

Output GlobalNorm(const Scope& scope, std::span<const Output> tensors) {
  if (AnyEmpty(tensors)) return {};
  if (tensors.empty()) {
    scope.Fail(InvalidArgument("the global norm of no tensors"));
    return {};
  }
  const Scope s = scope.SubScope("global_norm");
  std::vector<Output> halves;
  for (const Output& tensor : tensors) halves.push_back(s.Op("L2Loss", {tensor}));
  const Output half = halves.size() == 1 ? halves[0] : s.Op("AddN", halves);
  if (!half) return {};
  return s.Op("Sqrt", {s.Op("Mul", {half, ScalarLike(s, half, 2)})});
}

std::vector<Output> ClipByGlobalNorm(const Scope& scope, std::span<const Output> tensors, Output clip_norm) {
  if (AnyEmpty(tensors) || !clip_norm) return std::vector<Output>(tensors.size());
  const Scope s = scope.SubScope("clip_by_global_norm");
  const Output norm = GlobalNorm(s, tensors);
  if (!norm) return std::vector<Output>(tensors.size());
  // norm - norm is 0, or NaN where the norm is not finite.
  const Output factor = s.Op("AddV2", {Shrinking(s, norm, clip_norm), s.Op("Sub", {norm, norm})});
  std::vector<Output> clipped;
  for (const Output& tensor : tensors) clipped.push_back(s.Op("Mul", {tensor, factor}));
  return clipped;
}

}  // namespace rivulet
