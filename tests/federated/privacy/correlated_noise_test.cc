// Correlated noise: it solves the banded system, restarts give the same, and prefix sums of versions gain what theory
// says.
#include "federated/privacy/correlated_noise.h"

#include <cmath>
#include <vector>

#include "federated/privacy/banded_noise.h"
#include "federated/privacy/sum_noise.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::privacy {
namespace {

constexpr int64_t kElements = 3000;
constexpr double kDeviation = 1 << 20;

DiscreteGaussian FreshLaw() { return DiscreteGaussian(*NoiseScale::AtLeast(kDeviation)); }

std::vector<std::vector<int64_t>> Versions(int64_t bands, int64_t count) {
  const NoiseKey key = SeededKey(3);
  CorrelatedNoise noise(FreshLaw(), WholeBands(bands), kElements);
  std::vector<std::vector<int64_t>> versions;
  for (int64_t version = 1; version <= count; ++version) {
    auto one = noise.Of(key, version, 1);
    EXPECT_OK(one);
    versions.push_back(*std::move(one));
  }
  return versions;
}

TEST(CorrelatedNoise, WholeBands_AreTheSquareRootsAndDoNotRise) {
  EXPECT_THAT(WholeBands(4), ::testing::ElementsAre(256, 128, 96, 80));
  const auto bands = WholeBands(kMostBands);
  for (size_t i = 1; i < bands.size(); ++i) EXPECT_LE(bands[i], bands[i - 1]);
}

// k applied to the noise gives back the fresh noise, but for the roundings to whole units.
TEST(CorrelatedNoise, Versions_SolveTheBandedSystem) {
  for (const int64_t bands : {1, 2, 5, 32}) {
    const auto versions = Versions(bands, 40);
    const auto whole = WholeBands(bands);
    for (size_t t = 0; t < versions.size(); ++t) {
      std::vector<int64_t> fresh(kElements);
      ASSERT_OK(DrawNoise(*SeededKey(3).Derive(t + 1, NoisePurpose::kSum), FreshLaw(), 0, fresh));
      for (size_t i = 0; i < 50; ++i) {
        double sum = 0, off = 0;
        for (size_t j = 0; j < whole.size() && j <= t; ++j) {
          sum += static_cast<double>(whole[j] * versions[t - j][i]);
          off += static_cast<double>(whole[j]) * 0.51;
        }
        ASSERT_NEAR(sum, static_cast<double>(fresh[i]), off) << bands << " " << t;
      }
    }
  }
}

TEST(CorrelatedNoise, ARestartAnywhere_IsTheSameNoiseOnAnyNumberOfThreads) {
  const auto versions = Versions(4, 12);
  for (const int64_t version : {1, 5, 12}) {
    CorrelatedNoise again(FreshLaw(), WholeBands(4), kElements);
    EXPECT_EQ(*again.Of(SeededKey(3), version, 3), versions[static_cast<size_t>(version - 1)]);
    EXPECT_EQ(*again.Of(SeededKey(3), 2, 1), versions[1]) << "and back";
  }
}

// Models are prefix sums. Their errors are those of theory, and below those of independent noise of equal privacy.
TEST(CorrelatedNoise, PrefixSums_HaveTheErrorsOfTheory) {
  constexpr int64_t kVersions = 32, kBands = 8;
  const auto versions = Versions(kBands, kVersions);
  std::vector<double> prefix(kElements);
  double squares = 0;
  for (const auto& version : versions) {
    for (size_t i = 0; i < prefix.size(); ++i) {
      prefix[i] += static_cast<double>(version[i]);
      squares += prefix[i] * prefix[i];
    }
  }
  const std::vector<double> bands = SquareRootBands(kBands);
  const double unit = kDeviation / 256;  // of fresh noise in units of the sums
  const double error = std::sqrt(squares / static_cast<double>(kVersions * kElements)) / unit;
  const double theory = PrefixErrorsOf(bands, kVersions).root_mean_square;
  EXPECT_NEAR(error, theory, 0.03 * theory);
  ASSERT_OK_AND_ASSIGN(const double correlated, BandedSensitivity(bands, kVersions, 32, 1));
  EXPECT_LT(theory * correlated, 0.6 * PrefixErrorsOf(SquareRootBands(1), kVersions).root_mean_square);
}

TEST(CorrelatedNoise, Sensitivity_IsThatOfTheBandsAndOfItsRoundings) {
  const auto whole = WholeBands(4);
  ASSERT_OK_AND_ASSIGN(const double once, CorrelatedSensitivity(whole, 4, 4, 1000, 1));
  double squares = 0;
  for (const int64_t band : whole) squares += static_cast<double>(band * band);
  EXPECT_NEAR(once, 1000 * std::sqrt(squares), 1);
  EXPECT_GT(once, 1000 * std::sqrt(squares));
  ASSERT_OK_AND_ASSIGN(const double twice, CorrelatedSensitivity(whole, 8, 4, 1000, 1));
  EXPECT_NEAR(twice, once * std::sqrt(2), 1);
  ASSERT_OK_AND_ASSIGN(const double near, CorrelatedSensitivity(whole, 8, 1, 1000, 1));
  EXPECT_GT(near, 2 * twice);
}

}  // namespace
}  // namespace rivulet::privacy
