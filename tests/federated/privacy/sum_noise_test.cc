// Noise on sums: the norm of a rounded update, noise equal to DrawNoise's, and no double noise.
#include "federated/privacy/sum_noise.h"

#include <cmath>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace rivulet::privacy {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

std::shared_ptr<const NoiseKey> Key(uint64_t seed) { return std::make_shared<const NoiseKey>(SeededKey(seed)); }

constexpr SumBound kBound = {.clip = 0.75, .elements = 5000, .fraction_bits = 20};

TEST(SumNoise, NormInUnits_IsAboveEveryRoundedUpdateOfTheClip) {
  // The worst rounding: every value is half a unit below the next one.
  for (const int bits : {0, 3, 20}) {
    const SumBound bound = {.clip = 100, .elements = 400, .fraction_bits = bits};
    const double value = std::floor(std::ldexp(5.0, bits)) + 0.5;  // 400 of them, of the norm 100 or more
    const double rounded = std::sqrt(400.0) * (value + 0.5);
    const double norm = std::sqrt(400.0) * value;
    EXPECT_GE(NormInUnits({.clip = std::ldexp(norm, -bits), .elements = 400, .fraction_bits = bits}), rounded);
    EXPECT_EQ(NormInUnits(bound), std::floor(NormInUnits(bound)));
    EXPECT_LT(NormInUnits(bound), std::ldexp(100 * (1 + 0x1p-19), bits) + 12) << "and not much above";
  }
}

TEST(SumNoise, Deviation_IsNeverBelowTheMultiplierTimesTheNorm) {
  for (const double z : {0.3, 1.0, 7.0}) {
    ASSERT_OK_AND_ASSIGN(const SumNoise noise, SumNoise::Create(Key(1), z, kBound));
    EXPECT_GE(noise.deviation(), z * noise.sensitivity());
    EXPECT_NEAR(noise.multiplier(), z, 1e-8 * z);
    EXPECT_GE(noise.multiplier(), z);
  }
}

TEST(SumNoise, Add_AddsWhatTheKeyDrawsForTheVersionOnAnyNumberOfThreads) {
  ASSERT_OK_AND_ASSIGN(const SumNoise noise, SumNoise::Create(Key(1), 1, kBound));
  std::vector<int64_t> drawn(5000), sums(5000), threads(5000);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = threads[i] = static_cast<int64_t>(i) << 40;
  ASSERT_OK_AND_ASSIGN(const NoiseKey derived, Key(1)->Derive(9, NoisePurpose::kSum));
  ASSERT_OK_AND_ASSIGN(const NoiseScale scale, NoiseScale::AtLeast(NormInUnits(kBound)));
  ASSERT_OK(DrawNoise(derived, DiscreteGaussian(scale), 0, drawn));
  ASSERT_OK(noise.Add(9, sums));
  ASSERT_OK(noise.Add(9, threads, 3));
  EXPECT_EQ(sums, threads);
  double squares = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    ASSERT_EQ(sums[i] - (static_cast<int64_t>(i) << 40), drawn[i]) << i;
    squares += static_cast<double>(drawn[i]) * static_cast<double>(drawn[i]);
  }
  EXPECT_NEAR(std::sqrt(squares / 5000) / noise.deviation(), 1, 0.05);
}

// The count's word has the noise of the sums and is charged with them: one vector under one law.
TEST(SumNoise, Count_IsOneMoreWordOfTheSums) {
  constexpr double kTogether = 1.3, kCount = 7;
  ASSERT_OK_AND_ASSIGN(const SumNoise noise, SumNoise::Create(Key(1), kTogether, kBound, 1, kCount));
  ASSERT_OK_AND_ASSIGN(const SumNoise plain, SumNoise::Create(Key(1), kTogether, kBound));
  EXPECT_TRUE(noise.counts() && !plain.counts());
  EXPECT_EQ(noise.dimension(), kBound.elements + 1);
  EXPECT_NEAR(noise.multiplier(), kTogether, 1e-5);
  const double of_sums = noise.deviation() / NormInUnits(kBound);
  EXPECT_NEAR(of_sums, 1 / std::sqrt(1 / (kTogether * kTogether) - 1 / (kCount * kCount)), 1e-5);
  double sum = 0, squares = 0;
  constexpr int kVersions = 4000;
  for (uint64_t version = 1; version <= kVersions; ++version) {
    ASSERT_OK_AND_ASSIGN(const double noised, noise.AddToCount(version, 30));
    sum += noised - 30;
    squares += (noised - 30) * (noised - 30);
  }
  EXPECT_NEAR(sum / kVersions, 0, 5 * kCount / std::sqrt(kVersions));
  EXPECT_NEAR(std::sqrt(squares / kVersions), kCount, 0.06 * kCount);
  ASSERT_OK_AND_ASSIGN(const double again, noise.AddToCount(5, -3));
  ASSERT_OK_AND_ASSIGN(const double once, noise.AddToCount(5, -3));
  EXPECT_EQ(again, once);
  EXPECT_THAT(noise.AddToCount(5, 0.5), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no whole number")));
  EXPECT_THAT(noise.AddToCount(5, 0x1p21), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SumNoise, CountThatSpendsMoreThanBothTogetherMay_IsRefused) {
  EXPECT_THAT(SumNoise::Create(Key(1), 2, kBound, 1, 2), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(SumNoise::Create(Key(1), 1, kBound, 4, 2), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(SumNoise::Create(Key(1), 0.1, kBound, 1, 0.2), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SumNoise, AnotherVersionOrKey_IsOtherNoise) {
  const auto add = [](uint64_t seed, uint64_t version) {
    std::vector<int64_t> sums(5000);
    EXPECT_OK(SumNoise::Create(Key(seed), 1, kBound)->Add(version, sums));
    return sums;
  };
  const auto first = add(1, 1);
  for (const auto& other : {add(1, 2), add(2, 1)}) {
    int alike = 0;
    for (size_t i = 0; i < first.size(); ++i) alike += first[i] == other[i];
    EXPECT_LT(alike, 5) << "of a deviation of 800,000 units";
  }
}

// More than one stretch that is drawn at a time.
TEST(SumNoise, ManyElements_HaveNoTwoStretchesAlike) {
  const SumBound bound = {.clip = 1, .elements = (int64_t{1} << 20) + 5000, .fraction_bits = 30};
  ASSERT_OK_AND_ASSIGN(const SumNoise noise, SumNoise::Create(Key(1), 1, bound));
  std::vector<int64_t> sums(static_cast<size_t>(bound.elements));
  ASSERT_OK(noise.Add(1, sums));
  ASSERT_OK_AND_ASSIGN(const NoiseKey derived, Key(1)->Derive(1, NoisePurpose::kSum));
  std::vector<int64_t> whole(sums.size());
  ASSERT_OK_AND_ASSIGN(const NoiseScale scale, NoiseScale::AtLeast(noise.sensitivity()));
  ASSERT_OK(DrawNoise(derived, DiscreteGaussian(scale), 0, whole));
  EXPECT_EQ(sums, whole);
}

TEST(SumNoise, MostFractionBits_AreWithinWhatExactNoiseTakes) {
  for (const double clip : {1e-3, 1.0, 1.5, 1000.0}) {
    for (const double z : {0.1, 1.0, 100.0}) {
      const SumBound bound = {.clip = clip, .elements = 10'000'000, .fraction_bits = MostFractionBits(z, clip)};
      EXPECT_OK(SumNoise::Create(Key(1), z, bound)) << clip << " " << z;
    }
  }
}

TEST(SumNoise, WhatDoesNotFit_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const SumNoise noise, SumNoise::Create(Key(1), 1, kBound));
  std::vector<int64_t> sums(4999);
  EXPECT_THAT(noise.Add(1, sums), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4999 sums")));
  const SumBound fine = {.clip = 1, .elements = 3, .fraction_bits = 42};
  EXPECT_THAT(SumNoise::Create(Key(1), 1, fine).status(),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("server.value_bits")));
}

}  // namespace
}  // namespace rivulet::privacy
