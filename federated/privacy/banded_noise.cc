#include "federated/privacy/banded_noise.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace rivulet::privacy {

std::vector<double> SquareRootBands(int64_t bands) {
  std::vector<double> coefficients(static_cast<size_t>(std::max<int64_t>(bands, 1)), 1);
  for (size_t k = 1; k < coefficients.size(); ++k) {
    coefficients[k] = coefficients[k - 1] * (2 * static_cast<double>(k) - 1) / (2 * static_cast<double>(k));
  }
  return coefficients;
}

int64_t MostParticipations(int64_t versions, int64_t separation) { return (versions + separation - 1) / separation; }

StatusOr<double> BandedSensitivity(std::span<const double> coefficients, int64_t versions, int64_t separation,
                                   int64_t participations) {
  if (coefficients.empty() || versions < 1 || separation < 1 || participations < 1) {
    return InvalidArgument(
        "{} bands, {} versions, {} participations at least {} versions apart; each must be at least 1",
        coefficients.size(), versions, participations, separation);
  }
  for (size_t k = 0; k < coefficients.size(); ++k) {
    if (coefficients[k] < 0 || (k > 0 && coefficients[k] > coefficients[k - 1])) {
      return InvalidArgument("coefficient {} of the bands is {}; they may neither rise nor be negative", k,
                             coefficients[k]);
    }
  }
  // Of the sum of the columns at 0, separation, 2 separation, …: entry by entry, each with the bands that reach it.
  const auto bands = static_cast<int64_t>(coefficients.size());
  const int64_t columns = std::min(participations, MostParticipations(versions, separation));
  double squares = 0;
  for (int64_t version = 0; version < versions; ++version) {
    double entry = 0;
    const int64_t latest = std::min(version / separation, columns - 1);
    for (int64_t column = latest; column >= 0; --column) {
      const int64_t band = version - column * separation;
      if (band >= bands) break;
      entry += coefficients[static_cast<size_t>(band)];
    }
    squares += entry * entry;
  }
  return std::sqrt(squares);
}

PrefixErrors PrefixErrorsOf(std::span<const double> coefficients, int64_t versions) {
  // The inverse of a Toeplitz matrix has the coefficients of the inverse series; sums of prefixes add them up.
  std::vector<double> inverse;
  double prefix = 0, row = 0, all_rows = 0;
  for (int64_t version = 0; version < versions; ++version) {
    double next = version == 0 ? 1 : 0;
    const int64_t most = std::min<int64_t>(version, static_cast<int64_t>(coefficients.size()) - 1);
    for (int64_t j = 1; j <= most; ++j) {
      next -= coefficients[static_cast<size_t>(j)] * inverse[static_cast<size_t>(version - j)];
    }
    inverse.push_back(next / coefficients[0]);
    prefix += inverse.back();
    row += prefix * prefix;
    all_rows += row;
  }
  return {.root_mean_square = std::sqrt(all_rows / static_cast<double>(versions)), .largest = std::sqrt(row)};
}

double NextCorrelatedNoise(std::span<const double> coefficients, double fresh, std::span<const double> earlier) {
  double noise = fresh;
  for (size_t j = 1; j < coefficients.size() && j <= earlier.size(); ++j) noise -= coefficients[j] * earlier[j - 1];
  return noise / coefficients[0];
}

int64_t TreeNodesOfOne(int64_t versions) { return std::bit_width(static_cast<uint64_t>(versions)); }

}  // namespace rivulet::privacy
