// SIMD vectors of doubles at the width of the instruction set, for sums whose bits do not depend on that width.
// Included per target (no include guard of the usual kind).
#include <hwy/highway.h>

#if defined(RIVULET_DOUBLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_DOUBLES_INL_H_
#undef RIVULET_DOUBLES_INL_H_
#else
#define RIVULET_DOUBLES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

#if HWY_MAX_BYTES >= 64
using Doubles = hwy::HWY_NAMESPACE::FixedTag<double, 8>;
#elif HWY_MAX_BYTES >= 32
using Doubles = hwy::HWY_NAMESPACE::FixedTag<double, 4>;
#elif HWY_TARGET == HWY_SCALAR
using Doubles = hwy::HWY_NAMESPACE::FixedTag<double, 1>;
#else
using Doubles = hwy::HWY_NAMESPACE::FixedTag<double, 2>;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
