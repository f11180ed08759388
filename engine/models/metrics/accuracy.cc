// The share of examples, or positions, whose highest score is their class's; for labels the share of right decisions.
#include "engine/models/metrics/metric.h"

namespace rivulet {
namespace {

Output AccuracyOfClass(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  const Output correct = scope.Op("Equal", {PredictionOf(scope, targets), targets.target}, {}, "correct");
  if (!targets.counted) return AddRate(scope, correct, "correct/float", request.name);
  const Output right = scope.Op("Cast", {correct}, {{"DstT", DType::kFloat32}}, "correct/float");
  return MeanOfCounted(scope, right, targets.counted, request.name);
}

Output AccuracyOfLabels(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  const Output correct = scope.Op("Equal", {DecisionOf(scope, targets), targets.target}, {}, "correct");
  return AddRate(scope, correct, "correct/float", request.name);
}

RIVULET_METRIC(accuracy_registration, {.name = "accuracy",
                                       .doc = "share of examples, positions or labels that are predicted right",
                                       .weighted = true,
                                       .of_class = AccuracyOfClass,
                                       .of_labels = AccuracyOfLabels});

}  // namespace
}  // namespace rivulet
