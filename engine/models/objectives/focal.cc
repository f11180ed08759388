// Focal loss (Lin et al. 2017, arXiv:1708.02002, equations 4 and 5): examples that are right already count less.
//
//   of a class y:   loss = w_y · (1 − p)^γ · CE,                    p = e^(−CE), the softmax of y
//   of labels:      loss = α_z · (1 − p_z)^γ · CE,                  p_z = e^(−CE), α_1 = α, α_0 = 1 − α
//
// where α below 0 leaves α_z out, as torchvision's sigmoid_focal_loss has it.
#include "engine/layers/losses.h"
#include "engine/models/objectives/objective.h"

namespace rivulet {
namespace {

// (1 − e^−CE)^γ · CE. 1 − e^−CE by Expm1 keeps the digits of a small CE; γ = 0 is CE itself.
Output Focused(const Scope& scope, Output cross_entropy, const Settings& settings) {
  const double gamma = settings.number("focal_gamma");
  if (gamma == 0) return cross_entropy;
  const Output wrong = scope.Op("Neg", {scope.Op("Expm1", {scope.Op("Neg", {cross_entropy})})}, {}, "wrong");
  // A power's gradient divides by its base: 0 has the limit's instead.
  const Output least = scope.Const(1e-30f, "wrong/least");
  const Output power = scope.Op("Pow", {scope.Op("Maximum", {wrong, least}), scope.Const(static_cast<float>(gamma))});
  return scope.Op("Mul", {power, cross_entropy}, {}, "focal_loss");
}

Output FocalLossOfClass(const Scope& scope, const ScoredTargets& targets, const Settings& settings) {
  const Output cross_entropy =
      scope.Op("SparseSoftmaxCrossEntropyWithLogits", {targets.scores, targets.target}, {}, "cross_entropy");
  const Output loss = Focused(scope, cross_entropy, settings);
  const Output weights = WeightsOfRows(scope, targets, settings);
  return weights ? scope.Op("Mul", {loss, weights}, {}, "weighted_loss") : loss;
}

Output FocalLossOfLabels(const Scope& scope, const ScoredTargets& targets, const Settings& settings) {
  if (!settings.integers("class_weights").empty()) {
    scope.Fail(InvalidArgument("model.class_weights weighs classes, and the target is \"labels\"; set focal_alpha"));
    return {};
  }
  const Output labels = scope.Op("Cast", {targets.target}, {{"DstT", DType::kFloat32}}, "labels");
  const Output loss = Focused(scope, SigmoidCrossEntropyWithLogits(scope, targets.scores, labels), settings);
  const double alpha = settings.number("focal_alpha");
  if (alpha < 0) return loss;
  // (1 − α) + (2 α − 1) · z.
  const Output more = scope.Op("Mul", {labels, scope.Const(static_cast<float>(2 * alpha - 1))});
  const Output weights = scope.Op("AddV2", {more, scope.Const(static_cast<float>(1 - alpha))});
  return scope.Op("Mul", {loss, weights}, {}, "weighted_loss");
}

Setting Gamma() {
  Setting gamma = Float("focal_gamma", 2, "Exponent γ of the focal loss; 0: cross-entropy.").Between(0, 10);
  gamma.example = "1.5";
  return gamma;
}

Setting Alpha() {
  Setting alpha =
      Float("focal_alpha", -1, "Of labels: weight of a 1, where a 0 has 1 less this; -1: both count 1.").Between(-1, 1);
  alpha.example = "0.25";
  return alpha;
}

RIVULET_OBJECTIVE(focal_registration, {.name = "focal",
                                       .doc = "focal loss, for rare classes or labels",
                                       .settings = {ClassWeights(), Gamma(), Alpha()},
                                       .of_class = FocalLossOfClass,
                                       .of_labels = FocalLossOfLabels});

}  // namespace
}  // namespace rivulet
