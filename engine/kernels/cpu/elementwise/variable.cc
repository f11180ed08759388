// Ops that change variables in place: AssignAdd, AssignSub, plain SGD and momentum.
#include "engine/program/kernel.h"
#include "engine/program/part_update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/elementwise/variable.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Products and sums are rounded separately (no fused multiply-add), so that every CPU gives the same bits.
template <typename T>
HWY_INLINE void GradientDescent(const T* from, T* variable, T alpha, const T* delta, size_t count) {
  const hn::ScalableTag<T> d;
  const auto rate = hn::Set(d, alpha);
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR {
    store(variable, hn::Sub(load(from), hn::Mul(rate, load(delta))));
  });
}

// accum = momentum · accum + grad; variable −= lr · accum, or lr · (grad + momentum · accum) with Nesterov.
template <typename T>
HWY_INLINE void Momentum(T* variable, T* accumulator, T learning_rate, const T* gradient, T momentum, bool nesterov,
                         size_t count) {
  const hn::ScalableTag<T> d;
  const auto rate = hn::Set(d, learning_rate), keep = hn::Set(d, momentum);
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR {
    const auto g = load(gradient);
    const auto a = hn::Add(hn::Mul(keep, load(accumulator)), g);
    store(accumulator, a);
    const auto direction = nesterov ? hn::Add(g, hn::Mul(keep, a)) : a;
    store(variable, hn::Sub(load(variable), hn::Mul(rate, direction)));
  });
}

void GradientDescentF32(const float* from, float* variable, float alpha, const float* delta, size_t count) {
  GradientDescent(from, variable, alpha, delta, count);
}
void GradientDescentF64(const double* from, double* variable, double alpha, const double* delta, size_t count) {
  GradientDescent(from, variable, alpha, delta, count);
}
void MomentumF32(float* variable, float* accumulator, float rate, const float* gradient, float momentum, bool nesterov,
                 size_t count) {
  Momentum(variable, accumulator, rate, gradient, momentum, nesterov, count);
}
void MomentumF64(double* variable, double* accumulator, double rate, const double* gradient, double momentum,
                 bool nesterov, size_t count) {
  Momentum(variable, accumulator, rate, gradient, momentum, nesterov, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(GradientDescentF32);
HWY_EXPORT(GradientDescentF64);
HWY_EXPORT(MomentumF32);
HWY_EXPORT(MomentumF64);

Status CheckUpdate(const NodeView& node, size_t value) {
  for (const TensorSpec& variable : node.variables) {
    if (variable.shape != node.inputs[value].shape || variable.dtype != node.inputs[value].dtype) {
      return InvalidArgument("a variable of {}{} cannot be updated with {}{}", Name(variable.dtype),
                             variable.shape.ToString(), Name(node.inputs[value].dtype),
                             node.inputs[value].shape.ToString());
    }
  }
  return {};
}

Status CheckScalar(const NodeView& node, size_t input) {
  if (node.inputs[input].shape.rank() == 0) return {};
  return InvalidArgument("input {} must be a scalar, not {}", input, node.inputs[input].shape.ToString());
}

template <typename T>
class GradientDescentKernel final : public Kernel {
 public:
  explicit GradientDescentKernel(size_t count, bool elsewhere = false) : count_(count), elsewhere_(elsewhere) {}
  Status Run(const KernelContext& context) const override {
    T* variable = reinterpret_cast<T*>(context.variables[0]);
    const T* from = elsewhere_ ? reinterpret_cast<const T*>(context.inputs.back()) : variable;
    const T alpha = *reinterpret_cast<const T*>(context.inputs[0]);
    const T* delta = reinterpret_cast<const T*>(context.inputs[1]);
    if constexpr (std::is_same_v<T, float>)
      HWY_DYNAMIC_DISPATCH(GradientDescentF32)(from, variable, alpha, delta, count_);
    else
      HWY_DYNAMIC_DISPATCH(GradientDescentF64)(from, variable, alpha, delta, count_);
    return {};
  }
  std::unique_ptr<const Kernel> FromElsewhere() const override {
    return std::make_unique<GradientDescentKernel<T>>(count_, true);
  }

 private:
  size_t count_;
  bool elsewhere_;
};

template <typename T>
class MomentumKernel final : public Kernel, public PartUpdate {
 public:
  MomentumKernel(size_t count, bool nesterov) : count_(count), nesterov_(nesterov) {}
  Status Run(const KernelContext& context) const override {
    T* variable = reinterpret_cast<T*>(context.variables[0]);
    T* accumulator = reinterpret_cast<T*>(context.variables[1]);
    const T rate = *reinterpret_cast<const T*>(context.inputs[0]);
    const T* gradient = reinterpret_cast<const T*>(context.inputs[1]);
    const T momentum = *reinterpret_cast<const T*>(context.inputs[2]);
    if constexpr (std::is_same_v<T, float>) {
      HWY_DYNAMIC_DISPATCH(MomentumF32)(variable, accumulator, rate, gradient, momentum, nesterov_, count_);
    } else {
      HWY_DYNAMIC_DISPATCH(MomentumF64)(variable, accumulator, rate, gradient, momentum, nesterov_, count_);
    }
    return {};
  }
  size_t gradient_input() const override { return 1; }
  void UpdatePart(const KernelContext& context, int64_t first, int64_t count, const float* gradient) const override {
    HWY_DYNAMIC_DISPATCH(MomentumF32)
    (reinterpret_cast<float*>(context.variables[0]) + first, reinterpret_cast<float*>(context.variables[1]) + first,
     *reinterpret_cast<const float*>(context.inputs[0]), gradient, *reinterpret_cast<const float*>(context.inputs[1]),
     nesterov_, static_cast<size_t>(count));
  }

 private:
  size_t count_;
  bool nesterov_;
};

template <typename T, bool kSubtract>
class AssignUpdateKernel final : public Kernel {
 public:
  explicit AssignUpdateKernel(size_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    T* variable = reinterpret_cast<T*>(context.variables[0]);
    const T* value = reinterpret_cast<const T*>(context.inputs[0]);
    for (size_t i = 0; i < count_; ++i) {
      if constexpr (std::is_integral_v<T>) {  // wraps around
        using U = std::make_unsigned_t<T>;
        const U x = static_cast<U>(variable[i]), y = static_cast<U>(value[i]);
        variable[i] = static_cast<T>(kSubtract ? x - y : x + y);
      } else {
        variable[i] = kSubtract ? variable[i] - value[i] : variable[i] + value[i];
      }
    }
    return {};
  }

 private:
  size_t count_;
};

Prepared Updating(std::unique_ptr<const Kernel> kernel, std::string implementation) {
  Prepared prepared;
  prepared.kernel = std::move(kernel);
  prepared.implementation = std::move(implementation);
  return prepared;
}

size_t ElementsOf(const NodeView& node) { return static_cast<size_t>(node.variables[0].shape.elements()); }

template <typename T>
StatusOr<Prepared> PrepareGradientDescent(const NodeView& node, const KernelPolicy&) {
  RIVULET_RETURN_IF_ERROR(CheckScalar(node, 0));
  RIVULET_RETURN_IF_ERROR(CheckUpdate(node, 1));
  return Updating(std::make_unique<GradientDescentKernel<T>>(ElementsOf(node)), "hwy");
}

template <typename T>
StatusOr<Prepared> PrepareMomentum(const NodeView& node, const KernelPolicy&) {
  RIVULET_RETURN_IF_ERROR(CheckScalar(node, 0));
  RIVULET_RETURN_IF_ERROR(CheckUpdate(node, 1));
  RIVULET_RETURN_IF_ERROR(CheckScalar(node, 2));
  return Updating(std::make_unique<MomentumKernel<T>>(ElementsOf(node), node.attr<bool>("use_nesterov")), "hwy");
}

template <typename T, bool kSubtract>
StatusOr<Prepared> PrepareAssignUpdate(const NodeView& node, const KernelPolicy&) {
  RIVULET_RETURN_IF_ERROR(CheckUpdate(node, 0));
  return Updating(std::make_unique<AssignUpdateKernel<T, kSubtract>>(ElementsOf(node)), "loops");
}

RIVULET_KERNEL("ResourceApplyGradientDescent", Device::kCpu, float, PrepareGradientDescent<float>);
RIVULET_KERNEL("ResourceApplyGradientDescent", Device::kCpu, double, PrepareGradientDescent<double>);
RIVULET_KERNEL("ResourceApplyMomentum", Device::kCpu, float, PrepareMomentum<float>);
RIVULET_KERNEL("ResourceApplyMomentum", Device::kCpu, double, PrepareMomentum<double>);
RIVULET_KERNEL("AssignAddVariableOp", Device::kCpu, float, (PrepareAssignUpdate<float, false>));
RIVULET_KERNEL("AssignAddVariableOp", Device::kCpu, double, (PrepareAssignUpdate<double, false>));
RIVULET_KERNEL("AssignAddVariableOp", Device::kCpu, int32_t, (PrepareAssignUpdate<int32_t, false>));
RIVULET_KERNEL("AssignAddVariableOp", Device::kCpu, int64_t, (PrepareAssignUpdate<int64_t, false>));
RIVULET_KERNEL("AssignSubVariableOp", Device::kCpu, float, (PrepareAssignUpdate<float, true>));
RIVULET_KERNEL("AssignSubVariableOp", Device::kCpu, double, (PrepareAssignUpdate<double, true>));
RIVULET_KERNEL("AssignSubVariableOp", Device::kCpu, int32_t, (PrepareAssignUpdate<int32_t, true>));
RIVULET_KERNEL("AssignSubVariableOp", Device::kCpu, int64_t, (PrepareAssignUpdate<int64_t, true>));

}  // namespace
}  // namespace rivulet
#endif
