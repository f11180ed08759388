// Adaptive optimisers on variables in place: Adagrad, Adadelta, RMSProp, Adam, AdamW, Yogi. Each is one pass over the
// variable, its slots and the gradient.
#include "engine/kernels/cpu/elementwise/training.h"

#include <cmath>

#include "engine/program/kernel.h"
#include "engine/program/part_update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/elementwise/training.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Products and sums are rounded separately (no fused multiply-add), and square roots and quotients are exact, so that
// every CPU gives the same bits.

// accum += g²; var −= lr · g / (√accum + epsilon)
template <typename T>
HWY_INLINE void Adagrad(const OptimizerStep<T>& s, T rate, T epsilon) {
  const hn::ScalableTag<T> d;
  T *variable = s.variables[0], *accumulator = s.variables[1];
  const T* gradient = s.gradient;
  const auto lr = hn::Set(d, rate), eps = hn::Set(d, epsilon);
  const bool update_slots = s.flag;
  ForEachVector(d, s.count, [&](auto load, auto store) HWY_ATTR {
    const auto g = load(gradient);
    auto a = load(accumulator);
    if (update_slots) {
      a = hn::Add(a, hn::Mul(g, g));
      store(accumulator, a);
    }
    store(variable, hn::Sub(load(variable), hn::Div(hn::Mul(lr, g), hn::Add(hn::Sqrt(a), eps))));
  });
}

// accum = rho · accum + (1 − rho) · g²; update = √(accum_update + epsilon) / √(accum + epsilon) · g;
// accum_update = rho · accum_update + (1 − rho) · update²; var −= lr · update
template <typename T>
HWY_INLINE void Adadelta(const OptimizerStep<T>& s) {
  const hn::ScalableTag<T> d;
  T *variable = s.variables[0], *accumulator = s.variables[1], *updates = s.variables[2];
  const T* gradient = s.gradient;
  const auto lr = hn::Set(d, s.scalars[0]), rho = hn::Set(d, s.scalars[1]), rest = hn::Set(d, T(1) - s.scalars[1]);
  const auto eps = hn::Set(d, s.scalars[2]);
  ForEachVector(d, s.count, [&](auto load, auto store) HWY_ATTR {
    const auto g = load(gradient), u = load(updates);
    const auto a = hn::Add(hn::Mul(rho, load(accumulator)), hn::Mul(rest, hn::Mul(g, g)));
    store(accumulator, a);
    const auto step = hn::Mul(hn::Div(hn::Sqrt(hn::Add(u, eps)), hn::Sqrt(hn::Add(a, eps))), g);
    store(updates, hn::Add(hn::Mul(rho, u), hn::Mul(rest, hn::Mul(step, step))));
    store(variable, hn::Sub(load(variable), hn::Mul(lr, step)));
  });
}

// ms += (1 − rho) · (g² − ms); mom = momentum · mom + lr · g / √(ms + epsilon); var −= mom. If centred, the root has ms
// − mg² instead of ms, with mg += (1 − rho) · (g − mg).
template <typename T, bool kCentered>
HWY_INLINE void RmsProp(const OptimizerStep<T>& s) {
  const hn::ScalableTag<T> d;
  T *variable = s.variables[0], *means = s.variables[1];
  T *squares = s.variables[kCentered ? 2 : 1], *velocity = s.variables[kCentered ? 3 : 2];
  const T* gradient = s.gradient;
  const auto lr = hn::Set(d, s.scalars[0]), rest = hn::Set(d, T(1) - s.scalars[1]);
  const auto momentum = hn::Set(d, s.scalars[2]), eps = hn::Set(d, s.scalars[3]);
  ForEachVector(d, s.count, [&](auto load, auto store) HWY_ATTR {
    const auto g = load(gradient);
    auto square = load(squares);
    square = hn::Add(square, hn::Mul(hn::Sub(hn::Mul(g, g), square), rest));
    store(squares, square);
    auto variance = square;
    if constexpr (kCentered) {
      auto mean = load(means);
      mean = hn::Add(mean, hn::Mul(hn::Sub(g, mean), rest));
      store(means, mean);
      variance = hn::Sub(variance, hn::Mul(mean, mean));
    } else {
      (void)means;
    }
    const auto moved = hn::Div(hn::Mul(lr, g), hn::Sqrt(hn::Add(variance, eps)));
    const auto v = hn::Add(hn::Mul(momentum, load(velocity)), moved);
    store(velocity, v);
    store(variable, hn::Sub(load(variable), v));
  });
}

// alpha = lr · √(1 − beta2_power) / (1 − beta1_power); m += (1 − beta1) · (g − m); then v of Adam, v += (1 − beta2) ·
// (g² − v), or of Yogi, v += (1 − beta2) · sign(g² − v) · g²; var = keep · var − alpha · m / (√v + epsilon).
template <typename T, bool kYogi>
HWY_INLINE void Adam(const OptimizerStep<T>& s, T kept) {
  const hn::ScalableTag<T> d;
  T *variable = s.variables[0], *first = s.variables[1], *second = s.variables[2];
  const T* gradient = s.gradient;
  const T *c = s.scalars, one = T(1);
  const auto alpha = hn::Set(d, c[2] * std::sqrt(one - c[1]) / (one - c[0]));
  const auto beta1 = hn::Set(d, c[3]), rest1 = hn::Set(d, one - c[3]), rest2 = hn::Set(d, one - c[4]);
  const auto eps = hn::Set(d, c[5]), keep = hn::Set(d, kept);
  const bool nesterov = s.flag, decays = kept != one;
  ForEachVector(d, s.count, [&](auto load, auto store) HWY_ATTR {
    const auto g = load(gradient);
    auto m = load(first), v = load(second);
    const auto square = hn::Mul(g, g);
    m = hn::Add(m, hn::Mul(hn::Sub(g, m), rest1));
    if constexpr (kYogi) {
      const auto zero = hn::Zero(d);
      const auto change =
          hn::IfThenElse(hn::Gt(square, v), square, hn::IfThenElse(hn::Lt(square, v), hn::Sub(zero, square), zero));
      v = hn::Add(v, hn::Mul(change, rest2));
    } else {
      v = hn::Add(v, hn::Mul(hn::Sub(square, v), rest2));
    }
    store(first, m);
    store(second, v);
    const auto direction = nesterov ? hn::Add(hn::Mul(g, rest1), hn::Mul(beta1, m)) : m;
    auto w = load(variable);
    if (decays) w = hn::Mul(w, keep);
    store(variable, hn::Sub(w, hn::Div(hn::Mul(direction, alpha), hn::Add(hn::Sqrt(v), eps))));
  });
}

template <typename T>
HWY_INLINE void Apply(const OptimizerStep<T>& s) {
  switch (s.rule) {
    case OptimizerRule::kAdagrad:
      return Adagrad(s, s.scalars[0], T(0));
    case OptimizerRule::kAdagradV2:
      return Adagrad(s, s.scalars[0], s.scalars[1]);
    case OptimizerRule::kAdadelta:
      return Adadelta(s);
    case OptimizerRule::kRmsProp:
      return RmsProp<T, false>(s);
    case OptimizerRule::kCenteredRmsProp:
      return RmsProp<T, true>(s);
    case OptimizerRule::kAdam:
      return Adam<T, false>(s, T(1));
    case OptimizerRule::kAdamW:
      return Adam<T, false>(s, T(1) - s.scalars[2] * s.scalars[6]);
    case OptimizerRule::kYogi:
      return Adam<T, true>(s, T(1));
  }
}

void ApplyF32(const OptimizerStep<float>& step) { Apply(step); }
void ApplyF64(const OptimizerStep<double>& step) { Apply(step); }

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(ApplyF32);
HWY_EXPORT(ApplyF64);

template <typename T>
class OptimizerKernel final : public Kernel, public PartUpdate {
 public:
  OptimizerKernel(OptimizerRule rule, bool flag, size_t variables, size_t scalars, size_t count)
      : rule_(rule), flag_(flag), variables_(variables), scalars_(scalars), count_(count) {}
  Status Run(const KernelContext& context) const override {
    OptimizerStep<T> step{rule_, flag_, {}, {}, reinterpret_cast<const T*>(context.inputs[scalars_]), count_};
    for (size_t i = 0; i < variables_; ++i) step.variables[i] = reinterpret_cast<T*>(context.variables[i]);
    for (size_t i = 0; i < scalars_; ++i) step.scalars[i] = *reinterpret_cast<const T*>(context.inputs[i]);
    if constexpr (std::is_same_v<T, float>)
      HWY_DYNAMIC_DISPATCH(ApplyF32)(step);
    else
      HWY_DYNAMIC_DISPATCH(ApplyF64)(step);
    return {};
  }
  size_t gradient_input() const override { return scalars_; }
  void UpdatePart(const KernelContext& context, int64_t first, int64_t count, const float* gradient) const override {
    OptimizerStep<float> step{rule_, flag_, {}, {}, gradient, static_cast<size_t>(count)};
    for (size_t i = 0; i < variables_; ++i) step.variables[i] = reinterpret_cast<float*>(context.variables[i]) + first;
    for (size_t i = 0; i < scalars_; ++i) step.scalars[i] = *reinterpret_cast<const float*>(context.inputs[i]);
    HWY_DYNAMIC_DISPATCH(ApplyF32)(step);
  }

 private:
  OptimizerRule rule_;
  bool flag_;
  size_t variables_, scalars_, count_;
};

// Inputs are the scalars, followed by the gradient.
template <typename T, OptimizerRule kRule>
StatusOr<Prepared> PrepareOptimizer(const NodeView& node, const KernelPolicy&) {
  const size_t scalars = node.inputs.size() - 1;
  for (size_t i = 0; i < scalars; ++i)
    if (node.inputs[i].shape.rank() != 0)
      return InvalidArgument("input {} must be a scalar, not {}", i, node.inputs[i].shape.ToString());
  const TensorSpec& gradient = node.inputs[scalars];
  for (const TensorSpec& variable : node.variables)
    if (variable.shape != gradient.shape || variable.dtype != gradient.dtype)
      return InvalidArgument("a variable of {}{} cannot be updated with a gradient of {}{}", Name(variable.dtype),
                             variable.shape.ToString(), Name(gradient.dtype), gradient.shape.ToString());
  bool flag = false;
  if (const bool* update_slots = node.node.FindAttr<bool>("update_slots")) flag = *update_slots;
  if (const bool* nesterov = node.node.FindAttr<bool>("use_nesterov")) flag = *nesterov;
  const auto count = static_cast<size_t>(gradient.shape.elements());
  Prepared prepared;
  prepared.kernel = std::make_unique<OptimizerKernel<T>>(kRule, flag, node.variables.size(), scalars, count);
  prepared.implementation = "hwy";
  prepared.flops = 10.0 * static_cast<double>(count);
  return prepared;
}

#define RIVULET_OPTIMIZER_KERNEL(op, rule)                                                 \
  RIVULET_KERNEL(op, Device::kCpu, float, (PrepareOptimizer<float, OptimizerRule::rule>)); \
  RIVULET_KERNEL(op, Device::kCpu, double, (PrepareOptimizer<double, OptimizerRule::rule>))

RIVULET_OPTIMIZER_KERNEL("ResourceApplyAdagrad", kAdagrad);
RIVULET_OPTIMIZER_KERNEL("ResourceApplyAdagradV2", kAdagradV2);
RIVULET_OPTIMIZER_KERNEL("ResourceApplyAdadelta", kAdadelta);
RIVULET_OPTIMIZER_KERNEL("ResourceApplyRMSProp", kRmsProp);
RIVULET_OPTIMIZER_KERNEL("ResourceApplyCenteredRMSProp", kCenteredRmsProp);
RIVULET_OPTIMIZER_KERNEL("ResourceApplyAdam", kAdam);
RIVULET_OPTIMIZER_KERNEL("ResourceApplyAdamW", kAdamW);
RIVULET_OPTIMIZER_KERNEL("ResourceApplyYogi", kYogi);

}  // namespace
}  // namespace rivulet
#endif
