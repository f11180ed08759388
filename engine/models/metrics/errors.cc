// Mean squared and mean absolute errors of numbers.
#include "engine/layers/losses.h"
#include "engine/models/metrics/metric.h"

namespace rivulet {
namespace {

Output SquaredErrors(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  return MeanOf(scope, SquaredError(scope, targets.scores, targets.target), request.name);
}

Output AbsoluteErrors(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  return MeanOf(scope, scope.Op("Abs", {scope.Op("Sub", {targets.scores, targets.target})}), request.name);
}

RIVULET_METRIC(mse_metric_registration,
               {.name = "mse", .doc = "mean squared error of numbers", .of_numbers = SquaredErrors});
RIVULET_METRIC(mae_metric_registration,
               {.name = "mae", .doc = "mean absolute error of numbers", .of_numbers = AbsoluteErrors});

}  // namespace
}  // namespace rivulet
