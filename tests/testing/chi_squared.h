// Pearson's test of draws on integers against an exact law that is symmetric about 0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace rivulet::testing {

// How many deviations chi-squared is above its mean, which is nearly a standard normal number (Wilson and Hilferty: its
// cube root is normal). Integers expected at least 10 times are counted one by one, all others in one cell on either
// side; these join their neighbours where fewer than 5 are expected. `mass(k)` for k >= 0 falls with k.
template <typename Mass>
double ChiSquaredDeviations(const std::vector<int64_t>& draws, Mass mass) {
  const auto total = static_cast<double>(draws.size());
  int64_t edge = 0;
  while (mass(edge + 1) * total >= 10) ++edge;
  std::vector<double> counts(static_cast<size_t>(2 * edge + 3)), expected(counts.size());
  for (const int64_t draw : draws) ++counts[static_cast<size_t>(std::clamp(draw, -edge - 1, edge + 1) + edge + 1)];
  double inside = 0;
  for (int64_t k = -edge; k <= edge; ++k) {
    expected[static_cast<size_t>(k + edge + 1)] = mass(std::abs(k)) * total;
    inside += mass(std::abs(k));
  }
  expected.front() = expected.back() = (1 - inside) / 2 * total;
  if (expected.front() < 5) {
    expected[1] += expected.front(), counts[1] += counts.front();
    expected[expected.size() - 2] += expected.back(), counts[counts.size() - 2] += counts.back();
    expected.front() = expected.back() = 0;
  }
  double chi_squared = 0, freedom = -1;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (expected[i] <= 0) continue;
    chi_squared += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
    ++freedom;
  }
  const double spread = 2 / (9 * freedom);
  return (std::cbrt(chi_squared / freedom) - (1 - spread)) / std::sqrt(spread);
}

}  // namespace rivulet::testing
