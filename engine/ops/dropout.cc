#include "engine/ops/dropout.h"

namespace rivulet {

Output Dropout(const Scope& scope, Output x, float rate) {
  if (!x) return {};
  if (!(rate >= 0 && rate < 1)) {
    scope.Fail(InvalidArgument("dropout of '{}' with rate {}; a rate lies in [0, 1)", x.name(), rate));
    return {};
  }
  if (x.dtype() != DType::kFloat32 && x.dtype() != DType::kFloat64) {
    scope.Fail(InvalidArgument("dropout of '{}', which is {}; only float32 and float64 can be scaled", x.name(),
                               Name(x.dtype())));
    return {};
  }
  if (rate == 0) return x;
  const Scope dropout = scope.SubScope("dropout");
  const auto constant = [&](double value) {
    return x.dtype() == DType::kFloat64 ? dropout.Const(Tensor::Scalar(value))
                                        : dropout.Const(Tensor::Scalar(static_cast<float>(value)));
  };
  const Output uniform = dropout.Op("RandomUniform", {dropout.Op("Shape", {x})}, {{"dtype", x.dtype()}});
  const Output keep = dropout.Op("GreaterEqual", {uniform, constant(rate)});
  const Output mask = dropout.Op("Cast", {keep}, {{"DstT", x.dtype()}});
  const Output scaled = dropout.Op("Mul", {x, constant(1.0 / (1.0 - static_cast<double>(rate)))});
  return dropout.Op("Mul", {scaled, mask});
}

}  // namespace rivulet
