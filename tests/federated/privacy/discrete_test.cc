#include "federated/privacy/discrete.h"

#include <cmath>

#include "federated/privacy/accountant.h"
#include "federated/privacy/distributed_noise.h"
#include "federated/privacy/gaussian.h"
#include "federated/privacy/sampled_gaussian.h"

namespace rivulet::privacy {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

double EpsilonFor(const NoisedRounds& rounds, double delta = 1e-5, Accountant accountant = Accountant::kPld) {
  const StatusOr<Spend> spend = EpsilonOf({.rounds = {rounds}}, delta, accountant);
  EXPECT_OK(spend);
  return spend.ok() ? spend->value : NAN;
}

NoisedRounds Discrete(double multiplier, double sensitivity) {
  return {.noise = NoiseLaw::kDiscreteGaussian, .multiplier = multiplier, .sensitivity = sensitivity};
}

// One coordinate, sensitivity 1, noise 2: the exact delta is a sum over the integers (Canonne, Kamath, Steinke, theorem
// 7).
TEST(DiscreteGaussianAccounting, OneCoordinateIsTheSumOverTheIntegers) {
  for (const double epsilon : {0.0, 0.3, 1.0}) {
    double exact = 0;
    for (int k = -60; k <= 60; ++k) {
      exact += std::max(0.0, DiscreteGaussianMass(2, k - 1) - std::exp(epsilon) * DiscreteGaussianMass(2, k));
    }
    ASSERT_OK_AND_ASSIGN(const Spend spend, DeltaOf({.rounds = {Discrete(2, 1)}}, epsilon));
    EXPECT_NEAR(spend.value, exact, 1e-3 * exact) << epsilon;
    EXPECT_GE(spend.value, exact * (1 - 1e-9)) << epsilon;
    EXPECT_LE(*spend.lower, exact * (1 + 1e-9)) << epsilon;
  }
}

// Many coordinates: the bound by a continuous Gaussian is above it by a share of about r^2 / 2 s^2, and close to it in
// fine units; and it is above the exact law of one coordinate.
TEST(DiscreteGaussianAccounting, ManyCoordinatesAreBoundByAContinuousGaussian) {
  NoisedRounds fine = Discrete(1.5, 1000);
  fine.dimension = 1000000;
  fine.sampling = SamplingKind::kPoisson;
  fine.rate = 0.01;
  fine.count = 1000;
  NoisedRounds continuous = fine;
  continuous.noise = NoiseLaw::kGaussian;
  EXPECT_GE(EpsilonFor(fine), EpsilonFor(continuous) * (1 - 1e-6));
  EXPECT_LE(EpsilonFor(fine), EpsilonFor(continuous) * (1 + 1e-4));
  // Known exactly for one coordinate.
  NoisedRounds coarse = Discrete(2, 3);
  coarse.count = 10;
  const double exact = EpsilonFor(coarse);
  coarse.dimension = 2;
  EXPECT_GT(EpsilonFor(coarse), exact);
  EXPECT_LT(EpsilonFor(coarse), exact * 1.1);
  coarse.multiplier = 0.4;
  EXPECT_THAT(EpsilonOf({.rounds = {coarse}}, 1e-5),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("finer units")));
  EXPECT_LT(EpsilonFor(coarse, 1e-5, Accountant::kRdp), 100);
}

// The bound itself, in one coordinate: noise N(0, s^2 - r^2), rounded with weights that depend on the fraction alone,
// has at every integer the mass of the discrete Gaussian up to the stated factor.
TEST(ContinuousEquivalent, RoundedNormalNoiseIsTheDiscreteGaussian) {
  const double s = 2, r = 1, t = std::sqrt(s * s - r * r);
  double theta = 0;
  for (int m = 1; m < 5; ++m) theta += 2 * std::exp(-2 * M_PI * M_PI * r * r * m * m);
  const auto weight = [&](double x) { return std::exp(-x * x / (2 * r * r)); };
  for (const int k : {0, 1, 5}) {
    double mass = 0;
    for (double y = -40; y < 40; y += 0.001) {
      double all = 0;
      for (int j = -60; j <= 60; ++j) all += weight(j - y);
      mass += 0.001 * std::exp(-y * y / (2 * t * t)) / (t * std::sqrt(2 * M_PI)) * weight(k - y) / all;
    }
    EXPECT_LE(std::abs(std::log(mass / DiscreteGaussianMass(s, k))), std::log((1 + theta) / (1 - theta)) * (1 + 1e-6))
        << k;
  }
}

// Two discrete Gaussians of 0.6 added up by hand are within tau / 2 of one of 0.6 * sqrt(2), at every integer.
TEST(SumOfDiscreteGaussians, IsWithinTauOfOne) {
  const double each = 0.6, tau = SumOfDiscreteGaussiansTau(each, 2);
  double worst = 0;
  for (int k = -5; k <= 5; ++k) {
    double sum = 0;
    for (int j = -40; j <= 40; ++j) sum += DiscreteGaussianMass(each, j) * DiscreteGaussianMass(each, k - j);
    worst = std::max(worst, std::abs(std::log(sum / DiscreteGaussianMass(each * std::sqrt(2), k))));
  }
  EXPECT_LE(worst, tau / 2);
  EXPECT_GT(worst, tau / 20);  // so that the bound is of this quantity
  EXPECT_EQ(SumOfDiscreteGaussiansTau(each, 1), 0);
  EXPECT_LT(SumOfDiscreteGaussiansTau(2, 1000000), 1e-9);
}

// The sampled discrete Gaussian's own divergences, summed over the integers in both directions: at whole orders they
// are at most the bound, and with the member they reach it.
TEST(SampledDiscreteGaussian, BoundHoldsTheDivergences) {
  const double parameter = 1.3, rate = 0.2;
  const int shift = 2;
  for (const double order : {2.0, 3.0, 7.0, 2.5, 6.3}) {
    double with = 0, without = 0;
    for (int k = -120; k <= 120; ++k) {
      const double q = DiscreteGaussianMass(parameter, k);
      if (q == 0) continue;
      const double ratio = 1 - rate + rate * DiscreteGaussianMass(parameter, k - shift) / q;
      with += q * std::pow(ratio, order);
      without += q * std::pow(ratio, 1 - order);
    }
    const double bound = SampledDiscreteGaussianRenyi(parameter / shift, rate, order);
    const double larger = std::log(std::max(with, without)) / (order - 1);
    EXPECT_LE(larger, bound * (1 + 1e-9)) << order;
    if (order == std::floor(order)) {
      EXPECT_NEAR(larger / bound, 1, 1e-9) << order;
    }
  }
}

TEST(DiscreteLaplaceAccounting, OneRoundIsPure) {
  const NoisedRounds rounds{.noise = NoiseLaw::kDiscreteLaplace, .multiplier = 2, .sensitivity = 3};
  EXPECT_NEAR(EpsilonFor(rounds, 1e-12), 0.5, 1e-3);
  NoisedRounds many = rounds;
  many.dimension = 10;  // by randomised response
  many.count = 20;
  NoisedRounds one = rounds;
  one.count = 20;
  EXPECT_GE(EpsilonFor(many), EpsilonFor(one) * (1 - 1e-6));
  EXPECT_LT(EpsilonFor(many), 10);
  EXPECT_LE(EpsilonFor(one), EpsilonFor(one, 1e-5, Accountant::kRdp));
  // Randomised response of 0.5, twenty times, by the binomial law: delta at 5.
  double exact = 0;
  const double p = 1 / (1 + std::exp(-0.5));
  for (int k = 0; k <= 20; ++k) {
    const double ways = std::exp(std::lgamma(21) - std::lgamma(k + 1) - std::lgamma(21 - k));
    const double a = ways * std::pow(p, k) * std::pow(1 - p, 20 - k),
                 b = ways * std::pow(p, 20 - k) * std::pow(1 - p, k);
    exact += std::max(0.0, a - std::exp(5) * b);
  }
  ASSERT_OK_AND_ASSIGN(const Spend spend, DeltaOf({.rounds = {many}}, 5));
  EXPECT_NEAR(spend.value / exact, 1, 5e-3);  // an epsilon that is one of the losses: the worst place
  EXPECT_GE(spend.value, exact * (1 - 1e-9));
}

TEST(DistributedNoise, SmallestHonestSumHasTheWholeNoise) {
  const DistributedNoiseRequest request{
      .multiplier = 1, .sensitivity = 1000, .dimension = 100000, .least_honest = 64, .most_clients = 100};
  ASSERT_OK_AND_ASSIGN(const DistributedNoise noise, SizeDistributedNoise(request));
  EXPECT_NEAR(noise.each.value(), 125, 1e-6);
  EXPECT_GE(noise.each.value() * 8, 1000);
  EXPECT_GE(noise.rounds.multiplier, 1);
  EXPECT_EQ(noise.rounds.contributors, 64);
  // sqrt(2 * 100 * ln(2e5 * 2^40)) * 125.
  EXPECT_NEAR(static_cast<double>(noise.room), 125 * std::sqrt(200 * (std::log(2e5) + 40 * std::log(2))), 1);
  EXPECT_NEAR(EpsilonFor(noise.rounds), GaussianEpsilon(1, 1e-5), 1e-3);
  EXPECT_NEAR(EpsilonFor(noise.rounds, 1e-5, Accountant::kZcdp), 4.728386984943314, 1e-4);
}

TEST(DistributedNoise, NoiseInTooCoarseUnitsIsRefused) {
  DistributedNoiseRequest request{.multiplier = 1, .sensitivity = 4, .least_honest = 100, .most_clients = 100};
  EXPECT_THAT(SizeDistributedNoise(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("1.25 times finer")));
  request.most_clients = 99;
  EXPECT_THAT(SizeDistributedNoise(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("100 to 99 clients")));
  request.multiplier = 0;
  EXPECT_THAT(SizeDistributedNoise(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("multiplier is 0")));
}

}  // namespace
}  // namespace rivulet::privacy
