#include "engine/kernels/cpu/product/bias_activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/product/bias_activation.cc"
// clang-format off
#include "engine/base/join.h"
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <FusedActivation kActivation, typename T>
HWY_INLINE void Rows(T* c, const T* bias, int64_t rows, int64_t channels) {
  const hn::ScalableTag<T> d;
  for (int64_t row = 0; row < rows; ++row, c += channels) {
    ForEachVector(d, static_cast<size_t>(channels), [&](auto load, auto store) HWY_ATTR {
      auto x = hn::Add(load(c), load(bias));
      // NaN stays NaN, as in Relu: it is neither below zero nor above six.
      if constexpr (kActivation != FusedActivation::kNone) x = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
      if constexpr (kActivation == FusedActivation::kRelu6) {
        const auto six = hn::Set(d, T{6});
        x = hn::IfThenElse(hn::Gt(x, six), six, x);
      }
      store(c, x);
    });
  }
}

template <typename T>
HWY_INLINE void BiasActivation(T* c, const T* bias, int activation, int64_t rows, int64_t channels) {
  switch (static_cast<FusedActivation>(activation)) {
    case FusedActivation::kNone:
      return Rows<FusedActivation::kNone>(c, bias, rows, channels);
    case FusedActivation::kRelu:
      return Rows<FusedActivation::kRelu>(c, bias, rows, channels);
    case FusedActivation::kRelu6:
      return Rows<FusedActivation::kRelu6>(c, bias, rows, channels);
  }
}

void BiasActivationF32(float* c, const float* bias, int activation, int64_t rows, int64_t channels) {
  BiasActivation(c, bias, activation, rows, channels);
}
void BiasActivationF64(double* c, const double* bias, int activation, int64_t rows, int64_t channels) {
  BiasActivation(c, bias, activation, rows, channels);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(BiasActivationF32);
HWY_EXPORT(BiasActivationF64);

template <>
void AddBiasAndActivate<float>(float* c, const float* bias, FusedActivation activation, int64_t rows,
                               int64_t channels) {
  HWY_DYNAMIC_DISPATCH(BiasActivationF32)(c, bias, static_cast<int>(activation), rows, channels);
}
template <>
void AddBiasAndActivate<double>(double* c, const double* bias, FusedActivation activation, int64_t rows,
                                int64_t channels) {
  HWY_DYNAMIC_DISPATCH(BiasActivationF64)(c, bias, static_cast<int>(activation), rows, channels);
}

StatusOr<FusedActivation> ParseFusedOps(const std::vector<std::string>& fused_ops, size_t biases) {
  if (!fused_ops.empty() && fused_ops[0] == "BiasAdd" && biases == 1) {
    if (fused_ops.size() == 1) return FusedActivation::kNone;
    if (fused_ops.size() == 2 && fused_ops[1] == "Relu") return FusedActivation::kRelu;
    if (fused_ops.size() == 2 && fused_ops[1] == "Relu6") return FusedActivation::kRelu6;
  }
  return InvalidArgument(
      "fused_ops is [{}] with {} more inputs; there is [BiasAdd], [BiasAdd, Relu] and [BiasAdd, Relu6] with one",
      Join(fused_ops, ", "), biases);
}

}  // namespace rivulet
#endif
