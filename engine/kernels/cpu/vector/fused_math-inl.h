// Exponentials for kernels that need not give the same bits on all CPUs. Multiply-adds are fused if the target has
// them, which halves the instructions of vector_math-inl.h. Included per target (no include guard of the usual kind).
#include <cstddef>

#include "hwy/highway.h"

#if defined(RIVULET_FUSED_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_FUSED_MATH_INL_H_
#undef RIVULET_FUSED_MATH_INL_H_
#else
#define RIVULET_FUSED_MATH_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

// Evaluates c[0] x^n + … + c[n].
template <class D, class V, size_t N>
HWY_INLINE V FusedPolynomial(D d, V x, const float (&coefficients)[N]) {
  namespace hn = hwy::HWY_NAMESPACE;
  V value = hn::Set(d, coefficients[0]);
  for (size_t i = 1; i < N; ++i) value = hn::MulAdd(value, x, hn::Set(d, coefficients[i]));
  return value;
}

// Returns e^x for x <= 80, within 2 units in the last place, by the steps of ExpOfNonPositive with fused operations.
// Results below the smallest normal number become 0; NaN stays NaN.
template <class D, class V>
HWY_INLINE V FusedExp(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  // Adding a number this large rounds the fraction away. The lowest bits of the sum are n + 127, which is the exponent
  // field of 2^n.
  const V large = hn::Set(d, 12582912.0f + 127.0f);
  const V sum = hn::MulAdd(x, hn::Set(d, 1.44269504f), large), whole = hn::Sub(sum, large);
  V r = hn::NegMulAdd(whole, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(whole, hn::Set(d, -2.12194440e-4f), r);
  static constexpr float kFit[] = {
      1.39411466e-3f, 8.375156955e-3f, 4.166635244e-2f, 1.666641515e-1f, 5.000000047e-1f, 1.000000038f, 1.0f};
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, sum)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.336544f)), hn::Mul(FusedPolynomial(d, r, kFit), power));
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
