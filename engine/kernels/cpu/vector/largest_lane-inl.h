// The largest of a vector's lanes. Included per target (no include guard of the usual kind).
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

// Highway's emulation of vectors, which clang's builds have where GCC's have scalars, begins with the lowest finite
// number: of lanes that are all -infinity its MaxOfLanes is none of them.
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
