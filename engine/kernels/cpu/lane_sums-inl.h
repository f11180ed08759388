// Sums of a row in 16 virtual lanes: element i goes to lane i mod 16, and the lanes are joined as a tree. However many
// elements a vector has, the sum has the same bits. Included per target (no include guard of the usual kind).
#include <algorithm>
#include <cstddef>

#include "engine/kernels/cpu/tail-inl.h"
#include "hwy/highway.h"

#if defined(RIVULET_LANE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_LANE_SUMS_INL_H_
#undef RIVULET_LANE_SUMS_INL_H_
#else
#define RIVULET_LANE_SUMS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

// Sums `kSums` values per element at once. f(load, add) is called for vectors of elements one after the other: load(p)
// gives the vector at p + offset, add(s, v) adds v to sum s; lanes beyond the row count nothing. `sums` gets the
// totals.
template <size_t kSums, typename T, class F>
HWY_INLINE void LaneSums(size_t count, F f, T (&sums)[kSums]) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr size_t kLanes = 16;
  const hn::CappedTag<T, kLanes> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kVector = hn::MaxLanes(hn::CappedTag<T, kLanes>()), kVectors = kLanes / kVector;
  V total[kSums][kVectors];
  for (auto& vectors : total)
    for (V& vector : vectors) vector = hn::Zero(d);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t k = 0; k < kVectors; ++k) {
      f([=](const T* p) HWY_ATTR { return hn::LoadU(d, p + i + k * kVector); },
        [&](size_t s, V v) HWY_ATTR { total[s][k] = hn::Add(total[s][k], v); });
    }
  }
  for (size_t k = 0; i < count; ++k, i += kVector) {
    const size_t rest = std::min(count - i, kVector);
    const auto within = hn::FirstN(d, rest);
    f([=](const T* p) HWY_ATTR { return LoadTail(d, p + i, rest); },
      [&](size_t s, V v) HWY_ATTR { total[s][k] = hn::Add(total[s][k], hn::IfThenElseZero(within, v)); });
  }
  for (size_t s = 0; s < kSums; ++s) {
    HWY_ALIGN T lanes[kLanes];
    for (size_t k = 0; k < kVectors; ++k) hn::Store(total[s][k], d, lanes + k * kVector);
    for (size_t width = kLanes / 2; width > 0; width /= 2)
      for (size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
    sums[s] = lanes[0];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
