// Cross-entropy of the softmax over the scores. With label smoothing ε (Szegedy et al. 2016, arXiv:1512.00567, section
// 7) and class weights w, of an example of class y, as PyTorch has it:
//
//   loss = (1 − ε) · w_y · CE(y) + (ε / classes) · Σ_c w_c · CE(c),   CE(c) = logsumexp(s) − s_c
#include "engine/models/objectives/objective.h"

namespace rivulet {
namespace {

// The op wants a distribution, t / Σ t with t_c = w_c · ((1 − ε) · [c = y] + ε / classes); its loss is times Σ t then.
Output Smoothed(const Scope& scope, const ScoredTargets& targets, Output weights, double smoothing) {
  const double even = smoothing / static_cast<double>(targets.classes);
  Output target = scope.Op("Mul", {OneHotOf(scope, targets), scope.Const(static_cast<float>(1 - smoothing))});
  target = scope.Op("AddV2", {target, scope.Const(static_cast<float>(even))}, {}, "smoothed");
  if (!weights) return scope.Op("SoftmaxCrossEntropyWithLogits", {targets.scores, target}, {}, "cross_entropy");
  target = scope.Op("Mul", {target, weights});
  const Output axis = scope.Const(Tensor::Of<int32_t>({1}, {1}));
  const Output sums = scope.Op("Sum", {target, axis}, {{"keep_dims", true}}, "smoothed/sums");
  const Output loss = scope.Op("SoftmaxCrossEntropyWithLogits", {targets.scores, scope.Op("RealDiv", {target, sums})},
                               {}, "cross_entropy");
  return scope.Op("Mul", {loss, scope.Op("Squeeze", {sums}, {{"squeeze_dims", std::vector<int64_t>{1}}})}, {},
                  "weighted_loss");
}

Output SoftmaxCrossEntropyOfClass(const Scope& scope, const ScoredTargets& targets, const Settings& settings) {
  const double smoothing = settings.number("label_smoothing");
  if (smoothing > 0) return Smoothed(scope, targets, WeightsOfClasses(scope, targets, settings), smoothing);
  const Output loss =
      scope.Op("SparseSoftmaxCrossEntropyWithLogits", {targets.scores, targets.target}, {}, "cross_entropy");
  const Output weights = WeightsOfRows(scope, targets, settings);
  return weights ? scope.Op("Mul", {loss, weights}, {}, "weighted_loss") : loss;
}

Setting IgnoreLabel() {
  Setting ignored = Integers("ignore_label", std::vector<int64_t>(),
                             "Label that counts for nothing, such as PyTorch's ignore_index -100. The loss and the "
                             "metrics `accuracy`, `exact_match` and `perplexity` are of the other labels.")
                        .Items(0, 1);
  ignored.default_in_words = "no label is ignored";
  ignored.example = "[-100]";
  return ignored;
}

Setting LabelSmoothing() {
  Setting smoothing =
      Float("label_smoothing", 0, "Share of the target that is spread evenly over all classes.").Between(0, 1);
  smoothing.example = "0.1";
  return smoothing;
}

RIVULET_OBJECTIVE(sparse_softmax_registration, {.name = "sparse_softmax_cross_entropy",
                                                .doc = "cross-entropy of the softmax over the scores, of a class",
                                                .settings = {ClassWeights(), LabelSmoothing(), IgnoreLabel()},
                                                .of_class = SoftmaxCrossEntropyOfClass});

}  // namespace
}  // namespace rivulet
