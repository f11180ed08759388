// Correlated noise of DP-FTRL. The noise of version t is row t of C^-1 Z. Z is fresh Gaussian noise for every version;
// C is a lower triangular Toeplitz matrix with few bands (Choquette-Choo et al. 2023; coefficients of Kalinin and
// Lampert 2024). There is no sampling; a member may take part in versions that are far enough apart. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"

namespace rivulet::privacy {

inline constexpr int64_t kMostBands = 32;

// The first `bands` coefficients of (1 - x)^(-1/2): 1, 1/2, 3/8, 5/16, …; falling.
std::vector<double> SquareRootBands(int64_t bands);

// What one member can change in C times the sum of all versions, in L2, where each of its contributions changes a
// version by at most 1: it takes part in up to `participations` of `versions` versions that are at least `separation`
// apart (Kalinin and Lampert 2024, for coefficients that are not negative and do not rise: the worst is to begin at
// once and to come back as soon as may be). The multiplier of accountants is the deviation of Z over this.
// INVALID_ARGUMENT: numbers below 1, or coefficients that rise.
StatusOr<double> BandedSensitivity(std::span<const double> coefficients, int64_t versions, int64_t separation,
                                   int64_t participations);
// The most participations of `versions` that are at least `separation` apart.
int64_t MostParticipations(int64_t versions, int64_t separation);

// Errors of the sums of the first t versions' updates, with Z of deviation 1.
struct PrefixErrors {
  double root_mean_square = 0;  // over t
  double largest = 0;           // that of all versions
};
PrefixErrors PrefixErrorsOf(std::span<const double> coefficients, int64_t versions);

// The noise of the next version: fresh - the sum over j >= 1 of coefficients[j] * earlier[j - 1], all over
// coefficients[0]; earlier[0] is the noise of the version before, and what is missing was before the first version.
double NextCorrelatedNoise(std::span<const double> coefficients, double fresh, std::span<const double> earlier);

// Trees instead (Kairouz et al. 2021, DP-FTRL without sampling): how many nodes of a binary tree over `versions` hold a
// member who takes part once. A pass is that many rounds of unsampled Gaussian noise.
int64_t TreeNodesOfOne(int64_t versions);

}  // namespace rivulet::privacy
