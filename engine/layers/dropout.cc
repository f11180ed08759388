#include "engine/layers/dropout.h"

namespace rivulet {

Output Dropout(const Scope& scope, Output x, float rate) {
  if (!x) return {};
  if (!(rate >= 0 && rate < 1)) {
    scope.Fail(InvalidArgument("dropout of '{}' with rate {}; a rate must be in [0, 1)", x.name(), rate));
    return {};
  }
  if (!IsFloating(x.dtype())) {
    scope.Fail(
        InvalidArgument("dropout of '{}', which is {}; only floating types can be scaled", x.name(), Name(x.dtype())));
    return {};
  }
  if (rate == 0) return x;
  const Scope dropout = scope.SubScope("dropout");
  // 16 bits are too coarse for a probability.
  const DType drawn = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const auto constant = [&](double value, DType dtype) {
    if (dtype == DType::kFloat64) return dropout.Const(Tensor::Scalar(value));
    const Output scalar = dropout.Const(Tensor::Scalar(static_cast<float>(value)));
    return dtype == DType::kFloat32 ? scalar : dropout.Op("Cast", {scalar}, {{"DstT", dtype}});
  };
  const Output uniform = dropout.Op("RandomUniform", {dropout.Op("Shape", {x})}, {{"dtype", drawn}});
  const Output keep = dropout.Op("GreaterEqual", {uniform, constant(rate, drawn)});
  const Output mask = dropout.Op("Cast", {keep}, {{"DstT", x.dtype()}});
  const Output scaled = dropout.Op("Mul", {x, constant(1.0 / (1.0 - static_cast<double>(rate)), x.dtype())});
  return dropout.Op("Mul", {scaled, mask});
}

}  // namespace rivulet
