// bfloat16 in memory, float32 in registers: the arithmetic of ops between 16-bit products. Included per target (no
// include guard of the usual kind).
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

#if defined(RIVULET_BFLOAT16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_BFLOAT16_INL_H_
#undef RIVULET_BFLOAT16_INL_H_
#else
#define RIVULET_BFLOAT16_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

// A vector of floats, and a vector of the bits of the same number of bfloat16 values.
using BFloat16Wide = hwy::HWY_NAMESPACE::ScalableTag<float>;
using BFloat16Bits = hwy::HWY_NAMESPACE::Rebind<uint16_t, BFloat16Wide>;

HWY_INLINE hwy::HWY_NAMESPACE::Vec<BFloat16Wide> Widened(hwy::HWY_NAMESPACE::Vec<BFloat16Bits> bits) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<BFloat16Wide> d32;
  return hn::BitCast(BFloat16Wide(), hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

// Rounds to the nearest, ties to even; gives the same bits as bfloat16(float).
HWY_INLINE hwy::HWY_NAMESPACE::Vec<BFloat16Bits> Rounded(hwy::HWY_NAMESPACE::Vec<BFloat16Wide> x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<BFloat16Wide> d32;
  const auto u = hn::BitCast(d32, x), high = hn::ShiftRight<16>(u);
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(u, hn::Set(d32, 0x7FFF)), hn::And(high, hn::Set(d32, 1))));
  const auto nan = hn::Gt(hn::And(u, hn::Set(d32, 0x7FFFFFFF)), hn::Set(d32, 0x7F800000));
  return hn::TruncateTo(BFloat16Bits(), hn::IfThenElse(nan, hn::Or(high, hn::Set(d32, 0x0040)), rounded));
}

// Calls f(load, store) over `count` elements: for whole vectors, then for the tail, beyond which no byte is touched.
// `load(p)` gives the bfloat16 values at p + offset as floats; `store(p, v)` rounds `v` and writes it there.
template <class F>
HWY_INLINE void ForEachBFloat16(size_t count, F f) {
  namespace hn = hwy::HWY_NAMESPACE;
  const BFloat16Bits d16;
  const size_t lanes = hn::Lanes(d16);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    f([=](const uint16_t* p) HWY_ATTR { return Widened(hn::LoadU(d16, p + i)); },
      [=](uint16_t* p, hn::Vec<BFloat16Wide> v) HWY_ATTR { hn::StoreU(Rounded(v), d16, p + i); });
  }
  if (i < count) {
    const size_t bytes = (count - i) * sizeof(uint16_t);
    // Only AVX-512 has masked loads of 16-bit elements.
    f(
        [=](const uint16_t* p) HWY_ATTR {
          HWY_ALIGN uint16_t rest[HWY_MAX_BYTES / sizeof(float)] = {};
          std::memcpy(rest, p + i, bytes);
          return Widened(hn::Load(d16, rest));
        },
        [=](uint16_t* p, hn::Vec<BFloat16Wide> v) HWY_ATTR {
          HWY_ALIGN uint16_t rest[HWY_MAX_BYTES / sizeof(float)];
          hn::Store(Rounded(v), d16, rest);
          std::memcpy(p + i, rest, bytes);
        });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
