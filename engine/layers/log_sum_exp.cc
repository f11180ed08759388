#include "engine/layers/log_sum_exp.h"

namespace rivulet {

Output LogSumExp(const Scope& scope, Output x, const std::vector<int32_t>& axes, bool keep_dims) {
  const Output over = scope.Const(
      Tensor::Of<int32_t>(Shape({static_cast<int64_t>(axes.size())}), std::span<const int32_t>(axes)), "axes");
  const Output largest = scope.Op("StopGradient", {scope.Op("Max", {x, over}, {{"keep_dims", true}})});
  // An infinite one would give infinity - infinity; what is added below then is 0.
  const Output finite = scope.Op("Equal", {scope.Op("Sub", {largest, largest}), scope.Op("ZerosLike", {largest})});
  const Output shift = scope.Op("SelectV2", {finite, largest, scope.Op("ZerosLike", {largest})});
  const Output sum = scope.Op("Sum", {scope.Op("Exp", {scope.Op("Sub", {x, shift})}), over}, {{"keep_dims", true}});
  const Output result = scope.Op("AddV2", {scope.Op("Log", {sum}), shift});
  if (keep_dims || axes.empty()) return result;
  return scope.Op("Squeeze", {result}, {{"squeeze_dims", std::vector<int64_t>(axes.begin(), axes.end())}});
}

}  // namespace rivulet
