// Scale of a block of values that are encoded as whole multiples of it, up to `levels` in magnitude. It is rounded up,
// so that no value is beyond the last level, which would bias the mean. The scale is NaN if any value is not a number;
// the whole block is then refused.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace rivulet {

// A scale as it travels: what is below the least normal float32 is 0, as threads that run programs take such numbers
// for zero and others do not, and the values would be another's. NaN stays.
inline float NormalScale(float scale) { return scale < std::numeric_limits<float>::min() ? 0 : scale; }

// Whether bytes from outside are such a scale. By its bits: arithmetic would see a zero on some threads.
inline bool IsNormalScale(float scale) {
  const auto bits = std::bit_cast<uint32_t>(scale);
  constexpr uint32_t kLeastNormal = 0x00800000, kSign = 0x80000000;
  return bits == 0 || (bits >= kLeastNormal && bits < kSign);
}

inline float BlockScale(std::span<const float> block, double levels) {
  float largest = 0;
  for (const float value : block) {
    if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::fabs(value));
  }
  const auto scale = static_cast<float>(largest / levels);
  return NormalScale(scale * levels < largest ? std::nextafter(scale, std::numeric_limits<float>::infinity()) : scale);
}

}  // namespace rivulet
