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

// The probability that a bound from `guesses` guesses exceeds `claimed`, where the score of a canary that was taken is
// normal around `shift` and that of another around 0: the guesses of either end are right independently, about.
double PowerOfAudit(int64_t canaries, int64_t guesses, double shift, double claimed, double dp_delta) {
  // The share of either end, of a mixture of both laws.
  const double share = static_cast<double>(guesses) / 2 / static_cast<double>(canaries);
  double low = -20, high = 20 + shift;
  for (int i = 0; i < 100; ++i) {
    const double at = (low + high) / 2;
    ((NormalCdf(-at) + NormalCdf(shift - at)) / 2 > share ? low : high) = at;
  }
  const double right = NormalCdf(shift - low) / 2 / share;  // of the upper end; the lower one is its mirror
  int64_t fewest = guesses + 1;
  while (fewest > 0 && AuditLowerBound(canaries, guesses, fewest - 1, dp_delta, 0.999).value() > claimed) --fewest;
  double power = 0;
  for (int64_t k = fewest; k <= guesses; ++k) {
    const auto n = static_cast<double>(guesses), hits = static_cast<double>(k);
    power += std::exp(std::lgamma(n + 1) - std::lgamma(hits + 1) - std::lgamma(n - hits + 1) + hits * std::log(right) +
                      (n - hits) * std::log1p(-right));
  }
  return power;
}

TEST(GuessCanaries, NoiseOfAQuarter_IsRefutedAndRightNoiseIsNot) {
  const double claimed = GaussianEpsilon(1 / 4.0, 1e-5);  // of noise of 4
  EXPECT_GT(PowerOfAudit(2000, 200, 1, claimed, 1e-5), 0.98);
  EXPECT_GE(CountExceeding(claimed, 1, 20), 19);
  EXPECT_EQ(CountExceeding(claimed, 4, 200), 0);
}

// Without clipping a canary of ten times the clip is seen ten times as well.
TEST(GuessCanaries, ClippingThatWasLeftOut_IsRefuted) {
  const double claimed = GaussianEpsilon(1 / 4.0, 1e-5);
  EXPECT_GT(PowerOfAudit(2000, 200, 1 / 0.4, claimed, 1e-5), 0.99);
  EXPECT_GE(CountExceeding(claimed, 0.4, 20), 19);
}

// Two releases with canaries of random directions, each asked for one of the two, and noise of the multiplier on each
// number: drawn for each release, or once for both. Each canary is in one release, so the claim is that of one.
int CountExceedingOfReleases(double claimed, double multiplier, bool same_noise, int runs) {
  constexpr size_t kCanaries = 400, kDimension = 3000;
  constexpr int64_t kGuesses = 100;
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal;
  std::bernoulli_distribution coin(0.5);
  int exceeding = 0;
  for (int run = 0; run < runs; ++run) {
    std::vector<std::vector<float>> directions(kCanaries, std::vector<float>(kDimension));
    std::vector<std::vector<double>> releases(2, std::vector<double>(kDimension));
    for (size_t i = 0; i < kDimension; ++i) {
      const double first = normal(random), second = normal(random);
      releases[0][i] = multiplier * first;
      releases[1][i] = multiplier * (same_noise ? first : second);
    }
    std::vector<std::vector<bool>> present(2, std::vector<bool>(kCanaries));
    std::vector<SeenCanary> seen(kCanaries);
    for (size_t k = 0; k < kCanaries; ++k) {
      double square = 0;
      for (float& value : directions[k]) value = normal(random), square += value * value;
      for (float& value : directions[k]) value /= static_cast<float>(std::sqrt(square));
      const size_t release = coin(random) ? 1 : 0;
      present[release][k] = true;
      seen[k].taken = coin(random);
      for (size_t i = 0; seen[k].taken && i < kDimension; ++i) releases[release][i] += directions[k][i];
    }
    std::vector<std::vector<double>> products(2, std::vector<double>(kCanaries)), inner(2, std::vector<double>(2));
    for (size_t r = 0; r < 2; ++r) {
      for (size_t k = 0; k < kCanaries; ++k)
        for (size_t i = 0; i < kDimension; ++i) products[r][k] += releases[r][i] * directions[k][i];
      for (size_t s = 0; s < 2; ++s)
        for (size_t i = 0; i < kDimension; ++i) inner[r][s] += releases[r][i] * releases[s][i];
    }
    const auto scores = ScoreByReleases(products, present, inner, kDimension);
    EXPECT_OK(scores);
    for (size_t k = 0; k < kCanaries; ++k) seen[k].score = (*scores)[k];
    const auto guessed = GuessCanaries(seen, kGuesses, 1e-5, 0.999);
    EXPECT_OK(guessed);
    exceeding += guessed->epsilon > claimed ? 1 : 0;
  }
  return exceeding;
}

// Their difference has no noise but the other canaries': of about 200 in both releases with the norm 1 each, over 3,000
// dimensions.
TEST(GuessCanaries, SameNoiseTwice_IsRefutedAndFreshNoiseIsNot) {
  const double claimed = GaussianEpsilon(1 / 4.0, 1e-5);
  const double shift = 1 / std::sqrt(200.0 / 3000);
  EXPECT_GT(PowerOfAudit(400, 100, shift, claimed, 1e-5), 0.99);
  EXPECT_GE(CountExceedingOfReleases(claimed, 4, true, 20), 19);
  EXPECT_EQ(CountExceedingOfReleases(claimed, 4, false, 20), 0);
}

TEST(ScoreByReleases, FreshNoiseIsAMean_AndRefusalsNameWhatDoesNotFit) {
  // Two releases of equal noise: a canary of both has the mean of its products, over its deviation.
  ASSERT_OK_AND_ASSIGN(
      const std::vector<double> scores,
      ScoreByReleases({{2, 3, 1}, {4, 5, 1}}, {{true, true, false}, {true, false, false}}, {{400, 0}, {0, 400}}, 100));
  EXPECT_NEAR(scores[0], 3 / (2 / std::sqrt(2)), 1e-6);
  EXPECT_NEAR(scores[1], 3 / 2.0, 1e-6);
  EXPECT_EQ(scores[2], 0);
  EXPECT_THAT(ScoreByReleases({{1}}, {{true, false}}, {{1}}, 1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ScoreByReleases({{1}}, {{true}}, {{0}}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("zero")));
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
