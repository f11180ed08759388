#include "engine/kernels/cpu/reduce_f32.h"

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

void AddRows(const float* HWY_RESTRICT in, int64_t stride, int64_t rows, double* HWY_RESTRICT sums, int64_t width) {
  const Doubles d;
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    hn::Vec<Doubles> sum[kVectors];
    _Pragma("GCC unroll 16") for (int64_t v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, sums + i + v * kWide);
    const float* row = in + i;
    for (int64_t r = 0; r < rows; ++r, row += stride) {
      _Pragma("GCC unroll 16") for (int64_t v = 0; v < kVectors; ++v) sum[v] =
          hn::Add(sum[v], Widened(row + v * kWide));
    }
    _Pragma("GCC unroll 16") for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, sums + i + v * kWide);
  }
  for (; i < width; ++i) {
    double sum = sums[i];
    const float* row = in + i;
    for (int64_t r = 0; r < rows; ++r, row += stride) sum += static_cast<double>(*row);
    sums[i] = sum;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(SumRow);
HWY_EXPORT(AddRows);

double SumRowF32(const float* in, int64_t count) { return HWY_DYNAMIC_DISPATCH(SumRow)(in, count); }

void AddRowsF32(const float* in, int64_t stride, int64_t rows, double* sums, int64_t width) {
  HWY_DYNAMIC_DISPATCH(AddRows)(in, stride, rows, sums, width);
}

}  // namespace rivulet
#endif
