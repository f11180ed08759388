#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/stream_add.cc"
#include <hwy/foreach_target.h>  // compiles this file once per target
//
#include <hwy/highway.h>

#include "tests/bench/stream_add.h"

HWY_BEFORE_NAMESPACE();
namespace rivulet::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void Stream(const float* HWY_RESTRICT values, size_t n, double weight, double* HWY_RESTRICT sums) {
  const hn::ScalableTag<double> doubles;
  const hn::Rebind<float, decltype(doubles)> floats;
  const size_t lanes = hn::Lanes(doubles);
  const auto weights = hn::Set(doubles, weight);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    for (size_t at = i; at < i + 2 * lanes; at += lanes) {
      const auto value = hn::PromoteTo(doubles, hn::LoadU(floats, values + at));
      hn::StoreU(hn::MulAdd(value, weights, hn::LoadU(doubles, sums + at)), doubles, sums + at);
    }
  }
  for (; i < n; ++i) sums[i] += weight * static_cast<double>(values[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet::bench {
namespace {
HWY_EXPORT(Stream);
}  // namespace

void StreamAdd(std::span<const float> values, double weight, std::span<double> sums) {
  HWY_DYNAMIC_DISPATCH(Stream)(values.data(), sums.size(), weight, sums.data());
}

}  // namespace rivulet::bench
#endif  // HWY_ONCE
