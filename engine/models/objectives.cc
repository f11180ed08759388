#include "engine/models/objectives.h"

#include <algorithm>
#include <iterator>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/layers/losses.h"

namespace rivulet {
namespace {

constexpr std::pair<std::string_view, TargetKind> kTargetKinds[] = {
    {"class", TargetKind::kClass}, {"labels", TargetKind::kLabels}, {"numbers", TargetKind::kNumbers}};

// One for the label's class, zero for the others.
Output OneHot(const Scope& scope, const ScoredTargets& targets) {
  const Output depth = scope.Const(Tensor::Scalar(static_cast<int32_t>(targets.classes)), "one_hot/depth");
  const Output on = scope.Const(1.0f, "one_hot/on"), off = scope.Const(0.0f, "one_hot/off");
  return scope.Op("OneHot", {targets.target, depth, on, off}, {}, "one_hot");
}

Output CrossEntropyOfClass(const Scope& scope, const ScoredTargets& targets) {
  return scope.Op("SparseSoftmaxCrossEntropyWithLogits", {targets.scores, targets.target}, {}, "cross_entropy");
}

Output SigmoidCrossEntropyOfClass(const Scope& scope, const ScoredTargets& targets) {
  return SigmoidCrossEntropyWithLogits(scope, targets.scores, OneHot(scope, targets));
}

Output SquaredErrorOfClass(const Scope& scope, const ScoredTargets& targets) {
  return scope.Op("SquaredDifference", {targets.scores, OneHot(scope, targets)}, {}, "squared_error");
}

Output CrossEntropyOfLabels(const Scope& scope, const ScoredTargets& targets) {
  const Output labels = scope.Op("Cast", {targets.target}, {{"DstT", DType::kFloat32}}, "labels");
  return SigmoidCrossEntropyWithLogits(scope, targets.scores, labels);
}

Output SquaredErrorOfNumbers(const Scope& scope, const ScoredTargets& targets) {
  return SquaredError(scope, targets.scores, targets.target);
}

Output AbsoluteErrorOfNumbers(const Scope& scope, const ScoredTargets& targets) {
  return scope.Op("Abs", {scope.Op("Sub", {targets.scores, targets.target})});
}

Output HuberLossOfNumbers(const Scope& scope, const ScoredTargets& targets) {
  return HuberLoss(scope, targets.scores, targets.target);
}

struct NamedObjective {
  TargetKind kind;
  std::string_view name;
  Objective objective;
};
constexpr NamedObjective kObjectives[] = {
    {TargetKind::kClass, "sparse_softmax_cross_entropy", CrossEntropyOfClass},
    {TargetKind::kClass, "sigmoid_cross_entropy", SigmoidCrossEntropyOfClass},
    {TargetKind::kClass, "mse", SquaredErrorOfClass},
    {TargetKind::kLabels, "sigmoid_cross_entropy", CrossEntropyOfLabels},
    {TargetKind::kNumbers, "mse", SquaredErrorOfNumbers},
    {TargetKind::kNumbers, "mae", AbsoluteErrorOfNumbers},
    {TargetKind::kNumbers, "huber", HuberLossOfNumbers},
};

// The mean of truths, in the form that is known as a rate, which is counted (federated/plan/rates.h).
Output AddRate(const Scope& scope, Output truths, const std::string& ones, std::string_view rate) {
  const Output counted = scope.Op("Cast", {truths}, {{"DstT", DType::kFloat32}}, ones);
  MeanOf(scope, counted, rate);
  return counted;
}

void AddMetricsOfClass(const Scope& scope, const ScoredTargets& targets) {
  const Output axis = scope.Const(Tensor::Scalar<int32_t>(1), "prediction/axis");
  const Output prediction = scope.Op("ArgMax", {targets.scores, axis}, {{"output_type", DType::kInt64}}, "prediction");
  AddRate(scope, scope.Op("Equal", {prediction, targets.target}, {}, "correct"), "correct/float", "accuracy");
}

// All of an example are right where as many are as it has.
void AddMetricsOfLabels(const Scope& scope, const ScoredTargets& targets) {
  const Output yes = scope.Op("Greater", {targets.scores, scope.Const(0.0f, "decision/bound")}, {}, "decision");
  const Output said = scope.Op("Cast", {yes}, {{"DstT", DType::kInt64}}, "prediction");
  const Output right =
      AddRate(scope, scope.Op("Equal", {said, targets.target}, {}, "correct"), "correct/float", "accuracy");
  if (!right) return;
  Tensor axes(DType::kInt32, Shape{right.shape().rank() - 1});
  float of_example = 1;
  for (int axis = 1; axis < right.shape().rank(); ++axis) {
    axes.flat<int32_t>()[static_cast<size_t>(axis - 1)] = axis;
    of_example *= static_cast<float>(right.shape().dim(axis));
  }
  const Output count = scope.Op("Sum", {right, scope.Const(std::move(axes), "exact/axes")}, {}, "exact/right");
  AddRate(scope, scope.Op("Equal", {count, scope.Const(of_example, "exact/all")}, {}, "exact"), "exact/float",
          "exact_match");
}

void AddMetricsOfNumbers(const Scope& scope, const ScoredTargets& targets) {
  MeanOf(scope, SquaredErrorOfNumbers(scope, targets), "mse");
  MeanOf(scope, AbsoluteErrorOfNumbers(scope, targets), "mae");
}

}  // namespace

StatusOr<TargetKind> TargetKindFromName(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, kind] : kTargetKinds) {
    if (known == name) return kind;
    names.emplace_back(known);
  }
  return InvalidArgument("there are no targets '{}'.{} A model is trained for a {}", name, DidYouMean(name, names),
                         Join(names, ", "));
}

StatusOr<Objective> FindObjective(TargetKind kind, std::string_view name) {
  for (const NamedObjective& known : kObjectives)
    if (known.kind == kind && known.name == name) return known.objective;
  const std::vector<std::string> names = ObjectiveNames(kind);
  const auto of = std::ranges::find(kTargetKinds, kind, &std::pair<std::string_view, TargetKind>::second);
  return NotFound("there is no objective '{}' for the target \"{}\".{} Objectives for it are {}", name, of->first,
                  DidYouMean(name, names), Join(names, ", "));
}

std::vector<std::string> ObjectiveNames(TargetKind kind) {
  std::vector<std::string> names;
  for (const NamedObjective& known : kObjectives)
    if (known.kind == kind) names.emplace_back(known.name);
  return names;
}

std::vector<std::pair<std::string, std::string>> AddMetrics(const Scope& scope, TargetKind kind,
                                                            const ScoredTargets& targets) {
  switch (kind) {
    case TargetKind::kClass:
      AddMetricsOfClass(scope, targets);
      return {{"accuracy", "accuracy"}};
    case TargetKind::kLabels:
      AddMetricsOfLabels(scope, targets);
      return {{"accuracy", "accuracy"}, {"exact_match", "exact_match"}};
    case TargetKind::kNumbers:
      AddMetricsOfNumbers(scope, targets);
      return {{"mse", "mse"}, {"mae", "mae"}};
  }
  return {};
}

Output MeanOf(const Scope& scope, Output values, std::string_view name) {
  Tensor axes(DType::kInt32, Shape{values ? values.shape().rank() : 0});
  for (int axis = 0; values && axis < values.shape().rank(); ++axis)
    axes.flat<int32_t>()[static_cast<size_t>(axis)] = axis;
  return scope.Op("Mean", {values, scope.Const(std::move(axes), fmt::format("{}/axes", name))}, {}, name);
}

}  // namespace rivulet
