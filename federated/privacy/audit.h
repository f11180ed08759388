// Estimates of a run's privacy from canaries. Pure functions of observations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"

namespace rivulet::privacy {

// Andrew et al. 2024 ("One-shot empirical privacy estimation"): canaries are clients whose updates are random
// directions. A direction that took no part has a cosine with the released difference of models that is close to normal
// with mean 0 and variance 1 / dimension. The estimate is the epsilon at `dp_delta` between that and the normal law of
// the observed cosines. An estimate, no bound. INVALID_ARGUMENT: fewer than 2 cosines, or numbers out of range.
struct CanaryEstimate {
  double epsilon = 0;
  double mean = 0, deviation = 0;  // of the observed cosines
};
StatusOr<CanaryEstimate> EstimateByCanaries(std::span<const double> cosines, int64_t dimension, double dp_delta);

// The least epsilon >= 0 with delta(epsilon) <= dp_delta between two normal laws, the worse of both directions.
double EpsilonBetweenNormals(double mean_a, double deviation_a, double mean_b, double deviation_b, double dp_delta);

// Steinke, Nasr, Jagielski 2023 ("Privacy auditing with one training run"), theorem 5.2: each of `canaries` was put in
// or left out by a coin, an auditor guessed `guesses` of the coins (and passed on the rest), and `right` guesses are
// right. The probability of so many under an (epsilon, dp_delta) mechanism is at most this.
double AuditPValue(int64_t canaries, int64_t guesses, int64_t right, double epsilon, double dp_delta);
// The largest epsilon that this refutes with the given confidence: with that probability the truth is above it. 0 where
// nothing is refuted. INVALID_ARGUMENT: not right <= guesses <= canaries, or numbers out of range.
StatusOr<double> AuditLowerBound(int64_t canaries, int64_t guesses, int64_t right, double dp_delta, double confidence);

// Scores of canaries from several releases, the differences of successive models. `products[r][k]`: of release r with
// the unit direction of canary k; `present[r][k]`: whether k was asked for release r, whatever its coin said;
// `inner[r][s]`: of the releases r and s themselves. The inner products over `dimension` estimate how the noise of
// releases is correlated, and the score is the generalised least squares estimate of what a canary added, over its
// deviation. Noise that two releases share so cancels. A canary that was never asked has the score 0. INVALID_ARGUMENT:
// sizes that do not fit, or releases that are all zero.
StatusOr<std::vector<double>> ScoreByReleases(const std::vector<std::vector<double>>& products,
                                              const std::vector<std::vector<bool>>& present,
                                              const std::vector<std::vector<double>>& inner, int64_t dimension);

// The fewest canaries of which an audit says something: with fewer, it finds little even where a claim is wrong.
inline constexpr int64_t kFewCanaries = 100;

// One canary: how much of it was seen, and whether its coin had put it in.
struct SeenCanary {
  double score = 0;
  bool taken = false;
};
struct GuessedCanaries {
  int64_t guesses = 0, right = 0;
  double epsilon = 0;  // AuditLowerBound of these
};
// Guesses `guesses` coins, an even number: the upper half of the scores that are guessed about as taken, the lower half
// as left out. Which are guessed follows from the scores alone, so the bound is that of the theorem. Equal scores are
// taken in their order. INVALID_ARGUMENT: an odd number, or more guesses than canaries; others as AuditLowerBound.
StatusOr<GuessedCanaries> GuessCanaries(std::span<const SeenCanary> canaries, int64_t guesses, double dp_delta,
                                        double confidence);

}  // namespace rivulet::privacy
