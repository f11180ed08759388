// Sums of a row in 16 virtual lanes. Element i goes to lane i mod 16 (of the four that rows of 64 and more have), and
// the lanes are joined as a tree. The sum has the same bits for any number of elements per vector. Included per target
// (no include guard of the usual kind).
#include <algorithm>
#include <cstddef>

#include "engine/kernels/cpu/vector/tail-inl.h"
#include "engine/kernels/cpu/vector/unroll.h"
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

// Adds 16 lanes, given as vectors of D, as a tree: lanes i and i + 8, then i and i + 4, and so on.
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

// Computes lane sums, not yet joined, of `kSums` values per element at once. Calls f(load, add) for one vector of
// elements after another: load(p) gives the vector at p + offset, and add(s, v) adds v to sum s. Lanes beyond the row
// add nothing. Four blocks of 16 elements have separate sums while enough remain, so that additions need not wait for
// each other.
template <size_t kSums, class D, size_t kVectors, class F>
HWY_INLINE void LaneTotals(D d, size_t count, F f, hwy::HWY_NAMESPACE::Vec<D> (&total)[kSums][kVectors]) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr size_t kLanes = 16, kChains = 4, kVector = kLanes / kVectors;
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  RIVULET_UNROLL
  for (auto& vectors : total) {
    RIVULET_UNROLL
    for (V& vector : vectors) vector = hn::Zero(d);
  }
  size_t i = 0;
  if (count >= kChains * kLanes) {
    V chains[kSums][kChains][kVectors];
    RIVULET_UNROLL
    for (auto& sum : chains) {
      RIVULET_UNROLL
      for (auto& vectors : sum) {
        RIVULET_UNROLL
        for (V& vector : vectors) vector = hn::Zero(d);
      }
    }
    for (; i + kChains * kLanes <= count; i += kChains * kLanes) {
      RIVULET_UNROLL
      for (size_t c = 0; c < kChains; ++c) {
        RIVULET_UNROLL
        for (size_t k = 0; k < kVectors; ++k) {
          f([=](const T* p) HWY_ATTR { return hn::LoadU(d, p + i + c * kLanes + k * kVector); },
            [&](size_t s, V v) HWY_ATTR { chains[s][c][k] = hn::Add(chains[s][c][k], v); });
        }
      }
    }
    RIVULET_UNROLL
    for (size_t s = 0; s < kSums; ++s) {
      RIVULET_UNROLL
      for (size_t k = 0; k < kVectors; ++k)
        total[s][k] = hn::Add(hn::Add(chains[s][0][k], chains[s][1][k]), hn::Add(chains[s][2][k], chains[s][3][k]));
    }
  }
  for (; i + kLanes <= count; i += kLanes) {
    RIVULET_UNROLL
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
}

// Computes the same sums and joins the lanes: `sums` gets the totals.
template <size_t kSums, typename T, class F>
HWY_INLINE void LaneSums(size_t count, F f, T (&sums)[kSums]) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<T, 16> d;
  hn::Vec<decltype(d)> total[kSums][16 / hn::MaxLanes(hn::CappedTag<T, 16>())];
  LaneTotals<kSums>(d, count, f, total);
  for (size_t s = 0; s < kSums; ++s) sums[s] = JoinLanes(d, total[s]);
}

// JoinLanes of several rows, with the same order of additions. Four rows of float are joined together in registers,
// with half the instructions; one row at a time would need stores and loads that wait for each other.
template <class D, size_t kRows, size_t kVectors, typename T = hwy::HWY_NAMESPACE::TFromD<D>>
HWY_INLINE void JoinRows(D d, const hwy::HWY_NAMESPACE::Vec<D> (&rows)[kRows][kVectors], T (&sums)[kRows]) {
#if HWY_TARGET != HWY_SCALAR
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kRows == 4 && kVectors <= 4 && sizeof(T) == 4) {
    const hn::CappedTag<T, 4> d4;
    hn::Vec<decltype(d4)> four[4];  // lanes i, i + 8, i + 4 and i + 12 of each row, added up
    RIVULET_UNROLL
    for (size_t r = 0; r < 4; ++r) {
      if constexpr (kVectors == 4) {
        four[r] = hn::Add(hn::Add(rows[r][0], rows[r][2]), hn::Add(rows[r][1], rows[r][3]));
      } else {
        const hn::CappedTag<T, 8> d8;
        hn::Vec<decltype(d8)> eight;
        if constexpr (kVectors == 2)
          eight = hn::Add(rows[r][0], rows[r][1]);
        else
          eight = hn::Add(hn::LowerHalf(d8, rows[r][0]), hn::UpperHalf(d8, rows[r][0]));
        four[r] = hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
      }
    }
    const auto pair = [d4](auto a, auto b) HWY_ATTR {  // a0 + a2, b0 + b2, a1 + a3, b1 + b3
      return hn::Add(hn::InterleaveLower(d4, a, b), hn::InterleaveUpper(d4, a, b));
    };
    const auto first = pair(four[0], four[1]), second = pair(four[2], four[3]);
    hn::StoreU(hn::Add(hn::ConcatLowerLower(d4, second, first), hn::ConcatUpperUpper(d4, second, first)), d4, sums);
    return;
  }
#endif
  for (size_t r = 0; r < kRows; ++r) sums[r] = JoinLanes(d, rows[r]);
}

// Lane sums of Lanes(d) consecutive vectors, each with the bits of SumOfLanes: the vector's halves are added, then
// their halves. Two vectors share each instruction, so a vector costs two instructions instead of eight. For
// comparison, a row of 128 products needs only eight multiplications.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> LaneSumsOf(D d, const float* vectors) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr size_t kLanes = hn::MaxLanes(D());
  const auto at = [=](size_t i) HWY_ATTR { return hn::Load(d, vectors + i * kLanes); };
#if HWY_TARGET == HWY_SCALAR
  return at(0);
#else
  using V = hn::Vec<D>;
  const hn::Repartition<double, D> pairs;
  // Adds lanes 0 and 2, 1 and 3 of each block; the sums of a come before those of b.
  const auto quarters = [=](V a, V b) HWY_ATTR {
    const auto x = hn::BitCast(pairs, a), y = hn::BitCast(pairs, b);
    return hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, x, y)), hn::BitCast(d, hn::InterleaveUpper(pairs, x, y)));
  };
  [[maybe_unused]] const auto halves = [=](V a, V b) HWY_ATTR {
    return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
  };
  V first, second;
  if constexpr (kLanes == 4) {
    first = quarters(at(0), at(1));
    second = quarters(at(2), at(3));
  } else if constexpr (kLanes == 8) {
    first = quarters(halves(at(0), at(2)), halves(at(1), at(3)));
    second = quarters(halves(at(4), at(6)), halves(at(5), at(7)));
  } else {
    static_assert(kLanes == 16);
    // Adds blocks 0 and 1, 2 and 3. The even blocks get the sums of a, the odd ones those of b.
    const auto blocks = [=](V a, V b) HWY_ATTR {
      return hn::Add(hn::OddEvenBlocks(b, a), hn::SwapAdjacentBlocks(hn::OddEvenBlocks(a, b)));
    };
    const auto eight = [=](size_t i) HWY_ATTR {
      return quarters(blocks(halves(at(i), at(i + 4)), halves(at(i + 2), at(i + 6))),
                      blocks(halves(at(i + 1), at(i + 5)), halves(at(i + 3), at(i + 7))));
    };
    first = eight(0);
    second = eight(8);
  }
  return hn::Add(hn::ConcatEven(d, second, first), hn::ConcatOdd(d, second, first));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
