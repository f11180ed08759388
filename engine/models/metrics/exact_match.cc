// The share of examples of which all labels are predicted right; of classes at positions, of which all that count are.
#include "engine/models/metrics/metric.h"

namespace rivulet {
namespace {

// All of an example are right where as many are as it has.
Output ExactMatchOfLabels(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  Output right;
  if (Node* const made = scope.graph().Find(scope.prefix() + "correct/float")) {
    right = made->output();  // accuracy's
  } else {
    const Output correct = scope.Op("Equal", {DecisionOf(scope, targets), targets.target}, {}, "correct");
    right = scope.Op("Cast", {correct}, {{"DstT", DType::kFloat32}}, "correct/float");
  }
  if (!right) return {};
  Tensor axes(DType::kInt32, Shape{right.shape().rank() - 1});
  float of_example = 1;
  for (int axis = 1; axis < right.shape().rank(); ++axis) {
    axes.flat<int32_t>()[static_cast<size_t>(axis - 1)] = axis;
    of_example *= static_cast<float>(right.shape().dim(axis));
  }
  const Output count = scope.Op("Sum", {right, scope.Const(std::move(axes), "exact/axes")}, {}, "exact/right");
  return AddRate(scope, scope.Op("Equal", {count, scope.Const(of_example, "exact/all")}, {}, "exact"), "exact/float",
                 request.name);
}

// An example of which no position counts is right.
Output ExactMatchOfClass(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  if (targets.positions < 1) {
    scope.Fail(InvalidArgument("the model's output does not say how many positions an example has"));
    return {};
  }
  const Output prediction = PredictionOf(scope, targets);
  const Scope s = scope.SubScope(request.name + "_of");
  const Output wrong =
      s.Op("Cast", {s.Op("NotEqual", {prediction, targets.target})}, {{"DstT", DType::kFloat32}}, "wrong");
  const Output counted = targets.counted ? s.Op("Mul", {wrong, targets.counted}) : wrong;
  const std::vector<int32_t> shape = {-1, static_cast<int32_t>(targets.positions)};
  const Output examples =
      s.Op("Reshape", {counted, s.Const(Tensor::Of<int32_t>(Shape{2}, std::span<const int32_t>(shape)), "shape")});
  const Output count = s.Op("Sum", {examples, s.Const(Tensor::Of<int32_t>({1}, {1}), "axis")}, {}, "count");
  return AddRate(scope, s.Op("Equal", {count, s.Const(0.0f, "none")}), request.name + "/float", request.name);
}

RIVULET_METRIC(exact_match_registration, {.name = "exact_match",
                                          .doc = "share of examples whose labels are all predicted right",
                                          .weighted = true,
                                          .of_class = ExactMatchOfClass,
                                          .of_labels = ExactMatchOfLabels});

}  // namespace
}  // namespace rivulet
