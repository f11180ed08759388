// Noise added by clients: its size for the smallest sum, its range in the largest, and the distribution of small sums.
#include "federated/privacy/distributed_noise.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "federated/privacy/accountant.h"
#include "federated/privacy/discrete.h"
#include "federated/privacy/sum_noise.h"
#include "tests/testing/chi_squared.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::privacy {
namespace {

using testing::ChiSquaredDeviations;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr DistributedNoiseRequest kRequest = {
    .multiplier = 1.5, .sensitivity = 40, .dimension = 1000, .least_honest = 9, .most_clients = 30};

// The sum of `clients` draws in each of `count` coordinates.
std::vector<int64_t> SumOfClients(const NoiseScale& each, uint64_t clients, size_t count) {
  std::vector<int64_t> sum(count), noise(count);
  for (uint64_t client = 1; client <= clients; ++client) {
    EXPECT_OK(DrawNoise(SeededKey(client), DiscreteGaussian(each), 0, noise));
    std::ranges::transform(sum, noise, sum.begin(), std::plus<>());
  }
  return sum;
}

TEST(SizeDistributedNoise, SmallestSum_HasTheMultiplier) {
  ASSERT_OK_AND_ASSIGN(const DistributedNoise noise, SizeDistributedNoise(kRequest));
  EXPECT_GE(noise.each.value(), 1.5 * 40 / 3);
  EXPECT_NEAR(noise.rounds.multiplier, 1.5, 1e-8);
  EXPECT_EQ(noise.rounds.contributors, 9);
  double squares = 0;
  const std::vector<int64_t> sum = SumOfClients(noise.each, 9, 100000);
  for (const int64_t value : sum) squares += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(std::sqrt(squares / 100000), 60, 0.6);
}

// A sum is no discrete Gaussian, and within the stated factor of one: at half a unit the difference shows in the law.
TEST(SizeDistributedNoise, Tau_BoundsHowFarASumIsFromOneLaw) {
  const double each = 0.5;
  ASSERT_OK_AND_ASSIGN(const NoiseScale scale, NoiseScale::AtLeast(each));
  constexpr size_t kDraws = 400000;
  const std::vector<int64_t> sum = SumOfClients(scale, 4, kDraws);
  const double tau = SumOfDiscreteGaussiansTau(each, 4);
  for (int64_t k = -2; k <= 2; ++k) {
    const auto counted = static_cast<double>(std::ranges::count(sum, k));
    const double mass = DiscreteGaussianMass(each * 2, k), error = 4 * std::sqrt(mass / kDraws);
    EXPECT_LE(counted / kDraws, mass * std::exp(tau / 2) + error) << k;
    EXPECT_GE(counted / kDraws, mass * std::exp(-tau / 2) - error) << k;
  }
  EXPECT_LT(SumOfDiscreteGaussiansTau(2, 4), 1e-15);
  ASSERT_OK_AND_ASSIGN(const NoiseScale large, NoiseScale::AtLeast(2));
  EXPECT_LT(std::abs(ChiSquaredDeviations(SumOfClients(large, 4, kDraws),
                                          [](int64_t k) { return DiscreteGaussianMass(4, k); })),
            4);
}

TEST(SizeDistributedNoise, Room_HoldsTheTailsOfTheLargestSum) {
  ASSERT_OK_AND_ASSIGN(const DistributedNoise noise, SizeDistributedNoise(kRequest));
  const std::vector<int64_t> sum = SumOfClients(noise.each, 30, 100000);
  for (const int64_t value : sum) ASSERT_LE(std::abs(value), noise.room);
  EXPECT_LT(static_cast<double>(noise.room), 12 * noise.each.value() * std::sqrt(30)) << "and not much more";
}

// The term for sums costs epsilon where units are coarse, and nothing where they are fine.
TEST(SizeDistributedNoise, Epsilon_IsThatOfOneGaussianInFineUnits) {
  const auto epsilon = [](const NoisedRounds& rounds) {
    const auto spend = EpsilonOf({.rounds = {rounds}}, 1e-5);
    EXPECT_OK(spend);
    return spend->value;
  };
  ASSERT_OK_AND_ASSIGN(const DistributedNoise noise, SizeDistributedNoise(kRequest));
  const double one = epsilon({.multiplier = 1.5});
  EXPECT_GE(epsilon(noise.rounds), one * (1 - 1e-3));
  EXPECT_NEAR(epsilon(noise.rounds), one, 0.02 * one);
}

TEST(SizeDistributedNoise, WhatCannotBeSized_IsRefused) {
  const auto refusal = [](const std::function<void(DistributedNoiseRequest&)>& change) {
    DistributedNoiseRequest request = kRequest;
    change(request);
    return SizeDistributedNoise(request).status();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(refusal([](auto& r) { r.multiplier = 0; }), StatusIs(invalid, HasSubstr("noise multiplier is 0")));
  EXPECT_THAT(refusal([](auto& r) { r.sensitivity = 0; }), StatusIs(invalid, HasSubstr("sensitivity of 0 units")));
  EXPECT_THAT(refusal([](auto& r) { r.least_honest = 0; }), StatusIs(invalid, HasSubstr("from 0 to 30 clients")));
  EXPECT_THAT(refusal([](auto& r) { r.most_clients = 8; }), StatusIs(invalid, HasSubstr("from 9 to 8 clients")));
  EXPECT_THAT(refusal([](auto& r) { r.overflow_log2 = 0; }), StatusIs(invalid, HasSubstr("overflow")));
  EXPECT_THAT(refusal([](auto& r) { r.sensitivity = 0.5; }),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("units at least 2 times finer")));
}

}  // namespace
}  // namespace rivulet::privacy
