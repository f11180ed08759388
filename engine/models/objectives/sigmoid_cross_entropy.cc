// Cross-entropy of each score's sigmoid: of labels, or of classes with 1 for the class and 0 for the others. With a
// positive weight p the loss of a 1 counts p times, like PyTorch's pos_weight:
//
//   loss = −p · z · log σ(s) − (1 − z) · log(1 − σ(s))
#include "engine/layers/losses.h"
#include "engine/models/objectives/objective.h"

namespace rivulet {
namespace {

Output Weighted(const Scope& scope, Output scores, Output labels, const Settings& settings) {
  const Output loss = SigmoidCrossEntropyWithLogits(scope, scores, labels);
  const double weight = settings.number("positive_weight");
  if (weight == 1) return loss;
  // Of labels that are 0 or 1: 1 + (p − 1) · z.
  const Output more = scope.Op("Mul", {labels, scope.Const(static_cast<float>(weight - 1))});
  return scope.Op("Mul", {loss, scope.Op("AddV2", {more, scope.Const(1.0f)})}, {}, "weighted_loss");
}

Output SigmoidCrossEntropyOfClass(const Scope& scope, const ScoredTargets& targets, const Settings& settings) {
  return Weighted(scope, targets.scores, OneHotOf(scope, targets), settings);
}

Output SigmoidCrossEntropyOfLabels(const Scope& scope, const ScoredTargets& targets, const Settings& settings) {
  const Output labels = scope.Op("Cast", {targets.target}, {{"DstT", DType::kFloat32}}, "labels");
  return Weighted(scope, targets.scores, labels, settings);
}

Setting PositiveWeight() {
  Setting weight = Float("positive_weight", 1, "How much the loss of a 1 counts, where that of a 0 counts 1.").Above(0);
  weight.example = "3.5";
  return weight;
}

RIVULET_OBJECTIVE(sigmoid_registration, {.name = "sigmoid_cross_entropy",
                                         .doc = "cross-entropy of each score's sigmoid alone, for labels or a class",
                                         .settings = {PositiveWeight()},
                                         .of_class = SigmoidCrossEntropyOfClass,
                                         .of_labels = SigmoidCrossEntropyOfLabels});

}  // namespace
}  // namespace rivulet
