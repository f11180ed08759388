// Loops over the values of an update. Blocks have a fixed length, so that compilers vectorise them and the order of
// additions is fixed: every machine gives the same bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace rivulet {

// Squares of values i are summed in chain i mod 8, and the chains are added in order.
inline double SumOfChains(std::span<const double, 8> chains) {
  double sum = 0;
  for (const double chain : chains) sum += chain;
  return sum;
}

// Σ value², in double. Squares of float32 are exact.
inline double SumOfSquares(std::span<const float> values) {
  constexpr size_t kChains = 8;
  double chains[kChains] = {};
  size_t first = 0;
  for (; first + kChains <= values.size(); first += kChains) {
    const float* const block = values.data() + first;
    for (size_t i = 0; i < kChains; ++i) chains[i] += static_cast<double>(block[i]) * static_cast<double>(block[i]);
  }
  for (size_t i = 0; first + i < values.size(); ++i) {
    chains[i] += static_cast<double>(values[first + i]) * static_cast<double>(values[first + i]);
  }
  return SumOfChains(chains);
}

// The Euclidean norm over all parts.
inline double NormOf(std::span<const std::span<float>> parts) {
  double squares = 0;
  for (const std::span<const float> part : parts) squares += SumOfSquares(part);
  return std::sqrt(squares);
}

// Multiplies each value by the factor, rounding once.
inline void ScaleBy(std::span<float> values, float factor) {
  for (float& value : values) value *= factor;
}

}  // namespace rivulet
