#include "federated/privacy/audit.h"

#include <cmath>
#include <random>

#include "engine/base/draws.h"
#include "federated/privacy/gaussian.h"

namespace rivulet::privacy {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(EpsilonBetweenNormals, EqualVariancesAreTheGaussianMechanism) {
  EXPECT_NEAR(EpsilonBetweenNormals(0, 1, 1, 1, 1e-5), GaussianEpsilon(1, 1e-5), 1e-9);
  EXPECT_NEAR(EpsilonBetweenNormals(3, 2, 1, 2, 1e-3), GaussianEpsilon(1, 1e-3), 1e-9);
  EXPECT_EQ(EpsilonBetweenNormals(0, 1, 0, 1, 1e-5), 0);
}

// By summing (p - e^epsilon q)+ over a fine grid.
TEST(EpsilonBetweenNormals, OtherVariancesAreTheIntegral) {
  const auto density = [](double x, double mean, double deviation) {
    return std::exp(-(x - mean) * (x - mean) / (2 * deviation * deviation)) / (deviation * std::sqrt(2 * M_PI));
  };
  for (const auto& [mean, deviation] : {std::pair{0.5, 1.3}, {0.0, 2.0}, {1.0, 0.7}}) {
    const double epsilon = EpsilonBetweenNormals(0, 1, mean, deviation, 1e-3);
    double delta[2] = {0, 0};
    for (double x = -30; x < 30; x += 1e-4) {
      const double p = density(x, 0, 1), q = density(x, mean, deviation);
      delta[0] += 1e-4 * std::max(0.0, p - std::exp(epsilon) * q);
      delta[1] += 1e-4 * std::max(0.0, q - std::exp(epsilon) * p);
    }
    EXPECT_NEAR(std::max(delta[0], delta[1]), 1e-3, 1e-6) << mean << " " << deviation;
  }
}

// Directions without a part have cosines of variance 1 / dimension: nothing is seen. With a mean of two of its
// deviations the estimate is near that of the Gaussian mechanism of mu 2.
TEST(EstimateByCanaries, SeesWhatTheCosinesShow) {
  Draws draws({}, 1);
  std::vector<double> none(20000), seen;
  for (double& cosine : none) cosine = draws.Normal() / 100;
  for (const double cosine : none) seen.push_back(cosine + 0.02);
  ASSERT_OK_AND_ASSIGN(const CanaryEstimate nothing, EstimateByCanaries(none, 10000, 1e-5));
  EXPECT_LT(nothing.epsilon, 0.3);
  ASSERT_OK_AND_ASSIGN(const CanaryEstimate estimate, EstimateByCanaries(seen, 10000, 1e-5));
  EXPECT_NEAR(estimate.mean, 0.02, 1e-3);
  EXPECT_NEAR(estimate.epsilon, GaussianEpsilon(2, 1e-5), 0.5);
  EXPECT_THAT(EstimateByCanaries(std::vector<double>{1}, 10, 1e-5),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least 2")));
  EXPECT_THAT(EstimateByCanaries(std::vector<double>{1, 1}, 10, 1e-5), StatusIs(absl::StatusCode::kInvalidArgument));
}

// Without a delta it is a test of a coin: ten of ten right with e^0 has the probability 2^-10.
TEST(AuditLowerBound, WithoutDeltaIsABinomialTest) {
  EXPECT_NEAR(AuditPValue(10, 10, 10, 0, 0), 0x1p-10, 1e-15);
  EXPECT_NEAR(AuditPValue(10, 10, 9, 0, 0), 11 * 0x1p-10, 1e-15);
  // p^10 = 0.05 with p = e^epsilon / (1 + e^epsilon).
  const double p = std::pow(0.05, 0.1);
  ASSERT_OK_AND_ASSIGN(const double bound, AuditLowerBound(10, 10, 10, 0, 0.95));
  EXPECT_NEAR(bound, std::log(p / (1 - p)), 1e-9);
  ASSERT_OK_AND_ASSIGN(const double none, AuditLowerBound(10, 10, 5, 0, 0.95));
  EXPECT_EQ(none, 0);
}

// Figures of the authors' Python (their appendix) by SciPy's binomial law.
TEST(AuditLowerBound, AgreesWithTheAuthorsProgram) {
  EXPECT_NEAR(AuditPValue(1000, 200, 180, 1.0, 1e-05) / 0.000436224538579, 1, 1e-9);
  EXPECT_NEAR(AuditPValue(1000, 1000, 600, 0.2, 1e-05) / 0.00102324121523, 1, 1e-9);
  EXPECT_NEAR(AuditPValue(100, 50, 50, 3.0, 0.0001) / 0.0929603652711, 1, 1e-9);
  EXPECT_NEAR(AuditLowerBound(1000, 200, 180, 1e-05, 0.95).value(), 1.79628507067, 1e-8);
  EXPECT_NEAR(AuditLowerBound(1000, 100, 99, 1e-05, 0.999).value(), 1.74192445646, 1e-8);
  ASSERT_OK_AND_ASSIGN(const double loose, AuditLowerBound(1000, 100, 95, 1e-3, 0.95));
  ASSERT_OK_AND_ASSIGN(const double tight, AuditLowerBound(1000, 100, 95, 0, 0.95));
  EXPECT_LT(loose, tight);
  EXPECT_THAT(AuditLowerBound(10, 11, 5, 0, 0.9),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("5 of 11 guesses of 10")));
  EXPECT_THAT(AuditLowerBound(10, 10, 5, 0, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("confidence is 1")));
}

// Canaries in one noised sum: the score of each is 1 if it was taken, and noise of the multiplier.
std::vector<SeenCanary> SeeCanaries(size_t count, double multiplier, std::mt19937_64& random) {
  std::normal_distribution<double> noise(0, multiplier);
  std::bernoulli_distribution coin(0.5);
  std::vector<SeenCanary> seen(count);
  for (SeenCanary& canary : seen) {
    canary.taken = coin(random);
    canary.score = (canary.taken ? 1 : 0) + noise(random);
  }
  return seen;
}

int CountExceeding(double claimed, double multiplier, int runs) {
  std::mt19937_64 random(7);
  int exceeding = 0;
  for (int run = 0; run < runs; ++run) {
    const auto guessed = GuessCanaries(SeeCanaries(2000, multiplier, random), 200, 1e-5, 0.999);
    EXPECT_OK(guessed);
    exceeding += guessed->epsilon > claimed ? 1 : 0;
  }
  return exceeding;
}

TEST(GuessCanaries, NoiseOfAQuarter_IsRefutedAndRightNoiseIsNot) {
  const double claimed = GaussianEpsilon(1 / 4.0, 1e-5);  // of noise of 4
  EXPECT_GE(CountExceeding(claimed, 1, 20), 19);
  EXPECT_EQ(CountExceeding(claimed, 4, 200), 0);
}

// Without clipping a canary of ten times the clip is seen ten times as well.
TEST(GuessCanaries, ClippingThatWasLeftOut_IsRefuted) {
  EXPECT_GE(CountExceeding(GaussianEpsilon(1 / 4.0, 1e-5), 0.4, 20), 19);
}

TEST(GuessCanaries, GuessesByScoreAlone) {
  const SeenCanary canaries[] = {{0.9, true}, {0.1, true}, {0.5, false}, {0.6, true}, {-0.2, false}, {0.2, false}};
  ASSERT_OK_AND_ASSIGN(const GuessedCanaries two, GuessCanaries(canaries, 2, 0, 0.9));
  EXPECT_EQ(two.right, 2);
  ASSERT_OK_AND_ASSIGN(const GuessedCanaries four, GuessCanaries(canaries, 4, 0, 0.9));
  EXPECT_EQ(four.right, 3) << "0.1 was taken";
  for (const int64_t guesses : {0, 3, 8}) {
    EXPECT_THAT(GuessCanaries(canaries, guesses, 0, 0.9),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("an even number from 2 to 6")));
  }
}

}  // namespace
}  // namespace rivulet::privacy
