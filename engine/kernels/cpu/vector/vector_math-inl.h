// Exponentials and logarithms of float vectors. Products and sums are never fused, and no step depends on the number of
// lanes, so every target gives the same bits. Included per target (no include guard of the usual kind).
#include <cstdint>

#include "engine/kernels/cpu/vector/unroll.h"
#include "hwy/highway.h"

#if defined(RIVULET_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_VECTOR_MATH_INL_H_
#undef RIVULET_VECTOR_MATH_INL_H_
#else
#define RIVULET_VECTOR_MATH_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

// Evaluates c[0] x^n + … + c[n].
template <class D, class V, size_t N>
HWY_INLINE V PolynomialOf(D d, V x, const float (&coefficients)[N]) {
  namespace hn = hwy::HWY_NAMESPACE;
  V value = hn::Set(d, coefficients[0]);
  for (size_t i = 1; i < N; ++i) value = hn::Add(hn::Mul(value, x), hn::Set(d, coefficients[i]));
  return value;
}

// Returns 2^n for n in [-126, 127].
template <class D, class VI>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> PowerOfTwo(D d, VI n) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// Returns the integer nearest to x for |x| < 2^21, and some integer for other x and NaN. Adding a large even number
// rounds the fraction away, halves to even. That takes two instructions; NearestInt needs two more for values beyond
// int. `whole` gets the result as a float, and NaN if x is NaN.
template <class D, class V>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::RebindToSigned<D>> NearestWhole(D d, V x, V& whole) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  const V large = hn::Set(d, 12582912.0f), sum = hn::Add(x, large);  // 1.5 · 2^23
  whole = hn::Sub(sum, large);
  return hn::Sub(hn::BitCast(di, sum), hn::BitCast(di, large));
}

// Returns e^r - 1 = r + r² q(r) for |r| <= 0.6 by a Taylor series; its first omitted term is below 2e-9 of r.
template <class D, class V>
HWY_INLINE V Expm1Near0(D d, V r) {
  namespace hn = hwy::HWY_NAMESPACE;
  static constexpr float kInverseFactorials[] = {1.0f / 362880, 1.0f / 40320, 1.0f / 5040, 1.0f / 720,
                                                 1.0f / 120,    1.0f / 24,    1.0f / 6,    0.5f};
  return hn::Add(r, hn::Mul(hn::Mul(r, r), PolynomialOf(d, r, kInverseFactorials)));
}

// Returns e^x = 2^n e^r with |r| <= ln(2) / 2. NaN stays NaN; results beyond the range of float are 0 or infinity.
template <class D, class V>
HWY_INLINE V ExpOf(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  const auto is_nan = hn::IsNaN(x);
  const V bounded = hn::IfThenZeroElse(is_nan, hn::Min(hn::Max(x, hn::Set(d, -104.0f)), hn::Set(d, 89.0f)));
  V whole;
  const auto n = NearestWhole(d, hn::Mul(bounded, hn::Set(d, 1.44269504f)), whole);
  // ln(2) is split into two parts; the first has 9 bits, so that its product with n is exact.
  V r = hn::Sub(bounded, hn::Mul(whole, hn::Set(d, 0.693359375f)));
  r = hn::Sub(r, hn::Mul(whole, hn::Set(d, -2.12194440e-4f)));
  const V e = hn::Add(hn::Set(d, 1.0f), Expm1Near0(d, r));
  // Scales in two factors, since 2^n itself may be beyond the range.
  const auto half = hn::ShiftRight<1>(n);
  const V scaled = hn::Mul(hn::Mul(e, PowerOfTwo(d, half)), PowerOfTwo(d, hn::Sub(n, half)));
  (void)di;
  return hn::IfThenElse(is_nan, x, scaled);
}

// Returns log x: x = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = 2 (s + s³/3 + …), s = (m - 1) / (m + 1).
template <class D, class V>
HWY_INLINE V LogOf(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  // Subtracts the bits of sqrt(1/2), so that the exponent field changes there instead of at 1.
  const auto bits = hn::Sub(hn::BitCast(di, x), hn::Set(di, 0x3F3504F3));
  const V e = hn::ConvertTo(d, hn::ShiftRight<23>(bits));
  const V m = hn::BitCast(d, hn::Add(hn::And(bits, hn::Set(di, 0x007FFFFF)), hn::Set(di, 0x3F3504F3)));
  const V one = hn::Set(d, 1.0f);
  const V s = hn::Div(hn::Sub(m, one), hn::Add(m, one)), z = hn::Mul(s, s);
  static constexpr float kOdd[] = {2.0f / 9, 2.0f / 7, 2.0f / 5, 2.0f / 3};
  const V tail = hn::Mul(hn::Mul(s, z), PolynomialOf(d, z, kOdd));
  const V low = hn::Add(tail, hn::Mul(e, hn::Set(d, -2.12194440e-4f)));
  const V log = hn::Add(hn::Mul(e, hn::Set(d, 0.693359375f)), hn::Add(hn::Add(s, s), low));
  // +infinity and NaN are returned as they are; 0 and subnormal numbers give -infinity, negative numbers NaN.
  const V infinity = hn::Inf(d);
  const V special = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::NaN(d), hn::Neg(infinity));
  const V positive = hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Eq(x, infinity)), x, log);
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, 1.17549435e-38f)), special, positive);
}

// Returns log(1 + x) = log(u) + (x - (u - 1)) / u, where u is 1 + x, rounded.
template <class D, class V>
HWY_INLINE V Log1pOf(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V one = hn::Set(d, 1.0f), u = hn::Add(one, x);
  const V correction = hn::Div(hn::Sub(x, hn::Sub(u, one)), u);
  const V log = LogOf(d, u);
  const auto plain = hn::And(hn::Gt(u, hn::Zero(d)), hn::Lt(u, hn::Inf(d)));
  return hn::IfThenElse(plain, hn::Add(log, correction), log);
}

// Replaces each x <= 0 by e^x in fewer steps: 2^n times a polynomial of degree 6 fitted to 3e-9. Results below the
// smallest normal number become 0; NaN stays NaN. Each step is done for all the vectors before the next. One
// exponential is a chain of twenty dependent steps, and a processor looks ahead over at most four of them.
template <class D, size_t kCount>
HWY_INLINE void ExpsOfNonPositive(D d, hwy::HWY_NAMESPACE::Vec<D> (&x)[kCount]) {
  namespace hn = hwy::HWY_NAMESPACE;
  using V = hn::Vec<D>;
  hn::Vec<hn::RebindToSigned<D>> n[kCount];
  V r[kCount], power[kCount];
  RIVULET_UNROLL
  for (size_t k = 0; k < kCount; ++k) {
    V whole;
    n[k] = NearestWhole(d, hn::Mul(x[k], hn::Set(d, 1.44269504f)), whole);
    // The first part of ln(2) has 9 bits: its product with n is exact, so fusing the operations changes no bit.
    r[k] = hn::NegMulAdd(whole, hn::Set(d, 0.693359375f), x[k]);
    r[k] = hn::Sub(r[k], hn::Mul(whole, hn::Set(d, -2.12194440e-4f)));
  }
  static constexpr float kFit[] = {
      1.39411466e-3f, 8.375156955e-3f, 4.166635244e-2f, 1.666641515e-1f, 5.000000047e-1f, 1.000000038f, 1.0f};
  RIVULET_UNROLL
  for (size_t k = 0; k < kCount; ++k) power[k] = hn::Set(d, kFit[0]);
  RIVULET_UNROLL
  for (size_t i = 1; i < sizeof(kFit) / sizeof(kFit[0]); ++i) RIVULET_UNROLL
  for (size_t k = 0; k < kCount; ++k) power[k] = hn::Add(hn::Mul(power[k], r[k]), hn::Set(d, kFit[i]));
  RIVULET_UNROLL
  for (size_t k = 0; k < kCount; ++k)
    x[k] = hn::IfThenZeroElse(hn::Lt(x[k], hn::Set(d, -87.336544f)), hn::Mul(power[k], PowerOfTwo(d, n[k])));
}

template <class D, class V>
HWY_INLINE V ExpOfNonPositive(D d, V x) {
  V one[1] = {x};
  ExpsOfNonPositive(d, one);
  return one[0];
}

// Returns e^x - 1 for x in [-87, 87], exact near 0. With x = n ln(2) + r it is 2^n (e^r - 1) + (2^n - 1), where e^r - 1
// = r + r² q(r) and q is fitted to 6e-10 of it. NaN stays NaN.
template <class D, class V>
HWY_INLINE V Expm1Within87(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  V whole;
  const auto n = NearestWhole(d, hn::Mul(x, hn::Set(d, 1.44269504f)), whole);
  V r = hn::NegMulAdd(whole, hn::Set(d, 0.693359375f), x);  // exact, as in ExpsOfNonPositive
  r = hn::Sub(r, hn::Mul(whole, hn::Set(d, -2.12194440e-4f)));
  static constexpr float kFit[] = {1.989101718e-4f, 1.393367373e-3f, 8.333310902e-3f,
                                   4.166646471e-2f, 1.666666668e-1f, 5.000000013e-1f};
  const V near = hn::Add(r, hn::Mul(hn::Mul(r, r), PolynomialOf(d, r, kFit)));
  const V power = PowerOfTwo(d, n);
  return hn::Add(hn::Mul(near, power), hn::Sub(power, hn::Set(d, 1.0f)));
}

// Returns e^x - 1 for x <= 0; the result for other x is unspecified.
template <class D, class V>
HWY_INLINE V Expm1OfNonPositive(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V least = hn::Set(d, -20.0f);  // the result is -1 for anything below
  return Expm1Within87(d, hn::IfThenElse(hn::Lt(x, least), least, x));
}

// Returns tanh x as expm1(2|x|) / (expm1(2|x|) + 2) with the sign of x.
template <class D, class V>
HWY_INLINE V TanhOf(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V magnitude = hn::Abs(x), twice = hn::Add(magnitude, magnitude), most = hn::Set(d, 30.0f);
  const V e = Expm1Within87(d, hn::IfThenElse(hn::Gt(twice, most), most, twice));  // keeps NaN
  return hn::CopySign(hn::Div(e, hn::Add(e, hn::Set(d, 2.0f))), x);
}

// Returns the logistic function of x. Only exponentials of negative numbers are taken, so that nothing overflows.
template <class D, class V>
HWY_INLINE V SigmoidOf(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V one = hn::Set(d, 1.0f), e = ExpOfNonPositive(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

template <class D, class V>
HWY_INLINE V SoftplusOf(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V positive = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  return hn::Add(positive, Log1pOf(d, ExpOfNonPositive(d, hn::Neg(hn::Abs(x)))));
}

// Returns erf(a) for 0 <= a < 1: a times a polynomial in a², fitted to 2e-9.
template <class D, class V>
HWY_INLINE V ErfNear0(D d, V a) {
  namespace hn = hwy::HWY_NAMESPACE;
  static constexpr float kFit[] = {7.875875063e-5f, -8.016864287e-4f, 5.189087423e-3f, -2.685421201e-2f,
                                   1.128359472e-1f, -3.761262667e-1f, 1.128379166f};
  return hn::Mul(a, PolynomialOf(d, hn::Mul(a, a), kFit));
}

// Returns erfc(a) = e^(-a²) P(t) for a >= 1, where t = (a - 2) / (a + 2) and P is fitted to 3e-9. NaN stays NaN.
template <class D, class V>
HWY_INLINE V ErfcFrom1(D d, V a) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> du;
  const V two = hn::Set(d, 2.0f);
  static constexpr float kFit[] = {1.394580769e-4f,  7.726511382e-5f, -9.793188233e-4f, -8.54372284e-4f,
                                   6.997843894e-3f,  3.733452847e-3f, -7.897861637e-2f, 2.41658179e-1f,
                                   -4.271858469e-1f, 2.553956764e-1f};
  a = hn::IfThenElse(hn::Gt(a, hn::Set(d, 12.0f)), hn::Set(d, 12.0f), a);  // the result is 0 for anything above
  const V p = PolynomialOf(d, hn::Div(hn::Sub(a, two), hn::Add(a, two)), kFit);
  // Splits a² in two: the square of a's first 12 bits is exact; the rest is below 0.1: a cubic gives its exponential.
  const V head = hn::BitCast(d, hn::And(hn::BitCast(du, a), hn::Set(du, 0xFFFFF000u)));
  const V rest = hn::Mul(hn::Sub(head, a), hn::Add(a, head));
  static constexpr float kCubic[] = {1.0f / 6, 0.5f, 1.0f, 1.0f};
  return hn::Mul(hn::Mul(ExpOfNonPositive(d, hn::Neg(hn::Mul(head, head))), PolynomialOf(d, rest, kCubic)), p);
}

template <class D, class V>
HWY_INLINE V ErfOf(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V a = hn::Abs(x), one = hn::Set(d, 1.0f);
  const auto small = hn::Lt(a, one);
  const V near = ErfNear0(d, hn::IfThenElseZero(small, a));
  const V far = hn::Sub(one, ErfcFrom1(d, hn::IfThenElse(small, one, a)));
  return hn::CopySign(hn::IfThenElse(small, near, far), x);
}

template <class D, class V>
HWY_INLINE V ErfcOf(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V a = hn::Abs(x), one = hn::Set(d, 1.0f);
  const auto small = hn::Lt(a, one), negative = hn::Lt(x, hn::Zero(d));
  const V near = hn::CopySign(ErfNear0(d, hn::IfThenElseZero(small, a)), x);
  const V far = ErfcFrom1(d, hn::IfThenElse(small, one, a));
  return hn::IfThenElse(small, hn::Sub(one, near), hn::IfThenElse(negative, hn::Sub(hn::Set(d, 2.0f), far), far));
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
