#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tensor/float16.cc"
#include "hwy/foreach_target.h"
// after foreach_target
#include "engine/base/check.h"
#include "engine/tensor/float16.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void FromBfloat16(const uint16_t* from, float* to, int64_t count) {
  const hn::ScalableTag<uint32_t> d32;
  const hn::Rebind<uint16_t, decltype(d32)> d16;
  const hn::RebindToFloat<decltype(d32)> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d32));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from + i)));
    hn::StoreU(hn::BitCast(df, wide), df, to + i);
  }
  for (; i < count; ++i) to[i] = bfloat16::FromBits(from[i]);
}

// To nearest, ties to even, by adding just below half and the lowest bit that stays; NaN apart, which the addition
// would turn into an infinity.
void ToBfloat16(const float* from, uint16_t* to, int64_t count) {
  const hn::ScalableTag<uint32_t> d32;
  const hn::Rebind<uint16_t, decltype(d32)> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d32));
  const auto one = hn::Set(d32, 1), half = hn::Set(d32, 0x7FFF), magnitude = hn::Set(d32, 0x7FFFFFFF),
             infinity = hn::Set(d32, 0x7F800000), quiet = hn::Set(d32, 0x0040);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto u = hn::LoadU(d32, reinterpret_cast<const uint32_t*>(from + i));
    const auto high = hn::ShiftRight<16>(u);
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(u, half), hn::And(high, one)));
    const auto nan = hn::Gt(hn::And(u, magnitude), infinity);
    hn::StoreU(hn::TruncateTo(d16, hn::IfThenElse(nan, hn::Or(high, quiet), rounded)), d16, to + i);
  }
  for (; i < count; ++i) to[i] = bfloat16(from[i]).bits;
}

// AVX2 and AVX-512 (the lower numbers) convert float16 in hardware, rounding to nearest even.
void FromFloat16(const uint16_t* from, float* to, int64_t count) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> df;
  const hn::Rebind<hwy::float16_t, decltype(df)> dh;
  const hn::RebindToUnsigned<decltype(dh)> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::PromoteTo(df, hn::BitCast(dh, hn::LoadU(d16, from + i))), df, to + i);
#endif
  for (; i < count; ++i) to[i] = float16::FromBits(from[i]);
}

void ToFloat16(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> df;
  const hn::Rebind<hwy::float16_t, decltype(df)> dh;
  const hn::RebindToUnsigned<decltype(dh)> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::BitCast(d16, hn::DemoteTo(dh, hn::LoadU(df, from + i))), d16, to + i);
#endif
  for (; i < count; ++i) to[i] = float16(from[i]).bits;
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(FromBfloat16);
HWY_EXPORT(ToBfloat16);
HWY_EXPORT(FromFloat16);
HWY_EXPORT(ToFloat16);

void Float32From16(DType from_type, const std::byte* from, float* to, int64_t count) {
  RIVULET_CHECK(Is16BitFloat(from_type));
  const auto* bits = reinterpret_cast<const uint16_t*>(from);
  if (from_type == DType::kBFloat16) return HWY_DYNAMIC_DISPATCH(FromBfloat16)(bits, to, count);
  HWY_DYNAMIC_DISPATCH(FromFloat16)(bits, to, count);
}

void Float16From32(DType to_type, const float* from, std::byte* to, int64_t count) {
  RIVULET_CHECK(Is16BitFloat(to_type));
  auto* bits = reinterpret_cast<uint16_t*>(to);
  if (to_type == DType::kBFloat16) return HWY_DYNAMIC_DISPATCH(ToBfloat16)(from, bits, count);
  HWY_DYNAMIC_DISPATCH(ToFloat16)(from, bits, count);
}

}  // namespace rivulet
#endif
