#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "federated/aggregation/fixed_point.cc"
#include <hwy/foreach_target.h>  // compiles this file once per target
//
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "federated/aggregation/fixed_point.h"

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Below this magnitude, adding 1.5 × 2^52 leaves the nearest integer in the low bits of a double.
constexpr double kMagicLimit = 0x1p51;
constexpr double kMagic = 0x1.8p52;

float FloatAt(const std::byte* values, size_t i) {
  float value;
  std::memcpy(&value, values + 4 * i, 4);
  return value;
}

uint32_t MagnitudeBitsAt(const std::byte* values, size_t i) {
  uint32_t bits;
  std::memcpy(&bits, values + 4 * i, 4);
  return bits & 0x7FFFFFFFu;
}

// Rounded to the nearest even integer, as the vectors below do by the addition of 1.5 × 2^52: whichever path an element
// takes, the bits are the same, and with them those of machines with vectors of other lengths.
void FoldOne(const std::byte* values, size_t i, double scale, int64_t* sums, FoldCounts& counts) {
  const double x = static_cast<double>(FloatAt(values, i)) * scale;
  // Checked updates stay below 2^62; anything else adds nothing rather than being undefined.
  const int64_t addend = std::abs(x) < 0x1p62 ? static_cast<int64_t>(std::nearbyint(x)) : 0;
  sums[i] = static_cast<int64_t>(static_cast<uint64_t>(sums[i]) + static_cast<uint64_t>(addend));
  // Bits, not values: a thread that flushes denormals to zero would count otherwise.
  const bool nonzero = MagnitudeBitsAt(values, i) != 0;
  counts.nonzeros += nonzero;
  counts.lost += nonzero && addend == 0;
}

// The loop is bound by memory: 4 bytes come and 8 are read and written per element. So the counting is done in the same
// pass, in registers, and the conversion of doubles to 64-bit integers, which older instruction sets lack, by one
// addition and one subtraction.
FoldCounts Fold(const std::byte* HWY_RESTRICT values, size_t n, double scale, int64_t* HWY_RESTRICT sums) {
  const hn::ScalableTag<double> doubles;
  const hn::RebindToSigned<decltype(doubles)> integers;
  const hn::Rebind<float, decltype(doubles)> floats;
  const hn::RebindToSigned<decltype(floats)> words;
  const size_t lanes = hn::Lanes(doubles);
  const auto scales = hn::Set(doubles, scale);
  const auto limit = hn::Set(doubles, kMagicLimit);
  const auto magic = hn::Set(doubles, kMagic);
  const auto magic_bits = hn::BitCast(integers, magic);
  const auto magnitude = hn::Set(words, 0x7FFFFFFF);
  FoldCounts counts;
  size_t i = 0;
  while (i + lanes <= n) {
    // The zeros among the inputs are counted in 32 bits, so not for too long at a stretch.
    const size_t stretch = HWY_MIN(n, i + (size_t{1} << 20));
    const size_t start = i;
    size_t apart = 0;  // elements of this stretch that took the wide path
    auto zero_inputs = hn::Zero(words);
    auto zero_addends = hn::Zero(integers);
    for (; i + lanes <= stretch; i += lanes) {
      const auto value = hn::LoadU(floats, reinterpret_cast<const float*>(values + 4 * i));
      const auto x = hn::Mul(hn::PromoteTo(doubles, value), scales);
      // Only weights and values near their bounds get here.
      if (HWY_UNLIKELY(!hn::AllTrue(doubles, hn::Lt(hn::Abs(x), limit)))) {
        for (size_t lane = 0; lane < lanes; ++lane) FoldOne(values, i + lane, scale, sums, counts);
        apart += lanes;
        continue;
      }
      const auto addend = hn::Sub(hn::BitCast(integers, hn::Add(x, magic)), magic_bits);
      hn::StoreU(hn::Add(hn::LoadU(integers, sums + i), addend), integers, sums + i);
      zero_addends = hn::Sub(zero_addends, hn::VecFromMask(integers, hn::Eq(addend, hn::Zero(integers))));
      const auto bits = hn::And(hn::BitCast(words, value), magnitude);
      zero_inputs = hn::Sub(zero_inputs, hn::VecFromMask(words, hn::Eq(bits, hn::Zero(words))));
    }
    const int64_t zeros = hn::GetLane(hn::SumOfLanes(words, zero_inputs));
    counts.nonzeros += static_cast<int64_t>(i - start - apart) - zeros;
    counts.lost += hn::GetLane(hn::SumOfLanes(integers, zero_addends)) - zeros;
    if (i == start) break;
  }
  for (; i < n; ++i) FoldOne(values, i, scale, sums, counts);
  return counts;
}

size_t Beyond(const std::byte* HWY_RESTRICT values, size_t n, int32_t bound_bits) {
  const hn::ScalableTag<int32_t> words;
  const size_t lanes = hn::Lanes(words);
  const auto magnitude = hn::Set(words, 0x7FFFFFFF);
  const auto bound = hn::Set(words, bound_bits);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    // As integers, magnitudes order like the floats they are, and infinities and NaNs come last.
    const auto bits = hn::And(hn::LoadU(words, reinterpret_cast<const int32_t*>(values + 4 * i)), magnitude);
    if (HWY_UNLIKELY(!hn::AllFalse(words, hn::Gt(bits, bound)))) break;
  }
  while (i < n && MagnitudeBitsAt(values, i) <= static_cast<uint32_t>(bound_bits)) ++i;
  return i;
}

// The one place where integers become floating again. One rounding to double, one division, one rounding to float per
// element, whatever was folded in which order.
void Divide(const int64_t* HWY_RESTRICT sums, size_t n, double denominator, float* HWY_RESTRICT means) {
  for (size_t i = 0; i < n; ++i) means[i] = static_cast<float>(static_cast<double>(sums[i]) / denominator);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {
HWY_EXPORT(Fold);
HWY_EXPORT(Beyond);
HWY_EXPORT(Divide);
}  // namespace

FoldCounts FoldFloats(std::span<const std::byte> values, double scale, std::span<int64_t> sums) {
  RIVULET_CHECK(values.size() == 4 * sums.size());
  return HWY_DYNAMIC_DISPATCH(Fold)(values.data(), sums.size(), scale, sums.data());
}

size_t FirstBeyond(std::span<const std::byte> values, int value_bits) {
  const float bound = std::ldexp(1.0f, value_bits);
  int32_t bits;
  std::memcpy(&bits, &bound, 4);
  return HWY_DYNAMIC_DISPATCH(Beyond)(values.data(), values.size() / 4, bits);
}

void DivideSums(std::span<const int64_t> sums, double denominator, std::span<float> means) {
  RIVULET_CHECK(sums.size() == means.size());
  HWY_DYNAMIC_DISPATCH(Divide)(sums.data(), sums.size(), denominator, means.data());
}

}  // namespace rivulet
#endif  // HWY_ONCE
