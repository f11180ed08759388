// Shared parts of codecs that round randomly to levels of a block's norm (QSGD, Alistarh et al. 2017, arXiv:1610.02132,
// section 3.1), for any encoding of the levels.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "engine/base/draws.h"
#include "federated/codecs/block_scale.h"

namespace rivulet {

static_assert(std::endian::native == std::endian::little, "norms travel as they are in memory");

inline constexpr int64_t kQsgdValues = 256;  // per block

// The block's Euclidean norm, rounded up. NaN if a value is not finite: the whole block is then refused.
inline float QsgdNorm(std::span<const float> block) {
  double square = 0;
  for (const float value : block) square += static_cast<double>(value) * value;
  if (!std::isfinite(square)) return std::numeric_limits<float>::quiet_NaN();
  const double norm = std::sqrt(square);
  const auto rounded = static_cast<float>(norm);
  return NormalScale(rounded < norm ? std::nextafter(rounded, std::numeric_limits<float>::infinity()) : rounded);
}

// Rounds `value` stochastically to a level from −levels to levels, for a norm above 0. Takes one draw.
inline int QsgdLevel(float value, float norm, int levels, Draws& draws) {
  return static_cast<int>(std::floor(levels * static_cast<double>(value) / norm + draws.Uniform()));
}

inline float QsgdValue(float norm, int level, int levels) {
  return static_cast<float>(static_cast<double>(norm) * level / levels);
}

}  // namespace rivulet
