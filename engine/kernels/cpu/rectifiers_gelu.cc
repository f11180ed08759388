// Gelu and its gradient, Erf and Erfc.
#include <algorithm>

#include "engine/base/math.h"
#include "engine/kernels/cpu/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/rectifiers_gelu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/tail-inl.h"
#include "engine/kernels/cpu/vector_math-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kSqrtHalf = 0.70710678f;
constexpr float kInverseSqrt2Pi = 0.39894228f;
constexpr float kSqrt2OverPi = 0.79788456f;
constexpr float kCubic = 0.044715f;

// x within [-limit, limit], where every further value gives the same; NaN stays NaN.
template <class D, class V>
HWY_INLINE V Within(D d, V x, float limit) {
  const V high = hn::Set(d, limit), low = hn::Set(d, -limit);
  return hn::IfThenElse(hn::Gt(x, high), high, hn::IfThenElse(hn::Lt(x, low), low, x));
}

// The normal distribution's cumulative function.
template <class D, class V>
HWY_INLINE V Phi(D d, V x) {
  return hn::Mul(hn::Set(d, 0.5f), ErfcOf(d, hn::Mul(x, hn::Set(d, -kSqrtHalf))));
}
template <class D, class V>
HWY_INLINE V TanhTerm(D d, V x) {
  const V inner = hn::Add(hn::Set(d, 1.0f), hn::Mul(hn::Set(d, kCubic), hn::Mul(x, x)));
  return TanhOf(d, hn::Mul(hn::Mul(hn::Set(d, kSqrt2OverPi), x), inner));
}

template <class D, class V>
HWY_INLINE V GeluOf(D d, V x) {
  const V least = hn::Set(d, -20.0f);  // so that -infinity gives 0
  return hn::Mul(hn::IfThenElse(hn::Lt(x, least), least, x), Phi(d, x));
}
template <class D, class V>
HWY_INLINE V GeluTanhOf(D d, V x) {
  const V least = hn::Set(d, -20.0f), half = hn::Set(d, 0.5f);
  const V gate = hn::Add(half, hn::Mul(half, TanhTerm(d, Within(d, x, 20.0f))));
  return hn::Mul(hn::IfThenElse(hn::Lt(x, least), least, x), gate);
}
template <class D, class V>
HWY_INLINE V GeluSlope(D d, V x) {
  const V bounded = Within(d, x, 20.0f);
  const V density =
      hn::Mul(hn::Set(d, kInverseSqrt2Pi), ExpOfNonPositive(d, hn::Mul(hn::Set(d, -0.5f), hn::Mul(bounded, bounded))));
  return hn::Add(Phi(d, x), hn::Mul(bounded, density));
}
template <class D, class V>
HWY_INLINE V GeluTanhSlope(D d, V x) {
  const V b = Within(d, x, 20.0f), one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  const V t = TanhTerm(d, b);
  const V inner = hn::Mul(hn::Set(d, kSqrt2OverPi), hn::Add(one, hn::Mul(hn::Set(d, 3 * kCubic), hn::Mul(b, b))));
  const V bell = hn::Mul(hn::Sub(one, t), hn::Add(one, t));
  return hn::Add(hn::Add(half, hn::Mul(half, t)), hn::Mul(hn::Mul(hn::Mul(half, b), bell), inner));
}

#define RIVULET_FLOAT_LOOP(name, function)                                                               \
  void name(const float* in, float* out, size_t count) {                                                 \
    const hn::ScalableTag<float> d;                                                                      \
    ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR { store(out, function(d, load(in))); }); \
  }
RIVULET_FLOAT_LOOP(ErfLoop, ErfOf)
RIVULET_FLOAT_LOOP(ErfcLoop, ErfcOf)
RIVULET_FLOAT_LOOP(GeluLoop, GeluOf)
RIVULET_FLOAT_LOOP(GeluTanhLoop, GeluTanhOf)

#define RIVULET_SLOPE_LOOP(name, function)                                      \
  void name(const float* gradient, const float* in, float* out, size_t count) { \
    const hn::ScalableTag<float> d;                                             \
    ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR {               \
      store(out, hn::Mul(load(gradient), function(d, load(in))));               \
    });                                                                         \
  }
RIVULET_SLOPE_LOOP(GeluGradLoop, GeluSlope)
RIVULET_SLOPE_LOOP(GeluTanhGradLoop, GeluTanhSlope)

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(ErfLoop);
HWY_EXPORT(ErfcLoop);
HWY_EXPORT(GeluLoop);
HWY_EXPORT(GeluTanhLoop);
HWY_EXPORT(GeluGradLoop);
HWY_EXPORT(GeluTanhGradLoop);

template <auto kLoop>
class FloatKernel final : public Kernel {
 public:
  explicit FloatKernel(int64_t count) : count_(static_cast<size_t>(count)) {}
  Status Run(const KernelContext& context) const override {
    if constexpr (std::is_invocable_v<decltype(kLoop), const float*, float*, size_t>)
      kLoop(InputOf<float>(context, 0), OutputOf<float>(context, 0), count_);
    else
      kLoop(InputOf<float>(context, 0), InputOf<float>(context, 1), OutputOf<float>(context, 0), count_);
    return {};
  }

 private:
  size_t count_;
};

template <auto kLoop>
StatusOr<Prepared> PrepareFloat(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<FloatKernel<kLoop>>(node.outputs[0].shape.elements());
  prepared.in_place = InPlacePairs(node);
  prepared.implementation = "hwy";
  prepared.flops = static_cast<double>(node.outputs[0].shape.elements());
  return prepared;
}

constexpr double kCubic = 0.044715;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
double Clamped(double x) { return x > 40 ? 40 : x < -40 ? -40 : x; }
double TanhTerm(double x) { return math::Tanh(kSqrt2OverPi * x * (1 + kCubic * x * x)); }

struct Erf {
  static double Apply(double x) { return math::Erf(x); }
};
struct Erfc {
  static double Apply(double x) { return math::Erfc(x); }
};
double Phi(double x) { return 0.5 * math::Erfc(-0.70710678118654752440 * x); }
struct Gelu {
  static double Apply(double x) { return (x < -40 ? -40 : x) * Phi(x); }
};
struct GeluTanh {
  static double Apply(double x) { return (x < -40 ? -40 : x) * (0.5 + 0.5 * TanhTerm(Clamped(x))); }
};
struct GeluGrad {
  static double Apply(double gradient, double x) {
    const double b = Clamped(x);
    return gradient * (Phi(x) + b * 0.39894228040143267794 * math::Exp(-0.5 * b * b));
  }
};
struct GeluTanhGrad {
  static double Apply(double gradient, double x) {
    const double b = Clamped(x), t = TanhTerm(b);
    return gradient * (0.5 + 0.5 * t + 0.5 * b * (1 - t) * (1 + t) * kSqrt2OverPi * (1 + 3 * kCubic * b * b));
  }
};

#define RIVULET_DISPATCHED(name)                                                    \
  [[maybe_unused]] void name##Dispatch(const float* in, float* out, size_t count) { \
    HWY_DYNAMIC_DISPATCH(name##Loop)(in, out, count);                               \
  }
#define RIVULET_DISPATCHED_GRAD(name)                                                                      \
  [[maybe_unused]] void name##Dispatch(const float* gradient, const float* in, float* out, size_t count) { \
    HWY_DYNAMIC_DISPATCH(name##Loop)(gradient, in, out, count);                                            \
  }
RIVULET_DISPATCHED(Erf)
RIVULET_DISPATCHED(Erfc)
RIVULET_DISPATCHED(Gelu)
RIVULET_DISPATCHED(GeluTanh)
RIVULET_DISPATCHED_GRAD(GeluGrad)
RIVULET_DISPATCHED_GRAD(GeluTanhGrad)

// By attribute `approximate`: the formula with tanh, or that with erf.
template <PrepareFn::result_type (*kTanh)(const NodeView&, const KernelPolicy&),
          PrepareFn::result_type (*kErf)(const NodeView&, const KernelPolicy&)>
StatusOr<Prepared> PrepareGelu(const NodeView& node, const KernelPolicy& policy) {
  return (node.attr<bool>("approximate") ? kTanh : kErf)(node, policy);
}

RIVULET_KERNEL("Erf", Device::kCpu, float, PrepareFloat<ErfDispatch>);
RIVULET_KERNEL("Erf", Device::kCpu, double, (PrepareUnary<double, double, Erf>));
RIVULET_KERNEL("Erfc", Device::kCpu, float, PrepareFloat<ErfcDispatch>);
RIVULET_KERNEL("Erfc", Device::kCpu, double, (PrepareUnary<double, double, Erfc>));
RIVULET_KERNEL("Gelu", Device::kCpu, float, (PrepareGelu<PrepareFloat<GeluTanhDispatch>, PrepareFloat<GeluDispatch>>));
RIVULET_KERNEL("Gelu", Device::kCpu, double,
               (PrepareGelu<PrepareUnary<double, double, GeluTanh>, PrepareUnary<double, double, Gelu>>));
RIVULET_KERNEL("GeluGrad", Device::kCpu, float,
               (PrepareGelu<PrepareFloat<GeluTanhGradDispatch>, PrepareFloat<GeluGradDispatch>>));
RIVULET_KERNEL("GeluGrad", Device::kCpu, double,
               (PrepareGelu<PrepareBinary<double, double, GeluTanhGrad>, PrepareBinary<double, double, GeluGrad>>));

}  // namespace
}  // namespace rivulet
#endif
