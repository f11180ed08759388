#include "federated/aggregation/wide_sum.h"

#include <cmath>

#include "engine/base/check.h"

namespace rivulet {
namespace {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

constexpr int kSumFractionBits = 32, kMantissaBits = 53;

Int128 ValueOfWords(uint64_t low, uint64_t high) { return static_cast<Int128>(Uint128{high} << 64 | low); }
WideSum FromValue(Int128 value) {
  const auto bits = static_cast<Uint128>(value);
  return {static_cast<uint64_t>(bits), static_cast<uint64_t>(bits >> 64)};
}

// numerator / 2^shift to the nearest integer, ties to even.
Uint128 RoundedShift(Uint128 numerator, int shift) {
  if (shift > 120) return 0;  // numerators have at most 82 bits
  const Uint128 quotient = numerator >> shift, rest = numerator - (quotient << shift), half = Uint128{1} << (shift - 1);
  return quotient + (rest > half || (rest == half && (quotient & 1) != 0) ? 1 : 0);
}

}  // namespace

// A double is a 53-bit integer times a power of two, so its product with a weight is known exactly before it is
// rounded.
WideSum WideSum::Of(int64_t weight, double value) {
  RIVULET_CHECK(Takes(value) && weight >= 0 && weight <= int64_t{1} << 29);
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  const auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, kMantissaBits));
  const Uint128 product = Uint128{mantissa} * static_cast<uint64_t>(weight);
  const int shift = kMantissaBits - exponent - kSumFractionBits;
  const Uint128 units = shift <= 0 ? product << -shift : RoundedShift(product, shift);
  return FromValue(value < 0 ? -static_cast<Int128>(units) : static_cast<Int128>(units));
}

void WideSum::Add(WideSum other) {
  const auto sum = (Uint128{high_} << 64 | low_) + (Uint128{other.high_} << 64 | other.low_);
  low_ = static_cast<uint64_t>(sum);
  high_ = static_cast<uint64_t>(sum >> 64);
}

WideSum WideSum::Times(int64_t factor) const {
  const Uint128 product = (Uint128{high_} << 64 | low_) * static_cast<uint64_t>(factor);
  return {static_cast<uint64_t>(product), static_cast<uint64_t>(product >> 64)};
}

double WideSum::ToDouble() const {
  return std::ldexp(static_cast<double>(ValueOfWords(low_, high_)), -kSumFractionBits);
}

bool WideSum::Within(int64_t weight) const {
  const Int128 sum = ValueOfWords(low_, high_), bound = static_cast<Int128>(weight) << (32 + kSumFractionBits);
  return sum <= bound && sum >= -bound;
}

}  // namespace rivulet
