// Relu6, LeakyRelu, Elu, Selu, Softsign and their gradients. NaN stays NaN in all of them.
#include "engine/base/math.h"
#include "engine/program/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/elementwise/rectifiers.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/vector/tail-inl.h"
#include "engine/kernels/cpu/vector/vector_math-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Klambauer et al., "Self-Normalizing Neural Networks" (2017), equation 14.
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluScaleAlpha = 1.7580993408473768599402175208123;

// e^x - 1 for x <= 0 of either type: doubles use the same scalar function as elsewhere, lane by lane.
template <class V>
HWY_INLINE V Expm1(hn::ScalableTag<float> d, V x) {
  return Expm1OfNonPositive(d, x);
}
template <class V>
HWY_INLINE V Expm1(hn::ScalableTag<double> d, V x) {
  HWY_ALIGN double lanes[HWY_MAX_BYTES / sizeof(double)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = math::Expm1(lanes[i]);
  return hn::Load(d, lanes);
}

// Each function: Of(tag, x, parameter), or Of(tag, gradient, x or y, parameter).
struct Relu6 {
  template <class D, class V>
  static HWY_INLINE V Of(D d, V x, V) {
    const V six = hn::Set(d, 6);
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), hn::IfThenElse(hn::Gt(x, six), six, x));
  }
};
struct Relu6Grad {
  template <class D, class V>
  static HWY_INLINE V Of(D d, V gradient, V x, V) {
    return hn::IfThenElseZero(hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, hn::Set(d, 6))), gradient);
  }
};
struct LeakyRelu {
  template <class D, class V>
  static HWY_INLINE V Of(D d, V x, V alpha) {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(x, alpha));
  }
};
struct LeakyReluGrad {
  template <class D, class V>
  static HWY_INLINE V Of(D d, V gradient, V x, V alpha) {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), gradient, hn::Mul(gradient, alpha));
  }
};
struct Elu {
  template <class D, class V>
  static HWY_INLINE V Of(D d, V x, V) {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, Expm1(d, x));
  }
};
struct EluGrad {
  template <class D, class V>
  static HWY_INLINE V Of(D d, V gradient, V y, V) {
    const V slope = hn::Add(y, hn::Set(d, 1));
    return hn::IfThenElse(hn::Lt(y, hn::Zero(d)), hn::Mul(gradient, slope), gradient);
  }
};
struct Selu {
  template <class D, class V>
  static HWY_INLINE V Of(D d, V x, V) {
    using T = hn::TFromD<D>;
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Mul(x, hn::Set(d, static_cast<T>(kSeluScale))),
                          hn::Mul(Expm1(d, x), hn::Set(d, static_cast<T>(kSeluScaleAlpha))));
  }
};
struct SeluGrad {
  template <class D, class V>
  static HWY_INLINE V Of(D d, V gradient, V y, V) {
    using T = hn::TFromD<D>;
    const V below = hn::Add(y, hn::Set(d, static_cast<T>(kSeluScaleAlpha)));
    return hn::Mul(gradient, hn::IfThenElse(hn::Lt(y, hn::Zero(d)), below, hn::Set(d, static_cast<T>(kSeluScale))));
  }
};
struct Softsign {
  template <class D, class V>
  static HWY_INLINE V Of(D d, V x, V) {
    return hn::Div(x, hn::Add(hn::Abs(x), hn::Set(d, 1)));
  }
};
struct SoftsignGrad {
  template <class D, class V>
  static HWY_INLINE V Of(D d, V gradient, V x, V) {
    const V one_plus = hn::Add(hn::Abs(x), hn::Set(d, 1));
    return hn::Div(gradient, hn::Mul(one_plus, one_plus));
  }
};

template <typename F, typename T>
HWY_INLINE void Unary(const T* in, T parameter, T* out, size_t count) {
  const hn::ScalableTag<T> d;
  const auto p = hn::Set(d, parameter);
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR { store(out, F::Of(d, load(in), p)); });
}
template <typename F, typename T>
HWY_INLINE void Gradient(const T* gradient, const T* x, T parameter, T* out, size_t count) {
  const hn::ScalableTag<T> d;
  const auto p = hn::Set(d, parameter);
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR { store(out, F::Of(d, load(gradient), load(x), p)); });
}

#define RIVULET_ACTIVATION_LOOPS(name)                                                                      \
  void name##F32(const float* in, float p, float* out, size_t count) { Unary<name>(in, p, out, count); }    \
  void name##F64(const double* in, double p, double* out, size_t count) { Unary<name>(in, p, out, count); } \
  void name##GradF32(const float* gradient, const float* x, float p, float* out, size_t count) {            \
    Gradient<name##Grad>(gradient, x, p, out, count);                                                       \
  }                                                                                                         \
  void name##GradF64(const double* gradient, const double* x, double p, double* out, size_t count) {        \
    Gradient<name##Grad>(gradient, x, p, out, count);                                                       \
  }
RIVULET_ACTIVATION_LOOPS(Relu6)
RIVULET_ACTIVATION_LOOPS(LeakyRelu)
RIVULET_ACTIVATION_LOOPS(Elu)
RIVULET_ACTIVATION_LOOPS(Selu)
RIVULET_ACTIVATION_LOOPS(Softsign)

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

template <typename T, auto kLoop>
class UnaryActivation final : public Kernel {
 public:
  UnaryActivation(size_t count, T parameter) : count_(count), parameter_(parameter) {}
  Status Run(const KernelContext& context) const override {
    kLoop(reinterpret_cast<const T*>(context.inputs[0]), parameter_, reinterpret_cast<T*>(context.outputs[0]), count_);
    return {};
  }

 private:
  size_t count_;
  T parameter_;
};

template <typename T, auto kLoop>
class ActivationGradient final : public Kernel {
 public:
  ActivationGradient(size_t count, T parameter) : count_(count), parameter_(parameter) {}
  Status Run(const KernelContext& context) const override {
    kLoop(reinterpret_cast<const T*>(context.inputs[0]), reinterpret_cast<const T*>(context.inputs[1]), parameter_,
          reinterpret_cast<T*>(context.outputs[0]), count_);
    return {};
  }

 private:
  size_t count_;
  T parameter_;
};

template <typename T, template <typename, auto> class ActivationKernel, auto kLoop>
StatusOr<Prepared> PrepareActivation(const NodeView& node, const KernelPolicy&) {
  const Shape& shape = node.outputs[0].shape;
  Prepared prepared;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].shape != shape)
      return InvalidArgument("gradients {} and the second input {} differ in shape", node.inputs[0].shape.ToString(),
                             node.inputs[1].shape.ToString());
    prepared.in_place.emplace_back(static_cast<int>(i), 0);
  }
  const float alpha = node.node.HasAttr("alpha") ? node.attr<float>("alpha") : 0.0f;
  prepared.kernel =
      std::make_unique<ActivationKernel<T, kLoop>>(static_cast<size_t>(shape.elements()), static_cast<T>(alpha));
  prepared.implementation = "hwy";
  prepared.flops = static_cast<double>(shape.elements());
  return prepared;
}

#define RIVULET_ACTIVATION_KERNELS(name, suffix, type)                                                           \
  HWY_EXPORT(name##suffix);                                                                                      \
  HWY_EXPORT(name##Grad##suffix);                                                                                \
  void name##suffix##Dispatch(const type* in, type p, type* out, size_t count) {                                 \
    HWY_DYNAMIC_DISPATCH(name##suffix)(in, p, out, count);                                                       \
  }                                                                                                              \
  void name##Grad##suffix##Dispatch(const type* gradient, const type* x, type p, type* out, size_t count) {      \
    HWY_DYNAMIC_DISPATCH(name##Grad##suffix)(gradient, x, p, out, count);                                        \
  }                                                                                                              \
  RIVULET_KERNEL(#name, Device::kCpu, type, (PrepareActivation<type, UnaryActivation, name##suffix##Dispatch>)); \
  RIVULET_KERNEL(#name "Grad", Device::kCpu, type,                                                               \
                 (PrepareActivation<type, ActivationGradient, name##Grad##suffix##Dispatch>));
#define RIVULET_FLOAT_ACTIVATION(name) \
  RIVULET_ACTIVATION_KERNELS(name, F32, float) RIVULET_ACTIVATION_KERNELS(name, F64, double)

RIVULET_FLOAT_ACTIVATION(Relu6)
RIVULET_FLOAT_ACTIVATION(LeakyRelu)
RIVULET_FLOAT_ACTIVATION(Elu)
RIVULET_FLOAT_ACTIVATION(Selu)
RIVULET_FLOAT_ACTIVATION(Softsign)

}  // namespace
}  // namespace rivulet
#endif
