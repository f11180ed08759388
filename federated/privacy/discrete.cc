#include "federated/privacy/discrete.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rivulet::privacy {
namespace {

constexpr double kTwoPiSquared = 2 * std::numbers::pi * std::numbers::pi;
// What the factors of all rounds together may add to the logarithm of delta, and twice that to epsilon.
constexpr double kMostLogRatio = 1e-12;

// The sum over the integers of k^power * e^(-k^2 / 2 s^2), power 0 or 2.
double LatticeSum(double parameter, int power) {
  if (parameter > 8) {  // by Poisson's summation the integral, up to e^(-2 pi^2 64)
    return std::sqrt(2 * std::numbers::pi) * std::pow(parameter, 1 + power);
  }
  double sum = power == 0 ? 1 : 0;
  for (int k = static_cast<int>(parameter * 40) + 2; k >= 1; --k) {
    sum += 2 * std::exp(-0.5 * k * k / (parameter * parameter)) * (power == 0 ? 1.0 : 1.0 * k * k);
  }
  return sum;
}

}  // namespace

double DiscreteGaussianMass(double parameter, int64_t k) {
  const double x = static_cast<double>(k) / parameter;
  return std::exp(-x * x / 2) / LatticeSum(parameter, 0);
}

double DiscreteGaussianVariance(double parameter) { return LatticeSum(parameter, 2) / LatticeSum(parameter, 0); }

double DiscreteLaplaceMass(double scale, int64_t k) {
  return std::tanh(1 / (2 * scale)) * std::exp(-std::abs(static_cast<double>(k)) / scale);
}

std::vector<LatticeOutcome> DiscreteGaussianOutcomes(double parameter, int64_t shift) {
  const auto reach = static_cast<int64_t>(12 * parameter) + 2;
  const double normaliser = 1 / LatticeSum(parameter, 0), variance = parameter * parameter;
  std::vector<LatticeOutcome> outcomes;
  outcomes.reserve(static_cast<size_t>(2 * reach + shift + 1));
  for (int64_t k = -reach; k <= shift + reach; ++k) {
    const auto x = static_cast<double>(k), moved = static_cast<double>(k - shift);
    outcomes.push_back({.loss = static_cast<double>(shift) * (2 * x - static_cast<double>(shift)) / (2 * variance),
                        .centred = normaliser * std::exp(-x * x / (2 * variance)),
                        .shifted = normaliser * std::exp(-moved * moved / (2 * variance))});
  }
  return outcomes;
}

std::vector<LatticeOutcome> DiscreteLaplaceOutcomes(double scale, int64_t shift) {
  const double ratio = std::exp(-1 / scale), loss = static_cast<double>(shift) / scale, far = std::exp(-loss);
  std::vector<LatticeOutcome> outcomes;
  outcomes.push_back({.loss = -loss, .centred = 1 / (1 + ratio), .shifted = far / (1 + ratio)});
  for (int64_t k = 1; k < shift; ++k) {
    outcomes.push_back({.loss = static_cast<double>(2 * k - shift) / scale,
                        .centred = DiscreteLaplaceMass(scale, k),
                        .shifted = DiscreteLaplaceMass(scale, shift - k)});
  }
  outcomes.push_back({.loss = loss, .centred = far / (1 + ratio), .shifted = 1 / (1 + ratio)});
  return outcomes;
}

double SumOfDiscreteGaussiansTau(double parameter, int64_t contributors) {
  if (contributors <= 1) return 0;
  double sum = 0;
  // From k = 1,000 on all terms are within a thousandth of the last, from above.
  const int64_t one_by_one = std::min<int64_t>(contributors - 1, 1000);
  double term = 0;
  for (int64_t k = 1; k <= one_by_one; ++k) {
    term = std::exp(-kTwoPiSquared * parameter * parameter * static_cast<double>(k) / static_cast<double>(k + 1));
    sum += term;
  }
  return 10 * (sum + static_cast<double>(contributors - 1 - one_by_one) * term);
}

double SumLogRatio(const NoisedRounds& rounds) {
  if (rounds.contributors <= 1) return 0;
  const double each = rounds.multiplier * rounds.sensitivity / std::sqrt(static_cast<double>(rounds.contributors));
  if (each < 0.5 * (1 - 1e-12)) return HUGE_VAL;  // the paper's theorem begins there; less is a rounded quotient
  return static_cast<double>(rounds.dimension) * SumOfDiscreteGaussiansTau(each, rounds.contributors) / 2;
}

double ConcentratedOfDiscreteGaussian(const NoisedRounds& rounds, Relation relation) {
  const double noise = rounds.multiplier / (relation == Relation::kReplaceOne ? 2 : 1);
  if (rounds.contributors <= 1) return 1 / (2 * noise * noise);
  // dimension * tau, with tau / 2 * dimension the logarithm above.
  const double apart = 2 * SumLogRatio(rounds), dimension = static_cast<double>(rounds.dimension);
  const double epsilon = std::min(std::sqrt(1 / (noise * noise) + apart / 2), 1 / noise + apart / std::sqrt(dimension));
  return epsilon * epsilon / 2;
}

StatusOr<ContinuousEquivalent> ContinuousEquivalentOf(const NoisedRounds& rounds, int64_t total_rounds) {
  const double parameter = rounds.multiplier * rounds.sensitivity;
  const double coordinates =
      static_cast<double>(rounds.dimension) * static_cast<double>(std::max<int64_t>(total_rounds, 1));
  // log((1 + theta) / (1 - theta)) < 2.1 theta < 4.3 e^(-2 pi^2 r^2) where theta is small.
  const double variance = std::log(4.3 * coordinates / kMostLogRatio) / kTwoPiSquared;
  const double rest = parameter * parameter - variance;
  if (!(rest > 0)) {
    return FailedPrecondition(
        "discrete Gaussian noise of {} units is too coarse for this bound (it needs more than {:.2f}); count in finer "
        "units, or use rdp",
        parameter, std::sqrt(variance));
  }
  return ContinuousEquivalent{
      .multiplier = std::sqrt(rest) / rounds.sensitivity,
      .log_ratio = kMostLogRatio / static_cast<double>(std::max<int64_t>(total_rounds, 1)) + SumLogRatio(rounds)};
}

}  // namespace rivulet::privacy
