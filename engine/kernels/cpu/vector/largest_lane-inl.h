// The largest lane of a vector. Included per target (no include guard of the usual kind).
#include <algorithm>

#include "hwy/highway.h"

#if defined(RIVULET_LARGEST_LANE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_LARGEST_LANE_INL_H_
#undef RIVULET_LARGEST_LANE_INL_H_
#else
#define RIVULET_LARGEST_LANE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

// Clang's builds use Highway's emulated vectors where GCC's use scalars. That emulation's MaxOfLanes starts from the
// lowest finite number, so it is wrong if all lanes are -infinity.
template <class D>
HWY_INLINE float LargestLane(D d, hwy::HWY_NAMESPACE::Vec<D> v) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET == HWY_EMU128
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  return *std::max_element(lanes, lanes + hn::MaxLanes(D()));
#else
  return hn::GetLane(hn::MaxOfLanes(d, v));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif  // RIVULET_LARGEST_LANE_INL_H_
