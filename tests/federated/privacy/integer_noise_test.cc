#include "federated/privacy/integer_noise.h"

#include <algorithm>
#include <cmath>

#include "engine/base/sha256.h"
#include "federated/privacy/discrete.h"
#include "federated/privacy/gaussian.h"
#include "tests/testing/chi_squared.h"

namespace rivulet::privacy {
namespace {

using testing::ChiSquaredDeviations;
using ::testing::HasSubstr;
using testing::StatusIs;

NoiseKey TestKey() {
  NoiseKey::Bytes bytes{};
  bytes[0] = 46;
  return NoiseKey::FromBytes(bytes);
}

template <typename Law>
std::vector<int64_t> Draws(const Law& law, size_t count, uint64_t first_block = 0, int threads = 1) {
  std::vector<int64_t> draws(count);
  EXPECT_OK(DrawNoise(TestKey(), law, first_block, draws, threads));
  return draws;
}

DiscreteGaussian Gaussian(double parameter) { return DiscreteGaussian(NoiseScale::AtLeast(parameter).value()); }

TEST(NoiseScale, IsTheLeastOfThirtyTwoBitsAbove) {
  for (const double parameter : {0.5, 1.0, 3.7, 0x1p-6, 1.1e6, 0x1p40, 5.0 / 3}) {
    ASSERT_OK_AND_ASSIGN(const NoiseScale scale, NoiseScale::AtLeast(parameter));
    EXPECT_GE(scale.value(), parameter);
    EXPECT_LE(scale.value(), parameter * (1 + 0x1p-31));
    EXPECT_EQ(scale.mantissa % 2, 1u);
  }
  ASSERT_OK_AND_ASSIGN(const NoiseScale half, NoiseScale::AtLeast(0.5));
  EXPECT_EQ(half.value(), 0.5);
  for (const double parameter : {0.0, 0.01, 0x1p41, std::nan("")}) {
    EXPECT_THAT(NoiseScale::AtLeast(parameter), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("cannot be drawn")));
  }
}

TEST(DiscreteGaussian, HasItsExactLaw) {
  for (const double parameter : {0.3, 0.5, 1.0, 3.7, 50.0}) {
    const double deviations = ChiSquaredDeviations(Draws(Gaussian(parameter), 400000),
                                                   [&](int64_t k) { return DiscreteGaussianMass(parameter, k); });
    EXPECT_LT(std::abs(deviations), 4) << parameter;
  }
}

// The test can fail: a law of 1 % more noise is found out.
TEST(DiscreteGaussian, ChiSquaredFindsAnotherLaw) {
  EXPECT_GT(
      ChiSquaredDeviations(Draws(Gaussian(3.737), 400000), [](int64_t k) { return DiscreteGaussianMass(3.7, k); }), 6);
}

// Far from the integers' size the law is the normal one's: by the probability integral, in 200 equal cells.
TEST(DiscreteGaussian, LargeScalesHaveTheNormalLaw) {
  for (const double parameter : {0x1.8p20, 1e10, 0x1p40}) {
    std::vector<int64_t> cells = Draws(Gaussian(parameter), 200000);
    for (int64_t& draw : cells) {
      draw = static_cast<int64_t>(std::floor(NormalCdf(static_cast<double>(draw) / parameter) * 200)) - 100;
      if (draw >= 0) ++draw;  // cells -100 .. -1 and 1 .. 100
    }
    std::vector<int> counts(201);
    for (const int64_t cell : cells) ++counts.at(static_cast<size_t>(cell + 100));
    double chi_squared = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (i != 100) chi_squared += (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000.0;
    }
    EXPECT_LT(chi_squared, 281);  // 99.99 % of 199 degrees of freedom
    EXPECT_GT(chi_squared, 132);  // 0.01 %
  }
}

TEST(DiscreteGaussian, TailsAreThereAndAsRareAsTheyShouldBe) {
  const std::vector<int64_t> draws = Draws(Gaussian(2), 1000000);
  double beyond = 0;
  for (int64_t k = 9; k < 100; ++k) beyond += 2 * DiscreteGaussianMass(2, k);  // above 4 deviations: 2e-5
  const auto counted = std::count_if(draws.begin(), draws.end(), [](int64_t draw) { return std::abs(draw) >= 9; });
  EXPECT_NEAR(static_cast<double>(counted), beyond * 1e6, 5 * std::sqrt(beyond * 1e6));
  EXPECT_LE(std::abs(*std::max_element(draws.begin(), draws.end())), 16);  // 8 deviations: 1e-15 a draw
}

TEST(DiscreteLaplace, HasItsExactLaw) {
  for (const auto& [numerator, denominator] : {std::pair<uint64_t, uint64_t>{1, 2}, {1, 1}, {7, 3}, {40, 1}}) {
    ASSERT_OK_AND_ASSIGN(const DiscreteLaplace law, DiscreteLaplace::Create(numerator, denominator));
    const double scale = static_cast<double>(numerator) / static_cast<double>(denominator);
    EXPECT_LT(
        std::abs(ChiSquaredDeviations(Draws(law, 400000), [&](int64_t k) { return DiscreteLaplaceMass(scale, k); })), 4)
        << numerator << "/" << denominator;
  }
  EXPECT_THAT(DiscreteLaplace::Create(0, 1), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("0 / 1")));
  EXPECT_THAT(DiscreteLaplace::Create(1, uint64_t{1} << 41), StatusIs(absl::StatusCode::kOutOfRange));
}

// Of four million draws a law of half a percent more scale is found out, and this one is not.
TEST(DiscreteLaplace, ChiSquaredFindsAnotherLaw) {
  ASSERT_OK_AND_ASSIGN(const DiscreteLaplace law, DiscreteLaplace::Create(2010, 200));
  std::vector<int64_t> draws(4'000'000);
  ASSERT_OK(DrawNoise(TestKey(), law, 0, draws, 2));
  const auto deviations = [&](double scale) {
    return ChiSquaredDeviations(draws, [&](int64_t k) { return DiscreteLaplaceMass(scale, k); });
  };
  EXPECT_LT(std::abs(deviations(10.05)), 4);
  EXPECT_GT(deviations(10), 6);
}

TEST(DrawNoise, IsTheSameForAnyNumberOfThreadsAndAnyDivision) {
  const DiscreteGaussian law = Gaussian(1234.5);
  constexpr size_t kCount = 10 * kElementsPerBlock + 17;
  const std::vector<int64_t> one = Draws(law, kCount);
  for (const int threads : {2, 3, 7, 64}) EXPECT_EQ(Draws(law, kCount, 0, threads), one) << threads;
  const std::vector<int64_t> later = Draws(law, 2 * kElementsPerBlock, 3);
  EXPECT_TRUE(std::equal(later.begin(), later.end(), one.begin() + 3 * kElementsPerBlock));
  EXPECT_TRUE(Draws(law, 0).empty());
}

TEST(DrawNoise, OfLaplaceToo_IsTheSameForAnyNumberOfThreads) {
  ASSERT_OK_AND_ASSIGN(const DiscreteLaplace law, DiscreteLaplace::Create(355, 113));
  constexpr size_t kCount = 5 * kElementsPerBlock + 3;
  const std::vector<int64_t> one = Draws(law, kCount);
  for (const int threads : {2, 3, 64}) EXPECT_EQ(Draws(law, kCount, 0, threads), one) << threads;
  const std::vector<int64_t> later = Draws(law, 2 * kElementsPerBlock, 2);
  EXPECT_TRUE(std::equal(later.begin(), later.end(), one.begin() + 2 * kElementsPerBlock));
}

TEST(DrawNoise, BitsAreFrozen) {
  EXPECT_EQ(Draws(Gaussian(100), 8), (std::vector<int64_t>{-33, -8, -22, 10, 19, 26, -58, -66}));
  const auto digest = [](const std::vector<int64_t>& draws) {
    return Sha256Of({reinterpret_cast<const char*>(draws.data()), draws.size() * sizeof(int64_t)}).Hex().substr(0, 16);
  };
  EXPECT_EQ(digest(Draws(Gaussian(0.5), 100000)), "3cec575704fc2e5e");
  EXPECT_EQ(digest(Draws(Gaussian(3.7), 100000)), "df86ec5e83e367b0");
  EXPECT_EQ(digest(Draws(Gaussian(0x1p30), 100000)), "cf8d1839eeef72dd");
  EXPECT_EQ(digest(Draws(DiscreteLaplace::Create(1'000'000'007, 3).value(), 100000)), "c4510889791e9881");
}

// Nearly all draws are decided by tables. The digests are of the program before it had any.
TEST(DrawNoise, Tables_ChangeNoBit) {
  NoiseKey::Bytes bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + 1);
  const NoiseKey key = NoiseKey::FromBytes(bytes);
  const auto digest = [&](const auto& law) {
    std::vector<int64_t> draws(1'000'000);
    EXPECT_OK(DrawNoise(key, law, 0, draws));
    return Sha256Of({reinterpret_cast<const char*>(draws.data()), draws.size() * sizeof(int64_t)}).Hex().substr(0, 16);
  };
  for (const auto& [parameter, expected] : std::vector<std::pair<double, const char*>>{{0.99, "5f1df9c11db7059a"},
                                                                                       {1, "aebe36706bf493a8"},
                                                                                       {1.7, "2a07392a0340a043"},
                                                                                       {7.5, "86a430416473c398"},
                                                                                       {1000, "c38f8c56740336db"},
                                                                                       {12345.678, "057efcaa1b402390"},
                                                                                       {1e11, "12f2a14351908d82"},
                                                                                       {0x1p40, "0a829230f6c5a775"}}) {
    EXPECT_EQ(digest(Gaussian(parameter)), expected) << parameter;
  }
  EXPECT_EQ(digest(DiscreteLaplace::Create(1, 3).value()), "3660233d13bd4634");
  EXPECT_EQ(digest(DiscreteLaplace::Create(500, 10).value()), "76deafd430fe35d4");
  EXPECT_EQ(digest(DiscreteLaplace::Create(uint64_t{1} << 40, 12345).value()), "5a97147da3f72589");
}

// What decides is e^-g itself: bounds by integers hold the value to 256 bits, at random g and at the ends of the range.
TEST(ExponentialBounds, HoldTheExponential) {
  ASSERT_OK_AND_ASSIGN(NoiseStream stream, NoiseStream::Create(TestKey(), 9));
  const auto none = []() -> uint64_t { return 0; };
  for (int i = 0; i < 20000; ++i) {
    const int shift = 64 - static_cast<int>(stream.Below(60));
    const Wide scaled = (static_cast<Wide>(stream.Word()) << 6) >> (64 - shift);  // g below 64
    const ExponentialBounds bounds = BoundExponential(scaled);
    // At `low` the uniform number is below e^-g and at `high` it is not, with all further bits zero, for g and for
    // 2^12 units more.
    for (const Wide more : {Wide{0}, Wide{1} << 12}) {
      const Wide numerator = scaled + more, denominator = Wide{1} << 64;
      if (bounds.low > 0) {
        ASSERT_TRUE(IsBelowExponential(bounds.low - 1, none, numerator, denominator)) << i;
      }
      if (bounds.high < (Wide{1} << 64)) {
        ASSERT_FALSE(IsBelowExponential(static_cast<uint64_t>(bounds.high), none, numerator, denominator)) << i;
      }
    }
  }
  EXPECT_EQ(BoundExponential(static_cast<Wide>(64) << 64).low, 0u);
  EXPECT_EQ(BoundExponential(static_cast<Wide>(1000) << 64).high, Wide{1});
}

// e^-1 = 0.5e2d58d8b3bcdf1abadec7829054f90dda9805aab56c77333024b9d0a507daed… in hexadecimal: a number that agrees with
// it for 192 bits is decided by the next 64.
TEST(ExponentialBounds, FurtherBitsDecideWhereTheFirstDoNot) {
  const std::vector<uint64_t> digits = {0x5e2d58d8b3bcdf1a, 0xbadec7829054f90d, 0xda9805aab56c7733, 0x3024b9d0a507daed};
  for (const bool below : {true, false}) {
    for (size_t length = 1; length <= 3; ++length) {
      size_t next = 1;
      int asked = 0;
      const auto more = [&]() -> uint64_t {
        ++asked;
        if (next < length) return digits[next++];
        return below ? digits[length] - 100 : digits[length] + 100;
      };
      EXPECT_EQ(IsBelowExponential(digits[0], more, 1, 1), below) << length;
      EXPECT_EQ(asked, static_cast<int>(length)) << length;
    }
  }
  const auto none = []() -> uint64_t { return ~uint64_t{0}; };
  EXPECT_TRUE(IsBelowExponential(~uint64_t{0}, none, 0, 1));  // e^0 is above every uniform number
}

}  // namespace
}  // namespace rivulet::privacy
