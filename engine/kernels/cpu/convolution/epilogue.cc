#include "engine/kernels/cpu/convolution/epilogue.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/convolution/epilogue.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `bias_of(load)` returns the vector to add.
template <typename T, bool kBias, FusedOps::Activation kActivation, class BiasOf>
HWY_INLINE void Pass(T* at, size_t count, BiasOf bias_of) {
  const hn::ScalableTag<T> d;
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR {
    auto x = load(at);
    if constexpr (kBias) x = hn::Add(x, bias_of(load));
    // NaN stays NaN: it is neither below zero nor above six.
    if constexpr (kActivation != FusedOps::Activation::kNone) x = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
    if constexpr (kActivation == FusedOps::Activation::kRelu6) {
      const auto six = hn::Set(d, T{6});
      x = hn::IfThenElse(hn::Gt(x, six), six, x);
    }
    store(at, x);
  });
}

// A bias per element of a row, or with `one_bias` one for the whole row.
template <typename T, bool kBias, FusedOps::Activation kActivation>
HWY_INLINE void Rows(const T* bias, bool one_bias, T* at, int64_t rows, int64_t length) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (one_bias) {
    const auto value = hn::Set(d, kBias ? *bias : T{0});
    Pass<T, kBias, kActivation>(at, static_cast<size_t>(rows * length), [&](auto) HWY_ATTR { return value; });
    return;
  }
  if (!kBias) {
    const auto zero = hn::Zero(d);
    Pass<T, false, kActivation>(at, static_cast<size_t>(rows * length), [&](auto) HWY_ATTR { return zero; });
    return;
  }
  // Short rows: repeats the biases to fill whole vectors with several rows.
  constexpr int64_t kShort = 32;
  if (length % lanes != 0 && length <= kShort && rows >= 4 * lanes) {
    HWY_ALIGN T biases[kShort * HWY_MAX_BYTES / sizeof(T)];
    const int64_t period = length * lanes;
    for (int64_t i = 0; i < period; ++i) biases[i] = bias[i % length];
    const int64_t periods = rows / lanes;
    for (int64_t i = 0; i < periods; ++i, at += period)
      Pass<T, true, kActivation>(at, static_cast<size_t>(period), [&](auto load) HWY_ATTR { return load(biases); });
    rows -= periods * lanes;
  }
  for (int64_t row = 0; row < rows; ++row, at += length)
    Pass<T, true, kActivation>(at, static_cast<size_t>(length), [&](auto load) HWY_ATTR { return load(bias); });
}

template <typename T>
HWY_INLINE void Epilogue(const FusedOps& fused, const T* bias, bool one_bias, T* at, int64_t rows, int64_t length) {
  using A = FusedOps::Activation;
  switch (fused.activation) {
    case A::kNone:
      if (fused.bias) Rows<T, true, A::kNone>(bias, one_bias, at, rows, length);
      return;
    case A::kRelu:
      return fused.bias ? Rows<T, true, A::kRelu>(bias, one_bias, at, rows, length)
                        : Rows<T, false, A::kRelu>(bias, one_bias, at, rows, length);
    case A::kRelu6:
      return fused.bias ? Rows<T, true, A::kRelu6>(bias, one_bias, at, rows, length)
                        : Rows<T, false, A::kRelu6>(bias, one_bias, at, rows, length);
  }
}

void EpilogueF32(const FusedOps& fused, const float* bias, bool one_bias, float* at, int64_t rows, int64_t length) {
  Epilogue(fused, bias, one_bias, at, rows, length);
}
void EpilogueF64(const FusedOps& fused, const double* bias, bool one_bias, double* at, int64_t rows, int64_t length) {
  Epilogue(fused, bias, one_bias, at, rows, length);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(EpilogueF32);
HWY_EXPORT(EpilogueF64);

void Run(const FusedOps& fused, const float* bias, bool one_bias, float* at, int64_t rows, int64_t length) {
  HWY_DYNAMIC_DISPATCH(EpilogueF32)(fused, bias, one_bias, at, rows, length);
}
void Run(const FusedOps& fused, const double* bias, bool one_bias, double* at, int64_t rows, int64_t length) {
  HWY_DYNAMIC_DISPATCH(EpilogueF64)(fused, bias, one_bias, at, rows, length);
}

template <typename T>
class EpilogueKernel final : public Kernel {
 public:
  EpilogueKernel(std::unique_ptr<const Kernel> kernel, const FusedOps& fused, int64_t outer, int64_t channels,
                 int64_t inner_size)
      : kernel_(std::move(kernel)), fused_(fused), outer_(outer), channels_(channels), inner_size_(inner_size) {}

  Status Run(const KernelContext& context) const override {
    RIVULET_RETURN_IF_ERROR(kernel_->Run(context));
    const T* bias = fused_.bias ? reinterpret_cast<const T*>(context.inputs[2]) : nullptr;
    T* out = reinterpret_cast<T*>(context.outputs[0]);
    if (inner_size_ == 1) {
      rivulet::Run(fused_, bias, false, out, outer_, channels_);
      return {};
    }
    for (int64_t row = 0; row < outer_ * channels_; ++row, out += inner_size_) {
      rivulet::Run(fused_, bias == nullptr ? nullptr : bias + row % channels_, true, out, 1, inner_size_);
    }
    return {};
  }
  std::unique_ptr<KernelState> NewState() const override { return kernel_->NewState(); }

 private:
  std::unique_ptr<const Kernel> kernel_;
  FusedOps fused_;
  int64_t outer_, channels_, inner_size_;
};

}  // namespace

template <typename T>
void ApplyEpilogue(const FusedOps& fused, const T* bias, T* rows_of_channels, int64_t rows, int64_t channels) {
  Run(fused, bias, false, rows_of_channels, rows, channels);
}

template <typename T>
Prepared WithEpilogue(Prepared inner, const FusedOps& fused, int64_t outer, int64_t channels, int64_t inner_size) {
  inner.kernel = std::make_unique<EpilogueKernel<T>>(std::move(inner.kernel), fused, outer, channels, inner_size);
  inner.implementation += ", epilogue";
  return inner;
}

Prepared WithSumFinish(Prepared inner, const FusedOps& fused, int64_t rows, int64_t channels) {
  if (!fused.any()) return inner;
  if (!fused.bias) return WithEpilogue<float>(std::move(inner), fused, rows, channels, 1);
  inner.implementation += ", epilogue inside";
  return inner;
}

template void ApplyEpilogue<float>(const FusedOps&, const float*, float*, int64_t, int64_t);
template void ApplyEpilogue<double>(const FusedOps&, const double*, double*, int64_t, int64_t);
template Prepared WithEpilogue<float>(Prepared, const FusedOps&, int64_t, int64_t, int64_t);
template Prepared WithEpilogue<double>(Prepared, const FusedOps&, int64_t, int64_t, int64_t);

}  // namespace rivulet
#endif
