#include "engine/kernels/cpu/reduction/reduce_f32.h"

#include <algorithm>
#include <limits>

#include "engine/kernels/cpu/vector/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/reduction/reduce_f32.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/base/doubles-inl.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kWide = static_cast<int64_t>(hn::MaxLanes(Doubles()));
constexpr int64_t kSumLanes = 16;
constexpr int64_t kSumVectors = kSumLanes / kWide;

HWY_INLINE hn::Vec<Doubles> Widened(const float* in) {
  const hn::Rebind<float, Doubles> floats;
  return hn::PromoteTo(Doubles(), hn::LoadU(floats, in));
}

// Reduces a vector's lanes as a tree: i and i + half of them, and so on.
template <class D, class F>
HWY_INLINE hn::TFromD<D> JoinHalves(D, hn::Vec<D> v, [[maybe_unused]] const F& join) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::GetLane(v);
  } else {
#if HWY_TARGET != HWY_SCALAR
    const hn::Half<D> half;
    return JoinHalves(half, join(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), join);
#endif
  }
}

// A lane without elements is 0 and does not change the sum.
HWY_INLINE double SumRow(const float* HWY_RESTRICT in, int64_t count) {
  const Doubles d;
  const hn::Rebind<float, Doubles> floats;
  hn::Vec<Doubles> sum[kSumVectors];
  RIVULET_UNROLL
  for (int64_t v = 0; v < kSumVectors; ++v) sum[v] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    RIVULET_UNROLL
    for (int64_t v = 0; v < kSumVectors; ++v) sum[v] = hn::Add(sum[v], Widened(in + i + v * kWide));
  }
  RIVULET_UNROLL
  for (int64_t v = 0; v < kSumVectors; ++v) {
    const int64_t rest = count - i - v * kWide;
    if (rest > 0) {
      const auto tail = LoadTail(floats, in + i + v * kWide, static_cast<size_t>(std::min(rest, kWide)));
      sum[v] = hn::Add(sum[v], hn::PromoteTo(d, tail));
    }
  }
  RIVULET_UNROLL
  for (int64_t width = kSumVectors / 2; width > 0; width /= 2) {
    RIVULET_UNROLL
    for (int64_t v = 0; v < width; ++v) sum[v] = hn::Add(sum[v], sum[v + width]);
  }
  return JoinHalves(d, sum[0], [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

void SumRows(const float* in, int64_t stride, int64_t count, int64_t rows, double* sums) {
  for (int64_t row = 0; row < rows; ++row) sums[row] = SumRow(in + row * stride, count);
}

// `kColumns` sums in registers over all rows.
template <int64_t kColumns>
HWY_INLINE void AddColumns(const float* HWY_RESTRICT in, int64_t stride, int64_t rows, double* HWY_RESTRICT sums) {
  const Doubles d;
  constexpr int64_t kCount = kColumns / kWide;
  hn::Vec<Doubles> sum[kCount];
  RIVULET_UNROLL
  for (int64_t v = 0; v < kCount; ++v) sum[v] = hn::LoadU(d, sums + v * kWide);
  for (int64_t r = 0; r < rows; ++r, in += stride) {
    RIVULET_UNROLL
    for (int64_t v = 0; v < kCount; ++v) sum[v] = hn::Add(sum[v], Widened(in + v * kWide));
  }
  RIVULET_UNROLL
  for (int64_t v = 0; v < kCount; ++v) hn::StoreU(sum[v], d, sums + v * kWide);
}

void AddRows(const float* HWY_RESTRICT in, int64_t stride, int64_t rows, double* HWY_RESTRICT sums, int64_t width) {
  int64_t i = 0;
  for (; i + 8 * kWide <= width; i += 8 * kWide) AddColumns<8 * kWide>(in + i, stride, rows, sums + i);
  for (; i + kWide <= width; i += kWide) AddColumns<kWide>(in + i, stride, rows, sums + i);
  for (; i < width; ++i) {
    double sum = sums[i];
    const float* row = in + i;
    for (int64_t r = 0; r < rows; ++r, row += stride) sum += static_cast<double>(*row);
    sums[i] = sum;
  }
}

using Floats = hn::FixedTag<float, HWY_MAX_BYTES >= 64        ? 16
                                   : HWY_MAX_BYTES >= 32      ? 8
                                   : HWY_TARGET == HWY_SCALAR ? 1
                                                              : 4>;

// Joins as `b beyond a, or b is NaN ? b : a`.
template <bool kLargest>
HWY_INLINE float Extreme(const float* HWY_RESTRICT in, int64_t count) {
  const Floats d;
  constexpr int64_t kSize = static_cast<int64_t>(hn::MaxLanes(Floats())), kCount = kSumLanes / kSize;
  const auto join = [](auto a, auto b) HWY_ATTR {
    const auto beyond = kLargest ? hn::Gt(b, a) : hn::Lt(b, a);
    return hn::IfThenElse(hn::Or(beyond, hn::IsNaN(b)), b, a);
  };
  const auto neutral =
      hn::Set(d, kLargest ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity());
  hn::Vec<Floats> best[kCount];
  RIVULET_UNROLL
  for (int64_t v = 0; v < kCount; ++v) best[v] = neutral;
  int64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    RIVULET_UNROLL
    for (int64_t v = 0; v < kCount; ++v) best[v] = join(best[v], hn::LoadU(d, in + i + v * kSize));
  }
  RIVULET_UNROLL
  for (int64_t v = 0; v < kCount; ++v) {
    const int64_t rest = count - i - v * kSize;
    if (rest > 0) {
      const auto within = static_cast<size_t>(std::min(rest, kSize));
      const auto tail = hn::IfThenElse(hn::FirstN(d, within), LoadTail(d, in + i + v * kSize, within), neutral);
      best[v] = join(best[v], tail);
    }
  }
  RIVULET_UNROLL
  for (int64_t width = kCount / 2; width > 0; width /= 2) {
    RIVULET_UNROLL
    for (int64_t v = 0; v < width; ++v) best[v] = join(best[v], best[v + width]);
  }
  return JoinHalves(d, best[0], join);
}

void MaxRows(const float* in, int64_t stride, int64_t count, int64_t rows, float* largest) {
  for (int64_t row = 0; row < rows; ++row) largest[row] = Extreme<true>(in + row * stride, count);
}
void MinRows(const float* in, int64_t stride, int64_t count, int64_t rows, float* least) {
  for (int64_t row = 0; row < rows; ++row) least[row] = Extreme<false>(in + row * stride, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(SumRows);
HWY_EXPORT(AddRows);
HWY_EXPORT(MaxRows);
HWY_EXPORT(MinRows);

void SumRowsF32(const float* in, int64_t stride, int64_t count, int64_t rows, double* sums) {
  HWY_DYNAMIC_DISPATCH(SumRows)(in, stride, count, rows, sums);
}
void MaxRowsF32(const float* in, int64_t stride, int64_t count, int64_t rows, float* largest) {
  HWY_DYNAMIC_DISPATCH(MaxRows)(in, stride, count, rows, largest);
}
void MinRowsF32(const float* in, int64_t stride, int64_t count, int64_t rows, float* least) {
  HWY_DYNAMIC_DISPATCH(MinRows)(in, stride, count, rows, least);
}

void AddRowsF32(const float* in, int64_t stride, int64_t rows, double* sums, int64_t width) {
  HWY_DYNAMIC_DISPATCH(AddRows)(in, stride, rows, sums, width);
}

}  // namespace rivulet
#endif
