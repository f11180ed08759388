#include "federated/privacy/banded_noise.h"

#include <cmath>

namespace rivulet::privacy {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(SquareRootBands, AreTheBinomialSeries) {
  EXPECT_EQ(SquareRootBands(5), (std::vector<double>{1, 0.5, 0.375, 0.3125, 0.2734375}));
  // Convolved with itself the series is 1 / (1 - x).
  const std::vector<double> bands = SquareRootBands(32);
  for (size_t k = 0; k < 32; ++k) {
    double sum = 0;
    for (size_t j = 0; j <= k; ++j) sum += bands[j] * bands[k - j];
    EXPECT_NEAR(sum, 1, 1e-14);
  }
}

// Two bands 1, 1/2: one participation has sqrt(1 + 1/4); two that are apart twice the square; in neighbouring versions
// the column sums are 1, 3/2, 1/2.
TEST(BandedSensitivity, ByHand) {
  const std::vector<double> bands = {1, 0.5};
  ASSERT_OK_AND_ASSIGN(const double once, BandedSensitivity(bands, 10, 2, 1));
  EXPECT_DOUBLE_EQ(once, std::sqrt(1.25));
  ASSERT_OK_AND_ASSIGN(const double twice, BandedSensitivity(bands, 10, 2, 2));
  EXPECT_DOUBLE_EQ(twice, std::sqrt(2.5));
  ASSERT_OK_AND_ASSIGN(const double next, BandedSensitivity(bands, 10, 1, 2));
  EXPECT_DOUBLE_EQ(next, std::sqrt(1 + 2.25 + 0.25));
  ASSERT_OK_AND_ASSIGN(const double last,
                       BandedSensitivity(bands, 1, 1, 5));  // one version cannot be taken part in twice
  EXPECT_EQ(last, 1);
  EXPECT_THAT(BandedSensitivity(std::vector<double>{1, 2}, 10, 2, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("coefficient 1 of the bands is 2")));
  EXPECT_THAT(BandedSensitivity(bands, 10, 0, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least 1")));
}

// Against every set of participations that is allowed, by brute force.
TEST(BandedSensitivity, IsTheWorstOfAllSchedules) {
  constexpr int kVersions = 9;
  const std::vector<double> bands = SquareRootBands(4);
  for (const int separation : {1, 2, 3, 5}) {
    for (const int most : {1, 2, 3}) {
      double worst = 0;
      for (int set = 1; set < 1 << kVersions; ++set) {
        double squares = 0;
        int last = -100, count = 0;
        bool allowed = true;
        std::vector<double> sums(kVersions);
        for (int version = 0; version < kVersions; ++version) {
          if ((set >> version & 1) == 0) continue;
          allowed = allowed && version - last >= separation && ++count <= most;
          last = version;
          for (int band = 0; band < 4 && version + band < kVersions; ++band) {
            sums[static_cast<size_t>(version + band)] += bands[static_cast<size_t>(band)];
          }
        }
        for (const double sum : sums) squares += sum * sum;
        if (allowed) worst = std::max(worst, std::sqrt(squares));
      }
      ASSERT_OK_AND_ASSIGN(const double sensitivity, BandedSensitivity(bands, kVersions, separation, most));
      EXPECT_NEAR(sensitivity, worst, 1e-14) << separation << " " << most;
    }
  }
  EXPECT_EQ(MostParticipations(9, 5), 2);
  EXPECT_EQ(MostParticipations(10, 5), 2);
  EXPECT_EQ(MostParticipations(11, 5), 3);
}

// C times the correlated noise is the fresh noise again.
TEST(NextCorrelatedNoise, IsUndoneByTheBands) {
  const std::vector<double> bands = SquareRootBands(4), fresh = {1, -2, 0.5, 3, 7, -1, 0};
  std::vector<double> noise;
  for (const double z : fresh) {
    std::vector<double> earlier(noise.rbegin(), noise.rend());
    noise.push_back(NextCorrelatedNoise(bands, z, earlier));
  }
  for (size_t t = 0; t < fresh.size(); ++t) {
    double sum = 0;
    for (size_t j = 0; j <= std::min<size_t>(t, 3); ++j) sum += bands[j] * noise[t - j];
    EXPECT_NEAR(sum, fresh[t], 1e-14);
  }
}

TEST(PrefixErrors, WithoutBandsAreThoseOfIndependentNoise) {
  const PrefixErrors errors = PrefixErrorsOf(std::vector<double>{1}, 100);
  EXPECT_DOUBLE_EQ(errors.largest, 10);
  EXPECT_DOUBLE_EQ(errors.root_mean_square, std::sqrt(50.5));
  EXPECT_LT(PrefixErrorsOf(SquareRootBands(32), 100).largest, 3);
}

TEST(TreeNodesOfOne, IsTheDepth) {
  EXPECT_EQ(TreeNodesOfOne(1), 1);
  EXPECT_EQ(TreeNodesOfOne(1600), 11);
  EXPECT_EQ(TreeNodesOfOne(2047), 11);
  EXPECT_EQ(TreeNodesOfOne(2048), 12);
}

}  // namespace
}  // namespace rivulet::privacy
