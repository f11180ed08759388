// Evaluation of polynomials in double, for host and device code.
#pragma once

#include <cstddef>
#include <iterator>

namespace rivulet::math {

// By Horner's rule; `coefficients` (an array) from that of the highest power on. The same bits everywhere, where
// products and sums are not fused.
template <typename Coefficients>
constexpr double Polynomial(const Coefficients& coefficients, double x) {
  double value = coefficients[0];
  for (size_t i = 1; i < std::size(coefficients); ++i) value = value * x + coefficients[i];
  return value;
}

}  // namespace rivulet::math
