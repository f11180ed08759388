// The share of examples of which all labels are told right.
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

RIVULET_METRIC(exact_match_registration, {.name = "exact_match",
                                          .doc = "share of examples whose labels are all predicted right",
                                          .of_labels = ExactMatchOfLabels});

}  // namespace
}  // namespace rivulet
