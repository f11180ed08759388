// Top-k accuracy: the share of examples, or positions, of which fewer than k classes have a higher score than their
// own. So of equal scores all count as high, as TensorFlow has it.
#include "engine/models/metrics/metric.h"

namespace rivulet {
namespace {

Output TopOfClass(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  const Scope s = scope.SubScope(request.name + "_of");
  if (request.number >= targets.classes) {
    scope.Fail(InvalidArgument("there are {} classes, and the best {} of them are all; ask for fewer", targets.classes,
                               request.number));
    return {};
  }
  const Output axis = s.Const(Tensor::Of<int32_t>({1}, {1}));
  // Of the label's class alone: a sum with zeros of the others would be no number where one of them is infinite.
  const Output is_label = s.Op("Greater", {OneHotOf(s, targets), s.Const(0.0f)});
  const Output own = s.Op("Max", {s.Op("SelectV2", {is_label, targets.scores, s.Const(-3.402823466e38f)}), axis},
                          {{"keep_dims", true}}, "own");
  const Output higher = s.Op("Cast", {s.Op("Greater", {targets.scores, own})}, {{"DstT", DType::kFloat32}}, "higher");
  const Output among = s.Op("Less", {s.Op("Sum", {higher, axis}), s.Const(static_cast<float>(request.number))});
  return AddRate(scope, among, request.name + "/float", request.name);
}

RIVULET_METRIC(top_registration, {.name = "top",
                                  .doc = "share of examples whose class is among the K of the highest scores",
                                  .numbered = true,
                                  .of_class = TopOfClass});

}  // namespace
}  // namespace rivulet
