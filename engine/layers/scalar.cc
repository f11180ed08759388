#include "engine/layers/scalar.h"

#include "engine/tensor/float16.h"

namespace rivulet {

Output ScalarLike(const Scope& scope, Output like, double value) {
  if (!like) return {};
  switch (like.dtype()) {
    case DType::kFloat32:
      return scope.Const(Tensor::Scalar(static_cast<float>(value)));
    case DType::kFloat64:
      return scope.Const(Tensor::Scalar(value));
    case DType::kBFloat16:
      return scope.Const(Tensor::Scalar(bfloat16(static_cast<float>(value))));
    case DType::kFloat16:
      return scope.Const(Tensor::Scalar(float16(static_cast<float>(value))));
    default:
      scope.Fail(InvalidArgument("'{}' is {}; a floating type is needed", like.name(), Name(like.dtype())));
      return {};
  }
}

}  // namespace rivulet
