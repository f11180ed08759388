// Sums of a row in 16 virtual lanes: element i goes to lane i mod 16 (of the four that rows of 64 and more have), and
// the lanes are joined as a tree. However many elements a vector has, the sum has the same bits. Included per target
// (no include guard of the usual kind).
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

// The sum of 16 lanes, in vectors of D, as a tree: lanes i and i + 8, then i and i + 4, and so on.
template <class D, size_t kVectors, typename T = hwy::HWY_NAMESPACE::TFromD<D>>
HWY_INLINE T JoinLanes(D d, const hwy::HWY_NAMESPACE::Vec<D> (&vectors)[kVectors]) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr size_t kVector = 16 / kVectors;
  HWY_ALIGN T lanes[16];
  for (size_t k = 0; k < kVectors; ++k) hn::Store(vectors[k], d, lanes + k * kVector);
  const hn::CappedTag<T, 4> quarter;
  constexpr size_t kStep = hn::MaxLanes(hn::CappedTag<T, 4>());
  for (size_t i = 0; i < 4; i += kStep) {
    const auto even = hn::Add(hn::Load(quarter, lanes + i), hn::Load(quarter, lanes + 8 + i));
    const auto odd = hn::Add(hn::Load(quarter, lanes + 4 + i), hn::Load(quarter, lanes + 12 + i));
    hn::Store(hn::Add(even, odd), quarter, lanes + i);
  }
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

// Sums `kSums` values per element at once. f(load, add) is called for vectors of elements one after the other: load(p)
// gives the vector at p + offset, add(s, v) adds v to sum s; lanes beyond the row count nothing. `sums` gets the
// totals. Four blocks of 16 elements run side by side while there are as many, so that one addition need not wait for
// the last.
template <size_t kSums, typename T, class F>
HWY_INLINE void LaneSums(size_t count, F f, T (&sums)[kSums]) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr size_t kLanes = 16, kChains = 4;
  const hn::CappedTag<T, kLanes> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kVector = hn::MaxLanes(hn::CappedTag<T, kLanes>()), kVectors = kLanes / kVector;
  V total[kSums][kVectors];
  for (auto& vectors : total)
    for (V& vector : vectors) vector = hn::Zero(d);
  size_t i = 0;
  if (count >= kChains * kLanes) {
    V chains[kSums][kChains][kVectors];
    for (auto& sum : chains)
      for (auto& vectors : sum)
        for (V& vector : vectors) vector = hn::Zero(d);
    for (; i + kChains * kLanes <= count; i += kChains * kLanes) {
      for (size_t c = 0; c < kChains; ++c) {
        for (size_t k = 0; k < kVectors; ++k) {
          f([=](const T* p) HWY_ATTR { return hn::LoadU(d, p + i + c * kLanes + k * kVector); },
            [&](size_t s, V v) HWY_ATTR { chains[s][c][k] = hn::Add(chains[s][c][k], v); });
        }
      }
    }
    for (size_t s = 0; s < kSums; ++s)
      for (size_t k = 0; k < kVectors; ++k)
        total[s][k] = hn::Add(hn::Add(chains[s][0][k], chains[s][1][k]), hn::Add(chains[s][2][k], chains[s][3][k]));
  }
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
  for (size_t s = 0; s < kSums; ++s) sums[s] = JoinLanes(d, total[s]);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
