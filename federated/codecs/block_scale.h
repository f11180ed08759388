// Scale of a block of values that are encoded as integer multiples of it, up to `levels` in magnitude. BlockScale
// rounds it up, so that the largest value never exceeds the last level and needs no biased clipping. The scale is NaN
// if any value is not finite; the whole block is then refused.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace rivulet {

// Returns a scale as it is sent: values below the least normal float32 become 0, because only some threads flush such
// subnormal numbers to zero, and results would differ between them. NaN stays NaN.
inline float NormalScale(float scale) { return scale < std::numeric_limits<float>::min() ? 0 : scale; }

// True if received bytes are such a scale. Tests the bits: arithmetic would flush subnormal numbers on some threads.
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
