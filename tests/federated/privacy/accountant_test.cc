#include "federated/privacy/accountant.h"

#include <cmath>

#include "federated/privacy/gaussian.h"
#include "federated/privacy/renyi.h"

namespace rivulet::privacy {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

Composition Poisson(double multiplier, double rate, int64_t count) {
  return {.rounds = {{.multiplier = multiplier, .sampling = SamplingKind::kPoisson, .rate = rate, .count = count}}};
}
Composition Unsampled(double multiplier, int64_t count) {
  return {.rounds = {{.multiplier = multiplier, .count = count}}};
}

double Epsilon(const Composition& composition, double delta, Accountant accountant = Accountant::kPld) {
  const StatusOr<Spend> spend = EpsilonOf(composition, delta, accountant);
  EXPECT_OK(spend);
  return spend.ok() ? spend->value : NAN;
}
double Delta(const Composition& composition, double epsilon, Accountant accountant = Accountant::kPld) {
  const StatusOr<Spend> spend = DeltaOf(composition, epsilon, accountant);
  EXPECT_OK(spend);
  return spend.ok() ? spend->value : NAN;
}

// delta(0) is the total variation of N(0, 1) and N(mu, 1), which is 2 Phi(mu / 2) - 1; for mu = 2, 2 Phi(1) - 1 is the
// well-known 0.6827.
TEST(Gaussian, DeltaAtZeroIsTheTotalVariation) {
  EXPECT_NEAR(GaussianDelta(2, 0), 0.682689492137086, 1e-14);
  EXPECT_NEAR(Delta(Unsampled(0.5, 1), 0), 0.682689492137086, 1e-14);
  EXPECT_EQ(GaussianDelta(0, 1), 0);
  EXPECT_EQ(GaussianDelta(HUGE_VAL, 1), 1);
}

TEST(Gaussian, FourRoundsAreOneOfHalfTheNoise) {
  EXPECT_DOUBLE_EQ(Epsilon(Unsampled(2, 4), 1e-5), Epsilon(Unsampled(1, 1), 1e-5));
  EXPECT_NEAR(Epsilon(Unsampled(1, 1), 1e-5), 4.3771780956812245, 1e-9);
}

TEST(Gaussian, EpsilonAndDeltaAreInverse) {
  for (const double mu : {0.05, 1.0, 10.0}) {
    for (const double delta : {1e-3, 1e-9, 1e-30}) {
      EXPECT_NEAR(GaussianDelta(mu, GaussianEpsilon(mu, delta)) / delta, 1, 1e-6) << mu << " " << delta;
    }
  }
}

TEST(ReplaceOne, IsAddRemoveAtHalfTheNoise) {
  Composition replaced = Unsampled(2, 3);
  replaced.relation = Relation::kReplaceOne;
  for (const Accountant accountant : {Accountant::kPld, Accountant::kRdp, Accountant::kZcdp, Accountant::kGdp}) {
    EXPECT_DOUBLE_EQ(Epsilon(replaced, 1e-5, accountant), Epsilon(Unsampled(1, 3), 1e-5, accountant));
  }
}

// Each accountant's bound is at least the exact value, and rdp, zcdp are above it.
TEST(Accountants, BoundTheExactValueWithoutSampling) {
  const double exact = Epsilon(Unsampled(1, 1), 1e-5);
  EXPECT_DOUBLE_EQ(Epsilon(Unsampled(1, 1), 1e-5, Accountant::kGdp), exact);
  EXPECT_NEAR(Epsilon(Unsampled(1, 1), 1e-5, Accountant::kZcdp), 4.728386984943314, 1e-6);
  EXPECT_NEAR(Epsilon(Unsampled(1, 1), 1e-5, Accountant::kRdp), 4.728507067217623, 1e-6);
}

TEST(Accountants, NothingIsSpentWithoutRoundsOrMembersAndEverythingWithoutNoise) {
  for (const Accountant accountant : {Accountant::kPld, Accountant::kRdp, Accountant::kZcdp, Accountant::kGdp}) {
    EXPECT_EQ(Epsilon({}, 1e-5, accountant), 0);
    EXPECT_EQ(Epsilon(Unsampled(1, 0), 1e-5, accountant), 0);
    EXPECT_EQ(Epsilon(Poisson(1, 0, 10), 1e-5, accountant), 0);
    EXPECT_EQ(Epsilon(Unsampled(0, 1), 1e-5, accountant), HUGE_VAL);
  }
  EXPECT_EQ(Delta(Unsampled(0, 1), 3), 1);
}

// The figures of REFERENCE section 6 that no vector has: TensorFlow Privacy's and Opacus' own tests.
TEST(Accountants, AgreeWithOtherLibrariesTests) {
  EXPECT_NEAR(Epsilon(Poisson(1.5, 0.04, 2250), 1e-5, Accountant::kRdp), 7.32911117143, 1e-3);
  const double central = Epsilon(Poisson(1.5, 0.04, 2249), 1e-5, Accountant::kGdp);
  EXPECT_GT(central, 6.59);
  EXPECT_LT(central, 6.60);
  EXPECT_NEAR(Epsilon(Unsampled(0.7, 2), 1e-5, Accountant::kRdp), 10.8602036, 2e-3);
  EXPECT_NEAR(Epsilon(Unsampled(0.7, 2), 1e-5), 10.1224946, 1e-4);
  EXPECT_NEAR(Epsilon(Poisson(1, 0.0064, 782), 1e-6, Accountant::kRdp), 1.616, 1e-3);
  EXPECT_NEAR(Epsilon(Poisson(1, 0.0064, 782), 1e-6), 1.199, 1e-3);
  EXPECT_NEAR(Epsilon(Unsampled(1, 5), 1e-6, Accountant::kRdp), 13.376, 1e-3);
  EXPECT_NEAR(Epsilon(Unsampled(1, 5), 1e-6), 12.595, 1e-3);
  EXPECT_NEAR(Epsilon(Unsampled(std::sqrt(3), 3), 0.126936), 1, 1e-4);
  EXPECT_NEAR(Delta(Poisson(0.5, 0.2, 3), 1), 0.15594, 1e-3);
  EXPECT_NEAR(Epsilon(Poisson(4, 0.01, 10000), 1e-5, Accountant::kRdp), 1.0355, 1e-4);
  // DP-FTRL's trees, one pass over 1,600 rounds: 11 nodes hold a member.
  EXPECT_LT(Epsilon(Unsampled(1.13, 11), 1e-6, Accountant::kRdp), 19.74);
  EXPECT_LT(Epsilon(Unsampled(8.83, 11), 1e-6, Accountant::kRdp), 2.04);
}

TEST(Renyi, ConversionsOfOtherLibrariesTests) {
  // Pure differential privacy: a divergence of 1.1 at every order from 2 to 32.
  std::vector<double> orders, curve;
  for (int order = 2; order <= 32; ++order) orders.push_back(order), curve.push_back(1.1);
  EXPECT_NEAR(RenyiEpsilon(orders, curve, 1e-5).value, 1.32783806176, 1e-9);
  EXPECT_EQ(RenyiEpsilon(orders, curve, 1e-5).order, 32);

  std::vector<double> fine;
  for (int i = 1; i < 99000; ++i) fine.push_back(1 + i / 1000.0);
  ASSERT_OK_AND_ASSIGN(const std::vector<double> gaussian, RenyiCurve(Unsampled(4.530877117, 1), fine));
  EXPECT_NEAR(RenyiEpsilon(fine, gaussian, 1e-6).value, 1, 1e-8);

  const std::vector<double> few = {1.5, 2.5, 5, 50, 100};
  const double expected[] = {6.70579741e-4, 1.08548710e-3, 2.18075656e-3, 2.38460375e-2, 167.416308};
  ASSERT_OK_AND_ASSIGN(const std::vector<double> sampled, RenyiCurve(Poisson(2.5, 0.01, 50), few));
  for (size_t i = 0; i < few.size(); ++i) EXPECT_NEAR(sampled[i] / expected[i], 1, 1e-4) << few[i];

  // TensorFlow Privacy's test of overflow, at its own orders.
  const std::vector<double> coarse = {1.25, 1.5, 1.75, 2,  2.25, 2.5, 3,   3.5, 4,  4.5,
                                      5,    6,   8,    16, 32,   64,  128, 256, 512};
  ASSERT_OK_AND_ASSIGN(const std::vector<double> huge, RenyiCurve(Poisson(0.1, 1.024e-5, 976563), coarse));
  const RenyiBound bound = RenyiEpsilon(coarse, huge, 1e-7);
  EXPECT_NEAR(bound.value / 5907982.3113978775, 1, 1e-6);
  EXPECT_EQ(bound.order, 1.25);
}

TEST(Pld, BoundsAreCloseAndInOrder) {
  for (const auto& [multiplier, rate, count] : {std::tuple{1.5, 0.04, 2250},
                                                {0.7, 0.01, 120},
                                                {4.0, 0.01, 10000},
                                                {0.5, 0.005, 1000},
                                                {1.2, 2.92e-4, 2000},
                                                {1.0, 0.3, 1},
                                                {10.0, 0.9, 5}}) {
    ASSERT_OK_AND_ASSIGN(const Spend spend, EpsilonOf(Poisson(multiplier, rate, count), 1e-6));
    ASSERT_TRUE(spend.lower.has_value());
    EXPECT_LE(*spend.lower, spend.value) << multiplier << " " << rate << " " << count;
    EXPECT_GE(*spend.lower, spend.value * (1 - 1e-3)) << multiplier << " " << rate << " " << count;
    ASSERT_OK_AND_ASSIGN(const Spend delta, DeltaOf(Poisson(multiplier, rate, count), spend.value));
    EXPECT_NEAR(delta.value / 1e-6, 1, 3e-3);
    EXPECT_LE(*delta.lower, 1e-6);
  }
}

// One sampled round in closed form: with the member, delta = rate * GaussianDelta at log(1 + (e^epsilon - 1) / rate)
// (Balle, Barthe, Gaboardi 2018), and that direction is the worse one for epsilon >= 0.
TEST(Pld, OneSampledRoundIsTheClosedForm) {
  for (const double rate : {0.5, 0.05, 0.01}) {
    for (const double epsilon : {0.0, 0.01, 1.0, 3.0}) {
      const double exact = rate * GaussianDelta(1, std::log1p(std::expm1(epsilon) / rate));
      ASSERT_OK_AND_ASSIGN(const Spend spend, DeltaOf(Poisson(1, rate, 1), epsilon));
      EXPECT_GE(spend.value, exact * (1 - 1e-9)) << rate << " " << epsilon;
      EXPECT_LE(*spend.lower, exact * (1 + 1e-9)) << rate << " " << epsilon;
      // Beyond twelve deviations all is given up: 1e-30 of a delta at most.
      EXPECT_LE(spend.value, exact * (1 + 1e-3) + 1e-30) << rate << " " << epsilon;
      EXPECT_GE(*spend.lower, exact * (1 - 1e-3) - 1e-30) << rate << " " << epsilon;
    }
  }
}

// Rounds of sampling rate nearly 1 are nearly unsampled ones, whose composition is known exactly.
TEST(Pld, NearlyUnsampledIsTheExactGaussian) {
  for (const double delta : {1e-2, 1e-5, 1e-12, 1e-25}) {
    const double exact = GaussianEpsilon(std::sqrt(20) / 3, delta);
    ASSERT_OK_AND_ASSIGN(const Spend spend, EpsilonOf(Poisson(3, 1 - 1e-9, 20), delta));
    EXPECT_NEAR(spend.value / exact, 1, 1e-4) << delta;
    EXPECT_NEAR(*spend.lower / exact, 1, 1e-4) << delta;
    EXPECT_GE(spend.value, exact * (1 - 1e-7)) << delta;
    EXPECT_LE(*spend.lower, exact * (1 + 1e-7)) << delta;
  }
}

TEST(Pld, MixturesDoNotDependOnTheirOrderAndAddUp) {
  const NoisedRounds a{.multiplier = 1.1, .sampling = SamplingKind::kPoisson, .rate = 0.02, .count = 300};
  const NoisedRounds b{.multiplier = 2, .sampling = SamplingKind::kPoisson, .rate = 0.1, .count = 100};
  const NoisedRounds c{.multiplier = 8, .count = 4};
  const double all = Epsilon({.rounds = {a, b, c}}, 1e-5);
  EXPECT_NEAR(Epsilon({.rounds = {c, b, a}}, 1e-5), all, 1e-9);
  EXPECT_GT(all, Epsilon({.rounds = {a, b}}, 1e-5));
  EXPECT_GT(all, Epsilon({.rounds = {b, c}}, 1e-5));
  NoisedRounds half = a;
  half.count = 150;
  EXPECT_NEAR(Epsilon({.rounds = {half, b, c, half}}, 1e-5), all, 1e-6);
  EXPECT_LT(all, Epsilon({.rounds = {a, b, c}}, 1e-5, Accountant::kRdp));
}

// A cohort of the share q, replace-one, is at least as well protected as the same without sampling, and its first round
// has the closed form of Balle, Barthe and Gaboardi.
TEST(Pld, FixedCohortHasItsClosedForm) {
  Composition fixed{.relation = Relation::kReplaceOne,
                    .rounds = {{.multiplier = 2, .sampling = SamplingKind::kFixed, .rate = 0.1}}};
  for (const double epsilon : {0.1, 1.0}) {
    const double exact = 0.1 * GaussianDelta(1, std::log1p(std::expm1(epsilon) / 0.1));
    EXPECT_NEAR(Delta(fixed, epsilon) / exact, 1, 1e-3);
    EXPECT_GE(Delta(fixed, epsilon), exact);
  }
  fixed.rounds[0].count = 200;
  const double epsilon = Epsilon(fixed, 1e-5);
  EXPECT_LT(epsilon, Epsilon(fixed, 1e-5, Accountant::kRdp));
  EXPECT_GT(epsilon, Epsilon(Poisson(1, 0.1, 200), 1e-5) * 0.9);
  fixed.rounds[0].rate = 1;
  EXPECT_NEAR(Epsilon(fixed, 1e-5), GaussianEpsilon(std::sqrt(200), 1e-5), 1e-9);
}

TEST(Search, LeastNoiseIsJustEnough) {
  ASSERT_OK_AND_ASSIGN(const double noise, LeastNoise(Poisson(1, 0.01, 1000), 2, 1e-5));
  EXPECT_LE(Epsilon(Poisson(noise, 0.01, 1000), 1e-5), 2);
  EXPECT_GT(Epsilon(Poisson(noise * (1 - 1e-5), 0.01, 1000), 1e-5), 2);
  // Opacus' tests: sigma for epsilon 8.
  ASSERT_OK_AND_ASSIGN(const double opacus, LeastNoise(Poisson(1, 0.04, 2250), 8, 1e-5, Accountant::kRdp));
  EXPECT_NEAR(opacus, 1.416, 1e-3);
  ASSERT_OK_AND_ASSIGN(const double shorter, LeastNoise(Poisson(1, 0.04, 2000), 8, 1e-5, Accountant::kRdp));
  EXPECT_NEAR(shorter, 1.3562, 1e-3);
  ASSERT_OK_AND_ASSIGN(const double central, LeastNoise(Poisson(1, 0.04, 2250), 8, 1e-5, Accountant::kGdp));
  EXPECT_NEAR(central, 1.3232421875, 1e-3);
}

TEST(Search, MostRoundsIsTheLastThatFits) {
  ASSERT_OK_AND_ASSIGN(const int64_t rounds, MostRounds(Poisson(1, 0.01, 1), 2, 1e-5));
  EXPECT_LE(Epsilon(Poisson(1, 0.01, rounds), 1e-5), 2);
  EXPECT_GT(Epsilon(Poisson(1, 0.01, rounds + 1), 1e-5), 2);
  ASSERT_OK_AND_ASSIGN(const int64_t none, MostRounds(Unsampled(0.1, 1), 2, 1e-5));
  EXPECT_EQ(none, 0);
  EXPECT_THAT(MostRounds(Poisson(1, 0, 1), 2, 1e-5),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("nothing limits")));
}

TEST(Refusals, NameTheNumberAndTheRange) {
  using absl::StatusCode;
  EXPECT_THAT(EpsilonOf(Unsampled(1, 1), 0), StatusIs(StatusCode::kInvalidArgument, HasSubstr("delta is 0")));
  EXPECT_THAT(EpsilonOf(Unsampled(1, 1), 1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("delta is 1")));
  EXPECT_THAT(DeltaOf(Unsampled(1, 1), -1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("epsilon is -1")));
  EXPECT_THAT(EpsilonOf(Unsampled(-1, 1), 0.1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("multiplier is -1")));
  EXPECT_THAT(EpsilonOf(Unsampled(NAN, 1), 0.1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("multiplier is nan")));
  EXPECT_THAT(EpsilonOf(Unsampled(1, -1), 0.1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("rounds is -1")));
  EXPECT_THAT(EpsilonOf(Poisson(1, 1.5, 1), 0.1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("rate is 1.5")));
  Composition replaced = Poisson(1, 0.5, 1);
  replaced.relation = Relation::kReplaceOne;
  EXPECT_THAT(EpsilonOf(replaced, 0.1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("fixed cohort")));
  replaced.rounds[0].sampling = SamplingKind::kFixed;
  EXPECT_THAT(EpsilonOf(replaced, 0.1, Accountant::kGdp),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("pld or rdp")));
  replaced.relation = Relation::kAddRemove;
  EXPECT_THAT(EpsilonOf(replaced, 0.1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("replace-one")));
  EXPECT_THAT(EpsilonOf(Poisson(1, 0.5, 1), 0.1, Accountant::kZcdp),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no amplification by sampling")));
  EXPECT_THAT(AccountantNamed("prv"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("pld, rdp, zcdp and gdp")));
  EXPECT_THAT(LeastNoise(Unsampled(1, 1), 0, 0.1), StatusIs(StatusCode::kInvalidArgument, HasSubstr("above 0")));
}

}  // namespace
}  // namespace rivulet::privacy
