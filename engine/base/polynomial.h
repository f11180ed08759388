// Polynomials of doubles.
#pragma once

#include <array>
#include <cstddef>

namespace rivulet::math {

// By Horner's rule; coefficients from that of the highest power on. The same bits everywhere, where products and sums
// are not fused.
template <size_t N>
double Polynomial(const std::array<double, N>& coefficients, double x) {
  double value = coefficients[0];
  for (size_t i = 1; i < N; ++i) value = value * x + coefficients[i];
  return value;
}

}  // namespace rivulet::math
