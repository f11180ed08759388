#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tensor/scaled_bytes.cc"
#include "hwy/foreach_target.h"
// after foreach_target
#include "engine/tensor/scaled_bytes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A table of 256 values would need a load for each value, and gathers are slower than the arithmetic. In float32 the
// product would be rounded from a rounded factor, to other bits than the formats of images are read with elsewhere.
void ScaleBytesByVectors(const uint8_t* from, int64_t count, double scale, float* to) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<double> dd;
  const hn::Rebind<int32_t, decltype(dd)> d32;
  const hn::Rebind<uint8_t, decltype(dd)> d8;
  const hn::Rebind<float, decltype(dd)> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(dd));
  const auto factor = hn::Set(dd, scale);
  for (; i + lanes <= count; i += lanes) {
    const auto wide = hn::PromoteTo(dd, hn::PromoteTo(d32, hn::LoadU(d8, from + i)));
    hn::StoreU(hn::DemoteTo(df, hn::Mul(wide, factor)), df, to + i);
  }
#endif
  for (; i < count; ++i) to[i] = static_cast<float>(from[i] * scale);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(ScaleBytesByVectors);

void ScaleBytes(const uint8_t* from, int64_t count, double scale, float* to) {
  HWY_DYNAMIC_DISPATCH(ScaleBytesByVectors)(from, count, scale, to);
}

}  // namespace rivulet
#endif
