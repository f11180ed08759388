#include "federated/privacy/adaptive_clip.h"

#include <cmath>

#include "federated/privacy/gaussian.h"

namespace rivulet::privacy {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(NextClip, MovesByTheShareOfUnclippedUpdates) {
  const AdaptiveClip rule{.quantile = 0.5, .learning_rate = 0.2};
  EXPECT_DOUBLE_EQ(NextClip(rule, 2, 100, 100), 2 * std::exp(-0.1));  // nobody was clipped: smaller
  EXPECT_DOUBLE_EQ(NextClip(rule, 2, -100, 100), 2 * std::exp(0.1));  // all were: larger
  EXPECT_DOUBLE_EQ(NextClip(rule, 2, 0, 100), 2);                     // half were: it stays
  EXPECT_DOUBLE_EQ(NextClip(rule, 2, 300, 100), 2 * std::exp(-0.3));  // noise may say more than all
  EXPECT_EQ(NextClip({.least = 1.9}, 2, 100, 100), 1.9);
  EXPECT_EQ(NextClip({.most = 2.1}, 2, -100, 100), 2.1);
}

TEST(NextClip, FindsTheQuantileOfNorms) {
  double clip = 0.1;
  const AdaptiveClip rule{.quantile = 0.8, .learning_rate = 0.2};
  for (int round = 0; round < 300; ++round) {
    double sum = 0;  // norms 0.01, 0.02, …, 10
    for (int client = 1; client <= 1000; ++client) sum += client * 0.01 <= clip ? 1 : -1;
    clip = NextClip(rule, clip, sum, 1000);
  }
  EXPECT_NEAR(clip, 8, 0.1);
}

// The paper's formula, z_delta = (z^-2 - (2 sigma_b)^-2)^-1/2, with sigma_b = 5, z = 1: 1 / sqrt(1 - 0.01).
TEST(CombinedMultiplier, IsThePapersAndItsInverse) {
  EXPECT_NEAR(UpdateMultiplierFor(1, 10), 1 / std::sqrt(0.99), 1e-15);
  EXPECT_NEAR(CombinedMultiplier(UpdateMultiplierFor(1.3, 7), 7), 1.3, 1e-14);
  EXPECT_EQ(UpdateMultiplierFor(2, 2), HUGE_VAL);
  // Two releases of one round are one of the combined multiplier.
  EXPECT_NEAR(GaussianDelta(1 / CombinedMultiplier(2, 3), 1), GaussianDelta(std::hypot(0.5, 1.0 / 3), 1), 1e-15);
}

// The count's noise is within a factor of two of what was asked, and updates and count spend the multiplier exactly.
TEST(CountUnits, OfAPowerOfTwo_SpendTheMultiplierWithTheUpdates) {
  for (const double z : {0.5, 1.0, 4.0}) {
    for (const double deviation : {z * 1.01, z * 3, z * 100}) {
      const double sensitivity = 123457;
      ASSERT_OK_AND_ASSIGN(const CountUnits count, CountUnitsFor(z, deviation, sensitivity));
      EXPECT_EQ(count.units & (count.units - 1), 0);
      EXPECT_GE(count.deviation, deviation * (1 - 1e-12));
      EXPECT_LE(count.deviation, 2 * deviation);
      const double noise = UpdateMultiplierFor(z, count.deviation) * sensitivity;
      EXPECT_NEAR(noise / static_cast<double>(count.units), count.deviation, 1e-9 * count.deviation);
      EXPECT_NEAR(noise / std::hypot(sensitivity, static_cast<double>(count.units)), z, 1e-9 * z);
    }
  }
  EXPECT_THAT(CountUnitsFor(1, 1, 1e5), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("above the multiplier")));
  EXPECT_THAT(CountUnitsFor(1, 1e6, 1e5), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("finer units")));
}

}  // namespace
}  // namespace rivulet::privacy
