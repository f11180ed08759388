// Exact distributions of integer noise, and their distance from the distributions that accountants support.
//
// The discrete Gaussian of the parameter s has at k the mass e^(-k^2 / 2 s^2), divided by the sum of that over the
// integers. The discrete Laplace of the scale t has a mass proportional to e^(-|k| / t).
#pragma once

#include <cstdint>
#include <vector>

#include "federated/privacy/rounds.h"

namespace rivulet::privacy {

double DiscreteGaussianMass(double parameter, int64_t k);
double DiscreteGaussianVariance(double parameter);
double DiscreteLaplaceMass(double scale, int64_t k);

// Outcomes of one loss under noise around 0 and around a shift of `shift` >= 1, in rising order of the loss.
struct LatticeOutcome {
  double loss = 0;  // log(shifted / centred)
  double centred = 0, shifted = 0;
};
// All but 1e-31 of the mass on either side.
std::vector<LatticeOutcome> DiscreteGaussianOutcomes(double parameter, int64_t shift);
std::vector<LatticeOutcome> DiscreteLaplaceOutcomes(double scale, int64_t shift);

// tau of Kairouz, Liu and Steinke 2021, theorem 1: 10 * the sum over k < contributors of e^(-2 pi^2 s^2 k / (k + 1)).
// In each coordinate the sum of that many discrete Gaussians of the parameter s >= 1/2 is within a factor e^(tau / 2)
// of the discrete Gaussian of s * sqrt(contributors).
double SumOfDiscreteGaussiansTau(double parameter, int64_t contributors);
// Its logarithm over all coordinates: dimension * tau / 2; 0 for one contributor. Infinite below s = 1/2.
double SumLogRatio(const NoisedRounds& rounds);

// epsilon^2 / 2 of concentrated differential privacy of one unsampled round of discrete Gaussian noise: proposition 14
// of the same paper; for one contributor 1 / (2 multiplier^2) (Canonne, Kamath, Steinke 2020). multiplier > 0.
double ConcentratedOfDiscreteGaussian(const NoisedRounds& rounds, Relation relation);

// Continuous noise that is no better than the discrete Gaussian: rounding N(0, s^2 - r^2) to integers by noise that
// depends on the fraction alone gives the law of the discrete Gaussian of the parameter s, in each coordinate within a
// factor of (1 + theta) / (1 - theta), theta = 2 * the sum over m of e^(-2 pi^2 r^2 m^2) (Poisson's summation). So its
// outcomes are a processing of the Gaussian's outcomes, up to a factor whose logarithm `log_ratio` is stated, for any
// shift by integers, any sampling and any dimension.
struct ContinuousEquivalent {
  double multiplier = 0;  // sqrt(s^2 - r^2) over the sensitivity
  double log_ratio = 0;   // over all coordinates and contributors, one round
};
// FAILED_PRECONDITION: the parameter is too small (about 2 units) for the bound; the sentence says what to use.
StatusOr<ContinuousEquivalent> ContinuousEquivalentOf(const NoisedRounds& rounds, int64_t total_rounds);

}  // namespace rivulet::privacy
