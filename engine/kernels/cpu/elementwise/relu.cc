// Relu and ReluGrad.
#include "engine/program/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/elementwise/relu.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// NaN stays NaN: it is not below zero.
template <typename T>
HWY_INLINE void Relu(const T* in, T* out, size_t count) {
  const hn::ScalableTag<T> d;
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR {
    const auto x = load(in);
    store(out, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x));
  });
}

// An activation of exactly zero passes no gradient, so that Relu's output can replace its input.
template <typename T>
HWY_INLINE void ReluGrad(const T* gradient, const T* features, T* out, size_t count) {
  const hn::ScalableTag<T> d;
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR {
    store(out, hn::IfThenElseZero(hn::Gt(load(features), hn::Zero(d)), load(gradient)));
  });
}

void ReluF32(const float* in, float* out, size_t count) { Relu(in, out, count); }
void ReluF64(const double* in, double* out, size_t count) { Relu(in, out, count); }
void ReluGradF32(const float* gradient, const float* features, float* out, size_t count) {
  ReluGrad(gradient, features, out, count);
}
void ReluGradF64(const double* gradient, const double* features, double* out, size_t count) {
  ReluGrad(gradient, features, out, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(ReluF32);
HWY_EXPORT(ReluF64);
HWY_EXPORT(ReluGradF32);
HWY_EXPORT(ReluGradF64);

template <typename T>
class ReluKernel final : public Kernel {
 public:
  explicit ReluKernel(size_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    const T* in = reinterpret_cast<const T*>(context.inputs[0]);
    T* out = reinterpret_cast<T*>(context.outputs[0]);
    if constexpr (std::is_same_v<T, float>)
      HWY_DYNAMIC_DISPATCH(ReluF32)(in, out, count_);
    else
      HWY_DYNAMIC_DISPATCH(ReluF64)(in, out, count_);
    return {};
  }

 private:
  size_t count_;
};

template <typename T>
class ReluGradKernel final : public Kernel {
 public:
  explicit ReluGradKernel(size_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    const T* gradient = reinterpret_cast<const T*>(context.inputs[0]);
    const T* features = reinterpret_cast<const T*>(context.inputs[1]);
    T* out = reinterpret_cast<T*>(context.outputs[0]);
    if constexpr (std::is_same_v<T, float>)
      HWY_DYNAMIC_DISPATCH(ReluGradF32)(gradient, features, out, count_);
    else
      HWY_DYNAMIC_DISPATCH(ReluGradF64)(gradient, features, out, count_);
    return {};
  }

 private:
  size_t count_;
};

template <typename T>
StatusOr<Prepared> PrepareRelu(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<ReluKernel<T>>(static_cast<size_t>(node.outputs[0].shape.elements()));
  prepared.in_place = {{0, 0}};
  prepared.implementation = "hwy";
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareReluGrad(const NodeView& node, const KernelPolicy&) {
  if (node.inputs[0].shape != node.inputs[1].shape) {
    return InvalidArgument("gradients {} and features {} differ in shape", node.inputs[0].shape.ToString(),
                           node.inputs[1].shape.ToString());
  }
  Prepared prepared;
  prepared.kernel = std::make_unique<ReluGradKernel<T>>(static_cast<size_t>(node.outputs[0].shape.elements()));
  prepared.in_place = {{0, 0}, {1, 0}};
  prepared.implementation = "hwy";
  return prepared;
}

RIVULET_KERNEL("Relu", Device::kCpu, float, PrepareRelu<float>);
RIVULET_KERNEL("Relu", Device::kCpu, double, PrepareRelu<double>);
RIVULET_KERNEL("ReluGrad", Device::kCpu, float, PrepareReluGrad<float>);
RIVULET_KERNEL("ReluGrad", Device::kCpu, double, PrepareReluGrad<double>);

}  // namespace
}  // namespace rivulet
#endif
