// The scale of a block of values that travel as whole multiples of it, up to `levels` in magnitude: rounded up, so that
// no value is beyond the last level, where the mean could not be kept. NaN where a value is no number: the whole block
// is none then, and is refused.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace rivulet {

inline float BlockScale(std::span<const float> block, double levels) {
  float largest = 0;
  for (const float value : block) {
    if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::fabs(value));
  }
  const auto scale = static_cast<float>(largest / levels);
  return scale * levels < largest ? std::nextafter(scale, std::numeric_limits<float>::infinity()) : scale;
}

}  // namespace rivulet
