#include "federated/settings/whole_ratios.h"

#include <limits>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> RatiosOf(const std::vector<double>& numbers) {
  auto ratios = WholeRatios(numbers);
  EXPECT_OK(ratios);
  return ratios.ok() ? *ratios : std::vector<int64_t>();
}

TEST(WholeRatiosTest, DecimalsOfFewDigits_AreExact) {
  EXPECT_THAT(RatiosOf({0.5, 1.7}), ElementsAre(5, 17));
  EXPECT_THAT(RatiosOf({2, 1, 0}), ElementsAre(2, 1, 0));
  EXPECT_THAT(RatiosOf({0.001, 12.5, 0.3}), ElementsAre(1, 12500, 300));
  EXPECT_THAT(RatiosOf({1e9, 1}), ElementsAre(1'000'000'000, 1));
}

TEST(WholeRatiosTest, LongDecimals_AreRoundedToTheBillionthOfTheLargest) {
  EXPECT_THAT(RatiosOf({1.0 / 3, 2.0 / 3}), ElementsAre(500'000'000, 1'000'000'000));
  EXPECT_THAT(RatiosOf({3.14159265358979, 1e6}), ElementsAre(3142, 1'000'000'000));
}

TEST(WholeRatiosTest, WhatIsNoRatio_IsRefused) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(WholeRatios(std::vector<double>{1, -0.5}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, "must hold numbers of at least 0, not -0.5"));
  EXPECT_THAT(WholeRatios(std::vector<double>{1, kInfinity}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, "must hold finite numbers, not inf"));
  EXPECT_THAT(
      WholeRatios(std::vector<double>{1.0 / 3, 1e12 / 3}),
      testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least a billionth of the largest number")));
}

}  // namespace
}  // namespace rivulet
