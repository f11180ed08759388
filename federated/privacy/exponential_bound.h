// Exact decisions with probability e^-g for a rational number g, by integers alone. A uniform number's first 64 bits
// are compared with bounds of 2^64 e^-g that integer arithmetic proves. Between the bounds (once in 2^49 decisions),
// e^-g is computed to as many digits as necessary, with as many further bits of the uniform number.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "federated/privacy/noise_stream.h"

struct bignum_st;

namespace rivulet::privacy {

using Wide = unsigned __int128;

// 2^64 e^-g lies within [low, high].
struct ExponentialBounds {
  uint64_t low = 0;
  Wide high = 0;
};

// floor(2^63 e^-(k / parts)): `whole` for parts = 1, `high` for 2^8, `low` for 2^16.
struct ExponentialTables {
  std::array<uint64_t, 64> whole;
  std::array<uint64_t, 256> high, low;
};
const ExponentialTables& GetExponentialTables();

// `scaled` is 2^64 g, from which it may be up to 2^12 below; g < 2^63.
//
// e^-g is the product of three entries and of e^-r, r < 2^-16, of which 1 - r + r^2 / 2 is above by at most r^3 / 6 <
// 2^-50.5: 5,500 units of 2^-63. The error of g is at most 2,048 of them. Truncated entries and products lose less than
// 20. So the margin is 2^13.
inline ExponentialBounds BoundExponential(const ExponentialTables& tables, Wide scaled) {
  constexpr uint64_t kOne = uint64_t{1} << 63, kMargin = uint64_t{1} << 13;
  const auto whole = static_cast<uint64_t>(scaled >> 64), fraction = static_cast<uint64_t>(scaled);
  if (whole >= 64) return {.low = 0, .high = 1};  // e^-64 is below 2^-92, also where g is up to 2^-52 more
  const auto product = [](uint64_t a, uint64_t b) {
    return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64) << 1;
  };
  const uint64_t r = fraction & ((uint64_t{1} << 48) - 1), half = r >> 16;
  const uint64_t rest = kOne - (r >> 1) + ((half * half) >> 34);
  const uint64_t value = product(product(tables.whole[whole], tables.high[fraction >> 56]),
                                 product(tables.low[(fraction >> 48) & 255], rest));
  ExponentialBounds bounds;
  bounds.low = value > kMargin ? (value - kMargin) << 1 : 0;
  bounds.high = static_cast<Wide>(value + kMargin) << 1;
  return bounds;
}
ExponentialBounds BoundExponential(Wide scaled);

// Whether the uniform number whose bits are `first` and then `next()`, `next()`, … is below e^-(numerator /
// denominator), by arithmetic of any precision. numerator >= 0, denominator > 0.
bool IsBelowExponential(uint64_t first, const std::function<uint64_t()>& next, const bignum_st* numerator,
                        const bignum_st* denominator);

// The same without bignum_st, for numbers of up to 128 bits.
bool IsBelowExponential(uint64_t first, const std::function<uint64_t()>& next, Wide numerator, Wide denominator);

// The decision: the first word against the bounds, then the exact comparison by `exact(first)`.
template <typename Exact>
inline bool Decide(NoiseStream& stream, const ExponentialBounds& bounds, Exact exact) {
  const uint64_t first = stream.Word();
  if (first < bounds.low) [[likely]]
    return true;
  if (first >= bounds.high) return false;
  return exact(first);
}

}  // namespace rivulet::privacy
