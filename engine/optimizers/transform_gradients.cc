#include "engine/optimizers/transform_gradients.h"

#include <cmath>

namespace rivulet {
namespace {

Output ScalarConst(const Scope& scope, DType dtype, double value, std::string_view name) {
  return dtype == DType::kFloat64 ? scope.Const(Tensor::Scalar(value), name)
                                  : scope.Const(static_cast<float>(value), name);
}

bool CheckPositive(const Scope& scope, std::string_view what, double value) {
  if (value > 0 && std::isfinite(value)) return true;
  scope.Fail(InvalidArgument("{} must be positive, but is {}", what, value));
  return false;
}

}  // namespace

std::vector<Output> ClipGradientsByValue(const Scope& caller, std::span<const Output> gradients, double limit) {
  if (!CheckPositive(caller, "the largest gradient", limit)) return {};
  const Scope scope = caller.SubScope("clip_by_value");
  std::vector<Output> clipped;
  for (const Output& gradient : gradients) {
    if (!gradient) return {};
    const Output below = scope.Op("Minimum", {gradient, ScalarConst(scope, gradient.dtype(), limit, "limit")});
    clipped.push_back(scope.Op("Maximum", {below, ScalarConst(scope, gradient.dtype(), -limit, "limit")}));
  }
  return clipped;
}

// The factor is limit / max(norm, limit): exactly 1 for gradients that are short enough, without a branch and with no
// quotient by 0. L2Loss, half of a sum of squares, reads each gradient once and writes no squares.
std::vector<Output> ClipGradientsByNorm(const Scope& caller, std::span<const Output> gradients, double clip_norm) {
  if (!CheckPositive(caller, "the norm that gradients are clipped to", clip_norm)) return {};
  const Scope scope = caller.SubScope("clip_by_norm");
  std::vector<Output> halves;  // of the squared norms
  for (const Output& gradient : gradients) {
    if (!gradient) return {};
    if (gradient.dtype() != gradients[0].dtype()) {
      scope.Fail(InvalidArgument("gradients of {} and {} have no common norm", Name(gradients[0].dtype()),
                                 Name(gradient.dtype())));
      return {};
    }
    halves.push_back(scope.Op("L2Loss", {gradient}));
  }
  if (halves.empty()) return {};
  const DType dtype = gradients[0].dtype();
  const Output half =
      halves.size() == 1 ? halves[0] : scope.Op("AddN", halves, {{"N", static_cast<int64_t>(halves.size())}});
  const Output norm = scope.Op("Sqrt", {scope.Op("Mul", {half, ScalarConst(scope, dtype, 2, "two")})}, {}, "norm");
  const Output limit = ScalarConst(scope, dtype, clip_norm, "clip_norm");
  const Output scale = scope.Op("RealDiv", {limit, scope.Op("Maximum", {norm, limit})}, {}, "scale");
  std::vector<Output> clipped;
  for (const Output& gradient : gradients) clipped.push_back(scope.Op("Mul", {gradient, scale}));
  return clipped;
}

}  // namespace rivulet
