// Exact decisions with probability e^-g for a rational number g, by integers alone. A uniform number's first 64 bits
// are compared with bounds of 2^64 e^-g that integer arithmetic proves. Between the bounds (once in 2^50 decisions),
// e^-g is computed to as many digits as necessary, with as many further bits of the uniform number.
#pragma once

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

// `scaled` is 2^64 g, from which it may be up to 2^12 below; g < 2^63.
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
