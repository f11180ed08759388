#include "engine/kernels/cpu/reduce_f32.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/reduce_f32.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_MAX_BYTES >= 64
using Doubles = hn::FixedTag<double, 8>;
#elif HWY_MAX_BYTES >= 32
using Doubles = hn::FixedTag<double, 4>;
#elif HWY_TARGET == HWY_SCALAR
using Doubles = hn::FixedTag<double, 1>;
#else
using Doubles = hn::FixedTag<double, 2>;
#endif
constexpr int64_t kWide = static_cast<int64_t>(hn::MaxLanes(Doubles()));
constexpr int64_t kLanes = 16;
constexpr int64_t kVectors = kLanes / kWide;

HWY_INLINE hn::Vec<Doubles> Widened(const float* in) {
  const hn::Rebind<float, Doubles> floats;
  return hn::PromoteTo(Doubles(), hn::LoadU(floats, in));
}

double SumRow(const float* HWY_RESTRICT in, int64_t count) {
  const Doubles d;
  hn::Vec<Doubles> sum[kVectors];
  _Pragma("GCC unroll 16") for (int64_t v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    _Pragma("GCC unroll 16") for (int64_t v = 0; v < kVectors; ++v) sum[v] =
        hn::Add(sum[v], Widened(in + i + v * kWide));
  }
  HWY_ALIGN double lanes[kLanes];
  for (int64_t v = 0; v < kVectors; ++v) hn::Store(sum[v], d, lanes + v * kWide);
  for (int64_t lane = 0; i < count; ++i, ++lane) lanes[lane] += static_cast<double>(in[i]);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

// `kColumns` sums in registers over all rows.
template <int64_t kColumns>
HWY_INLINE void AddColumns(const float* HWY_RESTRICT in, int64_t stride, int64_t rows, double* HWY_RESTRICT sums) {
  const Doubles d;
  constexpr int64_t kCount = kColumns / kWide;
  hn::Vec<Doubles> sum[kCount];
  _Pragma("GCC unroll 16") for (int64_t v = 0; v < kCount; ++v) sum[v] = hn::LoadU(d, sums + v * kWide);
  for (int64_t r = 0; r < rows; ++r, in += stride) {
    _Pragma("GCC unroll 16") for (int64_t v = 0; v < kCount; ++v) sum[v] = hn::Add(sum[v], Widened(in + v * kWide));
  }
  _Pragma("GCC unroll 16") for (int64_t v = 0; v < kCount; ++v) hn::StoreU(sum[v], d, sums + v * kWide);
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
  constexpr int64_t kSize = static_cast<int64_t>(hn::MaxLanes(Floats())), kCount = kLanes / kSize;
  const float neutral = kLargest ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  hn::Vec<Floats> best[kCount];
  _Pragma("GCC unroll 16") for (int64_t v = 0; v < kCount; ++v) best[v] = hn::Set(d, neutral);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    _Pragma("GCC unroll 16") for (int64_t v = 0; v < kCount; ++v) {
      const auto x = hn::LoadU(d, in + i + v * kSize);
      const auto beyond = kLargest ? hn::Gt(x, best[v]) : hn::Lt(x, best[v]);
      best[v] = hn::IfThenElse(hn::Or(beyond, hn::IsNaN(x)), x, best[v]);
    }
  }
  HWY_ALIGN float lanes[kLanes];
  for (int64_t v = 0; v < kCount; ++v) hn::Store(best[v], d, lanes + v * kSize);
  const auto join = [](float a, float b) { return (kLargest ? b > a : b < a) || b != b ? b : a; };
  for (int64_t lane = 0; i < count; ++i, ++lane) lanes[lane] = join(lanes[lane], in[i]);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] = join(lanes[lane], lanes[lane + width]);
  return lanes[0];
}

float MaxRow(const float* in, int64_t count) { return Extreme<true>(in, count); }
float MinRow(const float* in, int64_t count) { return Extreme<false>(in, count); }

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(SumRow);
HWY_EXPORT(AddRows);
HWY_EXPORT(MaxRow);
HWY_EXPORT(MinRow);

double SumRowF32(const float* in, int64_t count) { return HWY_DYNAMIC_DISPATCH(SumRow)(in, count); }

float MaxRowF32(const float* in, int64_t count) { return HWY_DYNAMIC_DISPATCH(MaxRow)(in, count); }
float MinRowF32(const float* in, int64_t count) { return HWY_DYNAMIC_DISPATCH(MinRow)(in, count); }

void AddRowsF32(const float* in, int64_t stride, int64_t rows, double* sums, int64_t width) {
  HWY_DYNAMIC_DISPATCH(AddRows)(in, stride, rows, sums, width);
}

}  // namespace rivulet
#endif
