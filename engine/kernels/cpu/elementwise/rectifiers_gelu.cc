// Gelu and its gradient, Erf and Erfc. Portable kernels use the formulas, with the same bits on every CPU; otherwise
// Gelu and its gradient are piecewise polynomials, with a third as many instructions.
#include <algorithm>

#include "engine/base/math.h"
#include "engine/base/trigonometry.h"
#include "engine/kernels/cpu/elementwise/choose.h"
#include "engine/kernels/cpu/strided/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/elementwise/rectifiers_gelu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/vector/tail-inl.h"
#include "engine/kernels/cpu/vector/vector_math-inl.h"
#include "hwy/highway.h"
// clang-format on

#ifndef RIVULET_GELU_PIECES_
#define RIVULET_GELU_PIECES_
namespace rivulet {
// Piecewise polynomials for a function of a >= 0: that of piece p in t = a / width - p, which is within half a unit of
// 0. coefficients[k][p] is the coefficient of t^(6 - k).
inline constexpr int kGeluPieces = 16, kGeluDegree = 6;
inline constexpr float kGeluPieceWidth = 0.4f, kGeluLimit = 6.2f;  // to the middle of the last piece
struct GeluPieces {
  alignas(64) float coefficients[kGeluDegree + 1][kGeluPieces];
};
}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kSqrtHalf = 0.70710678f;
constexpr float kInverseSqrt2Pi = 0.39894228f;
constexpr float kSqrt2OverPi = 0.79788456f;
constexpr float kCubic = 0.044715f;

// Limits x to [-limit, limit], beyond which results are constant; NaN stays NaN.
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

// One or two registers hold a coefficient of all pieces, and one instruction selects each lane's.
#if HWY_TARGET <= HWY_AVX2
template <class D, class VI>
HWY_INLINE hn::Vec<D> OfPiece(D d, const float* coefficients, VI piece) {
  if constexpr (hn::MaxLanes(D()) >= kGeluPieces) {
    return hn::TableLookupLanes(hn::Load(d, coefficients), hn::IndicesFromVec(d, piece));
  } else {
    const hn::RebindToSigned<D> di;
    const auto seven = hn::Set(di, 7);
    const auto within = hn::IndicesFromVec(d, hn::And(piece, seven));
    return hn::IfThenElse(hn::RebindMask(d, hn::Gt(piece, seven)),
                          hn::TableLookupLanes(hn::Load(d, coefficients + 8), within),
                          hn::TableLookupLanes(hn::Load(d, coefficients), within));
  }
}

// Evaluates at a in [0, kGeluLimit); NaN gives NaN; others are undefined. `kDegree`: higher coefficients are 0.
template <int kDegree, class D, class V>
HWY_INLINE V ByPieces(D d, const GeluPieces& pieces, V a) {
  const hn::RebindToSigned<D> di;
  // The fraction of such a large sum is rounded away, and its lowest bits are the piece.
  const V large = hn::Set(d, 8388608.0f), per_width = hn::Set(d, 1 / kGeluPieceWidth);
  const V sum = hn::MulAdd(a, per_width, large);
  const auto piece = hn::And(hn::BitCast(di, sum), hn::Set(di, kGeluPieces - 1));
  const V t = hn::MulSub(a, per_width, hn::Sub(sum, large));
  V value = OfPiece(d, pieces.coefficients[kGeluDegree - kDegree], piece);
  _Pragma("GCC unroll 8") for (int k = kGeluDegree - kDegree + 1; k <= kGeluDegree; ++k) value =
      hn::MulAdd(value, t, OfPiece(d, pieces.coefficients[k], piece));
  return value;
}

// x P(X <= x) is max(x, 0) - |x| P(X <= -|x|); the last factor is piecewise.
void GeluByPieces(const GeluPieces& pieces, bool, const float* in, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  const auto limit = hn::Set(d, kGeluLimit);
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR {
    const auto x = load(in), magnitude = hn::Abs(x);
    const auto a = hn::IfThenZeroElse(hn::Ge(magnitude, limit), magnitude);
    const auto positive = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
    store(out, hn::NegMulAdd(a, ByPieces<kGeluDegree - 1>(d, pieces, a), positive));
  });
}

// The slope at x is 1 minus the slope at -x.
void GeluGradByPieces(const GeluPieces& pieces, bool, const float* gradient, const float* in, float* out,
                      size_t count) {
  const hn::ScalableTag<float> d;
  const auto limit = hn::Set(d, kGeluLimit), one = hn::Set(d, 1.0f);
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR {
    const auto x = load(in), a = hn::Abs(x);
    const auto slope = hn::IfThenZeroElse(hn::Ge(a, limit), ByPieces<kGeluDegree>(d, pieces, a));
    store(out, hn::Mul(load(gradient), hn::IfThenElse(hn::Lt(x, hn::Zero(d)), slope, hn::Sub(one, slope))));
  });
}
#else
void GeluByPieces(const GeluPieces&, bool approximate, const float* in, float* out, size_t count) {
  (approximate ? GeluTanhLoop : GeluLoop)(in, out, count);
}
void GeluGradByPieces(const GeluPieces&, bool approximate, const float* gradient, const float* in, float* out,
                      size_t count) {
  (approximate ? GeluTanhGradLoop : GeluGradLoop)(gradient, in, out, count);
}
#endif

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
HWY_EXPORT(GeluByPieces);
HWY_EXPORT(GeluGradByPieces);

template <auto kLoop>
class ErfKernel final : public Kernel {
 public:
  explicit ErfKernel(int64_t count) : count_(static_cast<size_t>(count)) {}
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
StatusOr<Prepared> PrepareErf(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<ErfKernel<kLoop>>(node.outputs[0].shape.elements());
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

// Interpolates f at the Chebyshev points of each piece, within 1e-9 of the best polynomial for these functions: less
// than the rounding of a value near 1/2 to float32.
template <int kDegree, class F>
GeluPieces MakePieces(F f) {
  GeluPieces pieces = {};
  for (int piece = 0; piece < kGeluPieces; ++piece) {
    double at[kDegree + 1], value[kDegree + 1], power[kDegree + 1] = {};
    for (int i = 0; i <= kDegree; ++i) {
      at[i] = 0.5 * math::Cos((i + 0.5) * 3.14159265358979324 / (kDegree + 1));
      value[i] = f((piece + at[i]) * static_cast<double>(kGeluPieceWidth));
    }
    for (int step = 1; step <= kDegree; ++step)  // Newton's divided differences
      for (int i = kDegree; i >= step; --i) value[i] = (value[i] - value[i - 1]) / (at[i] - at[i - step]);
    for (int i = kDegree; i >= 0; --i) {  // times (t - at[i]), plus the next
      for (int k = kDegree; k > 0; --k) power[k] = power[k - 1] - at[i] * power[k];
      power[0] = value[i] - at[i] * power[0];
    }
    for (int k = 0; k <= kDegree; ++k) pieces.coefficients[kGeluDegree - k][piece] = static_cast<float>(power[k]);
  }
  return pieces;
}

const GeluPieces& PiecesOfGelu(bool approximate) {
  static const GeluPieces exact = MakePieces<kGeluDegree - 1>([](double a) { return Phi(-a); });
  static const GeluPieces by_tanh = MakePieces<kGeluDegree - 1>([](double a) { return 0.5 - 0.5 * TanhTerm(a); });
  return approximate ? by_tanh : exact;
}
const GeluPieces& PiecesOfGeluGrad(bool approximate) {
  static const GeluPieces exact = MakePieces<kGeluDegree>([](double a) { return GeluGrad::Apply(1, -a); });
  static const GeluPieces by_tanh = MakePieces<kGeluDegree>([](double a) { return GeluTanhGrad::Apply(1, -a); });
  return approximate ? by_tanh : exact;
}

template <bool kGradient>
class GeluKernel final : public Kernel {
 public:
  GeluKernel(bool approximate, int64_t count)
      : pieces_(kGradient ? PiecesOfGeluGrad(approximate) : PiecesOfGelu(approximate)),
        approximate_(approximate),
        count_(static_cast<size_t>(count)) {}
  Status Run(const KernelContext& context) const override {
    const float* in = InputOf<float>(context, kGradient ? 1 : 0);
    if constexpr (kGradient) HWY_DYNAMIC_DISPATCH(GeluGradByPieces)
    (pieces_, approximate_, InputOf<float>(context, 0), in, OutputOf<float>(context, 0), count_);
    else HWY_DYNAMIC_DISPATCH(GeluByPieces)(pieces_, approximate_, in, OutputOf<float>(context, 0), count_);
    return {};
  }

 private:
  const GeluPieces& pieces_;
  bool approximate_;
  size_t count_;
};

template <bool kGradient>
StatusOr<Prepared> PrepareByPieces(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.outputs[0].shape.elements();
  Prepared prepared;
  prepared.kernel = std::make_unique<GeluKernel<kGradient>>(node.attr<bool>("approximate"), count);
  prepared.in_place = InPlacePairs(node);
  prepared.implementation = "hwy by pieces";
  prepared.flops = static_cast<double>(count);
  return prepared;
}

// Uses the formulas if bits must be the same on every CPU.
template <PrepareFn::result_type (*kFormulas)(const NodeView&, const KernelPolicy&), bool kGradient>
StatusOr<Prepared> PrepareFloatGelu(const NodeView& node, const KernelPolicy& policy) {
  return (ChooseGelu(policy) == GeluAlgorithm::kPieces ? PrepareByPieces<kGradient> : kFormulas)(node, policy);
}

// Chosen by the attribute `approximate`: the formula with tanh, or with erf.
template <PrepareFn::result_type (*kTanh)(const NodeView&, const KernelPolicy&),
          PrepareFn::result_type (*kErf)(const NodeView&, const KernelPolicy&)>
StatusOr<Prepared> PrepareGelu(const NodeView& node, const KernelPolicy& policy) {
  return (node.attr<bool>("approximate") ? kTanh : kErf)(node, policy);
}

RIVULET_KERNEL("Erf", Device::kCpu, float, PrepareErf<ErfDispatch>);
RIVULET_KERNEL("Erf", Device::kCpu, double, (PrepareUnary<double, double, Erf>));
RIVULET_KERNEL("Erfc", Device::kCpu, float, PrepareErf<ErfcDispatch>);
RIVULET_KERNEL("Erfc", Device::kCpu, double, (PrepareUnary<double, double, Erfc>));
RIVULET_KERNEL("Gelu", Device::kCpu, float,
               (PrepareFloatGelu<PrepareGelu<PrepareErf<GeluTanhDispatch>, PrepareErf<GeluDispatch>>, false>));
RIVULET_KERNEL("Gelu", Device::kCpu, double,
               (PrepareGelu<PrepareUnary<double, double, GeluTanh>, PrepareUnary<double, double, Gelu>>));
RIVULET_KERNEL("GeluGrad", Device::kCpu, float,
               (PrepareFloatGelu<PrepareGelu<PrepareErf<GeluTanhGradDispatch>, PrepareErf<GeluGradDispatch>>, true>));
RIVULET_KERNEL("GeluGrad", Device::kCpu, double,
               (PrepareGelu<PrepareBinary<double, double, GeluTanhGrad>, PrepareBinary<double, double, GeluGrad>>));

}  // namespace
}  // namespace rivulet
#endif
