// Quantisation levels of "eden1" … "eden4".
#pragma once

#include <array>
#include <cstddef>

namespace rivulet {

// The 2^bits levels, ascending, that quantise a normal distribution with the least error (Lloyd 1982, Max 1960).
constexpr std::array<float, 16> EdenLevels(int bits) {
  constexpr float kAboveZero[4][8] = {
      {0.79788456f},
      {0.45278003f, 1.5104176f},
      {0.24509418f, 0.75600528f, 1.3439093f, 2.1519457f},
      {0.12839503f, 0.38804830f, 0.65675912f, 0.94234046f, 1.2562312f, 1.6180464f, 2.0690172f, 2.7325896f}};
  std::array<float, 16> levels = {};
  const size_t above = size_t{1} << (bits - 1);
  for (size_t i = 0; i < above; ++i) {
    const float level = kAboveZero[bits - 1][i];
    levels[above + i] = level;
    levels[above - 1 - i] = -level;
  }
  return levels;
}

}  // namespace rivulet
