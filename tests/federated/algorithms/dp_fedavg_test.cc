// DP-FedAvg: its mean compared with NumPy in double, its limit that is a uniform mean, the influence of one client, and
// the size of its noise.
#include "tests/federated/algorithms/reference/dp_fedavg.inc"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "federated/algorithms/algorithm.h"
#include "federated/mechanisms/mechanism.h"
#include "federated/numbers/number_rule.h"
#include "tests/federated/aggregation_updates.h"
#include "tests/testing/seeded_noise.h"

namespace rivulet {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomUpdates;
using testing::TestUpdate;

std::vector<TestUpdate> ManyUpdates(int count, int64_t elements, float magnitude) {
  return RandomUpdates(count, static_cast<size_t>(elements), magnitude);
}

Scenario PrivateScenario(double clip, double noise_multiplier, int64_t planned) {
  Scenario scenario;
  scenario.run.seed = 42;
  scenario.algorithm.name = "dp_fedavg";
  scenario.algorithm.settings = {{"noise_multiplier", noise_multiplier}, {"noise_source", "seeded"}};
  scenario.privacy.clip = clip;
  scenario.server.clients_per_round = planned;
  return scenario;
}

StatusOr<Composition> ComposeFor(const Scenario& scenario, int64_t elements, Segment segment = Segment::kTrainable) {
  std::vector<VariableSpec> variables = {{"w", {DType::kFloat32, Shape{elements}}}};
  if (segment == Segment::kShared) variables.push_back({"mean", {DType::kFloat32, Shape{2}}, segment});
  return Compose(scenario, *ModelLayout::Create(variables));
}

// What clients of this algorithm send of these updates, folded, and what the server makes of it for a version.
std::vector<float> PrivateMean(const Scenario& scenario, std::vector<TestUpdate> updates, int64_t version = 1) {
  const auto composition = ComposeFor(scenario, std::ssize(updates[0].delta));
  EXPECT_OK(composition);
  auto aggregation = Make(composition->aggregation);
  for (TestUpdate& update : updates) {
    Draws none(StreamFor(0, "", Purpose::kNoise), 0);
    const std::span<float> part = update.delta;
    Scalars declared;
    for (const PieceSpec& piece : composition->mechanisms) {
      const auto mechanism = Mechanism::Create(piece);
      EXPECT_OK(mechanism);
      EXPECT_OK((*mechanism)->Apply({&part, 1}, none, declared));
    }
    update.weight = 1;
    EXPECT_OK(aggregation->Take(update.view(), update.weights()));
  }
  auto input = std::move(*aggregation).FinishUndivided(Staleness());
  EXPECT_OK(input);
  ServerInput::Part& part = input->parts[0];
  const auto noise = testing::SeededNoise(*composition, composition->aggregation, scenario.run.seed);
  if (noise) {
    EXPECT_OK(noise->Add(static_cast<uint64_t>(version), part.undivided->sums()));
  }
  part.Divide();
  return part.mean;
}

std::vector<double> Difference(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> difference;
  for (size_t i = 0; i < a.size(); ++i) difference.push_back(static_cast<double>(a[i]) - b[i]);
  return difference;
}

double Length(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

TEST(DpFedAvg, MeanBeforeItsNoise_IsNumPysInDouble) {
  namespace numpy = dp_fedavg_reference;
  std::vector<TestUpdate> updates;
  for (size_t u = 0; u < numpy::kUpdates; ++u) {
    TestUpdate& update = updates.emplace_back();
    update.task = fmt::format("{}", u);
    for (size_t i = 0; i < numpy::kSize; ++i)
      update.delta.push_back(static_cast<float>(numpy::kDeltas[u * numpy::kSize + i]));
  }
  const std::vector<float> mean = PrivateMean(PrivateScenario(numpy::kClip, 0, numpy::kPlanned), updates);
  double largest = 0;
  for (const double value : numpy::kMean) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < numpy::kSize; ++i) EXPECT_NEAR(mean[i], numpy::kMean[i], 1e-6 * largest) << i;
}

TEST(DpFedAvg, WithoutClipAndNoise_IsTheUniformMeanToTheBit) {
  Scenario uniform;
  uniform.server.weights = "uniform";
  uniform.server.clients_per_round = 13;
  for (const int64_t elements : {1, 257, 5000}) {
    const auto updates = ManyUpdates(13, elements, 0.1f);
    EXPECT_EQ(PrivateMean(PrivateScenario(0, 0, 13), updates), PrivateMean(uniform, updates)) << elements;
  }
}

// However many report, what one of them can do is known beforehand.
TEST(DpFedAvg, FewerReportsThanPlanned_AreDividedByThePlannedNumber) {
  const std::vector<TestUpdate> updates = {{"a", {1, 0}}, {"b", {0, 3}}};
  EXPECT_THAT(PrivateMean(PrivateScenario(0, 0, 8), updates), ::testing::ElementsAre(1 / 8.0f, 3 / 8.0f));
}

TEST(DpFedAvg, OneClientMoreOrLess_MovesTheMeanByClipOverPlannedAtMost) {
  constexpr double kClip = 0.25;
  auto with = ManyUpdates(10, 300, 0.01f);
  std::fill(with[4].delta.begin(), with[4].delta.end(), 1000.0f);
  auto without = with;
  without.erase(without.begin() + 4);
  const Scenario scenario = PrivateScenario(kClip, 0, 10);
  const auto difference = Difference(PrivateMean(scenario, with), PrivateMean(scenario, without));
  EXPECT_NEAR(Length(difference), kClip / 10, 1e-6 * kClip);
  const Scenario free = PrivateScenario(0, 0, 10);
  EXPECT_GT(Length(Difference(PrivateMean(free, with), PrivateMean(free, without))), 1000);
}

// Of 200,000 coordinates the deviation is known to two parts in a thousand.
TEST(DpFedAvg, NoiseMultiplier_IsTheDeviationOverWhatOneClientCanDo) {
  constexpr double kClip = 0.5, kPlanned = 8;
  const auto updates = ManyUpdates(3, 200'000, 0.01f);
  const auto plain = PrivateMean(PrivateScenario(kClip, 0, kPlanned), updates);
  for (const double z : {0.5, 1.0, 4.0}) {
    const auto noise = Difference(PrivateMean(PrivateScenario(kClip, z, kPlanned), updates), plain);
    double sum = 0;
    for (const double value : noise) sum += value;
    const double sigma = z * kClip / kPlanned, count = static_cast<double>(noise.size());
    EXPECT_NEAR(Length(noise) / std::sqrt(count), sigma, 0.008 * sigma) << z;
    EXPECT_NEAR(sum / count, 0, 5 * sigma / std::sqrt(count)) << z;
  }
}

// A version that is made once more, by whoever resumes or replays, is the same; another one has other noise.
TEST(DpFedAvg, NoiseSource_SeededIsOfSeedAndVersionAndElseItIsSecret) {
  const auto updates = ManyUpdates(3, 100, 0.01f);
  Scenario scenario = PrivateScenario(1, 1, 4);
  const auto first = PrivateMean(scenario, updates, 1);
  EXPECT_EQ(PrivateMean(scenario, updates, 1), first);
  EXPECT_NE(PrivateMean(scenario, updates, 2), first);
  Scenario reseeded = scenario;
  reseeded.run.seed = 43;
  EXPECT_NE(PrivateMean(reseeded, updates, 1), first);
  scenario.algorithm.settings.erase("noise_source");  // which is secure, where nobody says otherwise
  ASSERT_OK_AND_ASSIGN(const Composition composition, ComposeFor(scenario, 4));
  EXPECT_FALSE(composition.noise.seeded);
  EXPECT_EQ(composition.noise.multiplier, 1);
  EXPECT_EQ(composition.noise.clip, 1);
  EXPECT_TRUE(composition.mean_mechanisms.empty());
}

// As fine as exact noise takes, whatever server.value_bits allows beyond it.
TEST(DpFedAvg, Resolution_IsWithinTheRangeOfExactNoise) {
  for (const double clip : {1e-3, 1.0, 300.0}) {
    for (const double z : {0.01, 1.0, 50.0}) {
      ASSERT_OK_AND_ASSIGN(const Composition composition, ComposeFor(PrivateScenario(clip, z, 1000), 1'000'000));
      EXPECT_TRUE(testing::SeededNoise(composition, composition.aggregation, 1).has_value()) << clip << " " << z;
    }
  }
}

// Noise of two versions partly cancels in their sum.
TEST(DpFedAvg, Bands_CorrelateTheNoiseOfVersions) {
  const auto updates = ManyUpdates(3, 20'000, 0.001f);
  Scenario scenario = PrivateScenario(1, 1, 4);
  const auto prefix = [&] {
    std::vector<double> sum(20'000);
    const std::vector<float> plain = PrivateMean(PrivateScenario(1, 0, 4), updates);
    for (const int64_t version : {1, 2, 3, 4}) {
      const auto noise = Difference(PrivateMean(scenario, updates, version), plain);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += noise[i];
    }
    return Length(sum);
  };
  const double fresh = prefix();
  scenario.algorithm.settings["bands"] = int64_t{4};
  EXPECT_THAT(ErrorOf(ComposeFor(scenario, 4)), HasSubstr("selection.separation = 4 or more"));
  scenario.selection = {.name = "spaced", .settings = {{"separation", int64_t{4}}}};
  // (1 - x)^(-1/2) of prefix sums: 1, 3/2 - 1/2 …; of four versions together 0.6 of independent noise.
  EXPECT_LT(prefix(), 0.8 * fresh);
  EXPECT_GT(prefix(), 0.4 * fresh);
  ASSERT_OK_AND_ASSIGN(const Composition composition, ComposeFor(scenario, 4));
  EXPECT_LT(composition.noise.claimed, 1) << "one task is in four versions' noise";
  EXPECT_GT(composition.noise.claimed, 0.7);
}

TEST(DpFedAvg, PoissonCohorts_LeaveRoomForMoreThanArePlanned) {
  Scenario scenario = PrivateScenario(1, 1, 100);
  scenario.selection = {.name = "poisson", .settings = {{"rate", 0.1}}};
  ASSERT_OK_AND_ASSIGN(const Composition composition, ComposeFor(scenario, 4));
  EXPECT_EQ(composition.aggregation.updates_per_version, 250);
  EXPECT_EQ(composition.aggregation.parts[0].denominator.constant, 100);
  EXPECT_TRUE(testing::SeededNoise(composition, composition.aggregation, 1).has_value());
}

Scenario DistributedScenario(double clip, double noise_multiplier, int64_t planned, int64_t honest) {
  Scenario scenario = PrivateScenario(clip, noise_multiplier, planned);
  scenario.algorithm.settings["noise"] = std::string("distributed");
  scenario.secure = {.protocol = "arithmetic", .min_survivors = honest, .min_cohort = honest};
  return scenario;
}

// What a client sends of an update: whole numbers of units, as the words of a secure sum are.
std::vector<float> SentNoised(const Composition& composition, std::vector<float> update, uint32_t client) {
  const std::span<float> part = update;
  Scalars declared;
  for (const PieceSpec& piece : composition.mechanisms) {
    const auto mechanism = Mechanism::Create(piece);
    EXPECT_OK(mechanism);
    Draws draws(StreamFor(client, "", Purpose::kNoise), 0);
    EXPECT_OK((*mechanism)->Apply({&part, 1}, draws, declared));
  }
  for (const float value : update) {
    const double units = std::ldexp(static_cast<double>(value), composition.noise.fraction_bits);
    if (units == std::trunc(units) && std::abs(units) < 0x1p24) continue;
    ADD_FAILURE() << value << " is no whole number of units";
    break;
  }
  return update;
}

// Ten clients send the same; five of them are the smallest sum, and have all of the promised noise.
TEST(DpFedAvg, DistributedNoise_OfTheSmallestSumIsWhatIsPromised) {
  constexpr size_t kElements = 100'000;
  constexpr double kClip = 0.5;
  constexpr uint32_t kHonest = 5;
  for (const double z : {0.7, 3.0}) {
    for (const int64_t bits : {64, 32}) {
      Scenario scenario = DistributedScenario(kClip, z, 10, kHonest);
      scenario.server.sum_bits = bits;
      ASSERT_OK_AND_ASSIGN(const Composition composition, ComposeFor(scenario, kElements));
      EXPECT_EQ(composition.noise.contributors, kHonest);
      const PartSpec& part = composition.aggregation.parts[0];
      EXPECT_GE(composition.aggregation.fraction_bits(part), composition.noise.fraction_bits) << "words hold the units";
      EXPECT_GE(std::ldexp(1.0, part.value_bits), kClip + 12 * z * kClip / std::sqrt(kHonest)) << "room for tails";
      std::vector<double> sum(kElements);
      for (uint32_t client = 0; client < kHonest; ++client) {
        const std::vector<float> sent = SentNoised(composition, std::vector<float>(kElements, 1e-4f), client);
        for (size_t i = 0; i < kElements; ++i) sum[i] += static_cast<double>(sent[i]) - 1e-4;
      }
      EXPECT_NEAR(Length(sum) / std::sqrt(kElements), z * kClip, 0.01 * z * kClip) << z << " " << bits;
    }
  }
  ASSERT_OK_AND_ASSIGN(const Composition composition, ComposeFor(DistributedScenario(1, 1, 10, 5), 64));
  EXPECT_EQ(SentNoised(composition, std::vector<float>(64), 3), SentNoised(composition, std::vector<float>(64), 3));
  EXPECT_NE(SentNoised(composition, std::vector<float>(64), 3), SentNoised(composition, std::vector<float>(64), 4));
}

TEST(DpFedAvg, NoiseOfClientsThatNobodyWouldSum_IsRefusedByItsKey) {
  Scenario plain = DistributedScenario(1, 1, 10, 5);
  plain.secure = {};
  EXPECT_THAT(ErrorOf(ComposeFor(plain, 4)), HasSubstr("noise = \"distributed\": the coordinator would see single"));
  Scenario noisy = DistributedScenario(1, 1, 10, 5);
  noisy.privacy.noise = 1;
  EXPECT_THAT(ErrorOf(ComposeFor(noisy, 4)), HasSubstr("privacy.noise adds other noise"));
  Scenario banded = DistributedScenario(1, 1, 10, 5);
  banded.algorithm.settings["bands"] = int64_t{2};
  banded.selection = {.name = "spaced", .settings = {{"separation", int64_t{2}}}};
  EXPECT_THAT(ErrorOf(ComposeFor(banded, 4)), HasSubstr("clients cannot correlate"));
  EXPECT_THAT(ErrorOf(ComposeFor(DistributedScenario(1e12, 1, 10, 5), 4)), HasSubstr("change privacy.clip"));
  EXPECT_THAT(ErrorOf(ComposeFor(DistributedScenario(1, 1e-9, 10, 5), 4)), HasSubstr("units at least"));
  const auto mechanism = Mechanism::Create({"discrete_gaussian", {{"fraction_bits", 20.0}, {"parameter", 100.0}}});
  ASSERT_OK(mechanism);
  EXPECT_FALSE((*mechanism)->repeatable());
  std::vector<float> values = {17};
  const std::span<float> part = values;
  Draws draws(StreamFor(0, "", Purpose::kNoise), 0);
  Scalars declared;
  EXPECT_THAT(Message((*mechanism)->Apply({&part, 1}, draws, declared)), HasSubstr("no room in 24 bits"));
}

Scenario LocalDpScenario(double clip, double noise_multiplier) {
  Scenario scenario = PrivateScenario(clip, noise_multiplier, 10);
  scenario.algorithm.settings["noise"] = std::string("local");
  return scenario;
}

// What one client sends of `update`, with the noise of `client`.
std::vector<double> SentLocally(const Composition& composition, std::vector<float> update, uint32_t client) {
  EXPECT_EQ(composition.mechanisms.size(), 1u) << "it bounds the update and adds the noise";
  const auto mechanism = Mechanism::Create(composition.mechanisms.at(0));
  EXPECT_OK(mechanism);
  const std::span<float> part = update;
  Draws draws(StreamFor(client, "", Purpose::kNoise), 0);
  Scalars declared;
  EXPECT_OK((*mechanism)->Apply({&part, 1}, draws, declared));
  EXPECT_THAT(declared, ::testing::IsEmpty());
  return {update.begin(), update.end()};
}

// The mean magnitude of a Laplace law is its scale. Every value is whole in units, and whatever an update is, the
// difference of two with the same noise is at most twice the clip in the L1 norm.
TEST(DpFedAvg, LocalNoise_IsLaplaceOfTheMultiplierTimesTheClip) {
  constexpr size_t kElements = 100'000;
  for (const double z : {0.05, 1.0, 20.0}) {
    SCOPED_TRACE(z);
    ASSERT_OK_AND_ASSIGN(const Composition composition, ComposeFor(LocalDpScenario(3, z), kElements));
    const CentralNoise& noise = composition.noise;
    EXPECT_GE(static_cast<double>(noise.laplace_scale) / static_cast<double>(noise.clip_units), z);
    const std::vector<double> nothing = SentLocally(composition, std::vector<float>(kElements), 7);
    const double magnitudes = std::accumulate(nothing.begin(), nothing.end(), 0.0,
                                              [](double sum, double value) { return sum + std::abs(value); });
    EXPECT_NEAR(magnitudes / kElements, 3 * z, 0.02 * 3 * z);
    for (const float value : {1e-4f, 1e-5f, -50.0f, std::numeric_limits<float>::infinity(), NAN}) {
      const std::vector<double> sent = SentLocally(composition, std::vector<float>(kElements, value), 7);
      double difference = 0;
      for (size_t i = 0; i < kElements; ++i) {
        const double units = std::ldexp(sent[i], noise.fraction_bits);
        ASSERT_EQ(units, std::trunc(units));
        ASSERT_LE(std::abs(sent[i]), std::ldexp(1.0, composition.aggregation.parts[0].value_bits));
        difference += std::abs(sent[i] - nothing[i]);
      }
      EXPECT_LE(difference, std::ldexp(static_cast<double>(noise.clip_units), -noise.fraction_bits)) << value;
      if (!std::isfinite(value)) {
        EXPECT_EQ(difference, 0) << "it counts as zeros";
      }
    }
    EXPECT_NE(SentLocally(composition, std::vector<float>(kElements), 8), nothing);
  }
}

// All of the clip is used where the values are few and whole.
TEST(DpFedAvg, LocalNoise_ScalesAnUpdateToTheClip) {
  ASSERT_OK_AND_ASSIGN(const Composition composition, ComposeFor(LocalDpScenario(2, 1), 4));
  const std::vector<double> nothing = SentLocally(composition, {0, 0, 0, 0}, 1);
  const std::vector<double> sent = SentLocally(composition, {6, -2, 0, 0}, 1);
  EXPECT_NEAR(sent[0] - nothing[0], 1.5, 1e-3);
  EXPECT_NEAR(sent[1] - nothing[1], -0.5, 1e-3);
  EXPECT_EQ(sent[2], nothing[2]);
  const std::vector<double> within = SentLocally(composition, {0.5, -0.25, 0, 0}, 1);
  EXPECT_NEAR(within[0] - nothing[0], 0.5, 1e-3);
}

TEST(DpFedAvg, LocalNoise_LeavesNoLoss_AndIsClaimedAsGaussian) {
  Scenario scenario = LocalDpScenario(1, 2);
  scenario.algorithm.settings["noise_source"] = std::string("secure");
  ASSERT_OK_AND_ASSIGN(const Composition composition, ComposeFor(scenario, 4));
  for (const PassBuilder& pass : composition.passes) EXPECT_EQ(pass.reports, "");
  // epsilon = 1: mu = -2 probit(1 / (1 + e)), and the claim doubles for one exchanged client.
  EXPECT_NEAR(composition.noise.claimed, 2 / 1.2320354, 1e-3);
}

TEST(DpFedAvg, WhatLocalNoiseCannotBeCombinedWith_IsRefusedByItsKey) {
  const auto refusal = [](const std::function<void(Scenario&)>& change) {
    Scenario scenario = LocalDpScenario(1, 1);
    change(scenario);
    return ErrorOf(ComposeFor(scenario, 4));
  };
  EXPECT_EQ(refusal([](Scenario&) {}), "no error");
  EXPECT_THAT(refusal([](Scenario& s) {
                s.algorithm.settings["clip_quantile"] = 0.5;
                s.algorithm.settings["clip_count_stddev"] = 10.0;
              }),
              HasSubstr("set clip_quantile = 0"));
  EXPECT_THAT(refusal([](Scenario& s) {
                s.algorithm.settings["bands"] = int64_t{2};
                s.selection = {.name = "spaced", .settings = {{"separation", int64_t{2}}}};
              }),
              HasSubstr("set bands = 1"));
  EXPECT_THAT(refusal([](Scenario& s) { s.secure.protocol = "arithmetic"; }),
              HasSubstr("set privacy.secure = \"none\""));
  EXPECT_THAT(refusal([](Scenario& s) { s.privacy.noise = 1; }), HasSubstr("privacy.noise adds other noise"));
  EXPECT_THAT(refusal([](Scenario& s) { s.evaluation.federated_every = 1; }),
              HasSubstr("set evaluation.federated_every to 0"));
  EXPECT_THAT(refusal([](Scenario& s) { s.algorithm.settings["noise_multiplier"] = 0.001; }),
              HasSubstr("epsilon 2000, which is no protection"));
  EXPECT_THAT(refusal([](Scenario& s) { s.algorithm.settings["noise_multiplier"] = 1e5; }),
              HasSubstr("lower noise_multiplier"));
  EXPECT_THAT(refusal([](Scenario& s) { s.privacy.clip = 1e12; }), HasSubstr("change privacy.clip"));
  EXPECT_THAT(refusal([](Scenario& s) { s.update.codec = "bf16"; }), HasSubstr("update.codec = \"bf16\""));
}

Scenario AdaptiveScenario(double quantile, double noise_multiplier, int64_t planned) {
  Scenario scenario = PrivateScenario(2, noise_multiplier, planned);
  scenario.algorithm.settings["clip_quantile"] = quantile;
  return scenario;
}

// Of an update (3, 4) under a task's clip: the norm of the sent values, and the declared value.
std::pair<double, double> SentWithClip(double clip) {
  const auto mechanism = Mechanism::Create({"adaptive_clip"});
  EXPECT_OK(mechanism);
  std::vector<float> values = {3, 4};
  const std::span<float> part = values;
  Draws none(StreamFor(0, "", Purpose::kNoise), 0);
  Scalars declared = {{"clip", clip}};
  EXPECT_OK((*mechanism)->Apply({&part, 1}, none, declared));
  EXPECT_FLOAT_EQ(values[0] / values[1], 0.75f);
  return {std::hypot(values[0], values[1]), declared.at("unclipped")};
}

TEST(DpFedAvg, AdaptiveClip_SendsMultiplesOfTheClipAndSaysWhoWasBelow) {
  EXPECT_THAT(SentWithClip(10), ::testing::Pair(::testing::DoubleNear(0.5, 1e-6), 1));
  EXPECT_THAT(SentWithClip(5), ::testing::Pair(::testing::DoubleNear(1, 1e-6), 1));
  EXPECT_THAT(SentWithClip(4), ::testing::Pair(::testing::DoubleNear(1, 1e-6), -1));
  const auto mechanism = Mechanism::Create({"adaptive_clip"});
  ASSERT_OK(mechanism);
  Draws none(StreamFor(0, "", Purpose::kNoise), 0);
  Scalars declared;
  EXPECT_THAT(Message((*mechanism)->Apply({}, none, declared)), HasSubstr("no number \"clip\" above 0"));
}

// Of a thousand clients that were clipped, each with its share of noise in its answer: their sum has the deviation that
// updates pay for, in whole units.
TEST(DpFedAvg, AdaptiveClip_WithNoiseOfClients_HasItInTheCountToo) {
  Scenario scenario = DistributedScenario(2, 1, 1000, 1000);
  scenario.algorithm.settings["clip_quantile"] = 0.5;
  scenario.algorithm.settings["clip_count_stddev"] = 20.0;
  ASSERT_OK_AND_ASSIGN(const Composition composition, ComposeFor(scenario, 4));
  const CentralNoise& noise = composition.noise;
  ASSERT_GT(noise.count_units, 0);
  const auto units = static_cast<double>(noise.count_units);
  const double of_one = noise.each / units, of_all = of_one * std::sqrt(1000.0);
  EXPECT_GE(of_all, 2 * 20 * (1 - 1e-6));
  EXPECT_LE(of_all, 4 * 20);
  const auto mechanism = Mechanism::Create(composition.mechanisms.back());
  ASSERT_OK(mechanism);
  double squares = 0;
  for (uint32_t client = 0; client < 1000; ++client) {
    Scalars declared = {{kUnclipped, -1}};
    Draws draws(StreamFor(client, "", Purpose::kNoise), 0);
    ASSERT_OK((*mechanism)->Apply({}, draws, declared));
    const double added = (declared.at(kUnclipped) + 1) * units;
    ASSERT_EQ(added, std::trunc(added)) << "in whole units";
    squares += added / units * added / units;
  }
  EXPECT_NEAR(std::sqrt(squares / 1000), of_one, 0.1 * of_one);
  Scalars nothing;
  Draws draws(StreamFor(0, "", Purpose::kNoise), 0);
  EXPECT_THAT(Message((*mechanism)->Apply({}, draws, nothing)), HasSubstr("does not say whether it was clipped"));
}

// Norms 0.01 to 10, of which the rule is told how many were at most the clip.
double ClipAfter(const Scenario& scenario, int rounds) {
  const auto composition = ComposeFor(scenario, 4);
  EXPECT_OK(composition);
  const auto rule = NumberRule::For(composition->numbers, composition->number_rule);
  EXPECT_OK(rule);
  ServerNumbers numbers = (*rule)->First();
  EXPECT_EQ((*rule)->UnitOf(numbers), 2) << "privacy.clip is the first";
  for (int round = 0; round < rounds; ++round) {
    double count = 0;
    for (int client = 1; client <= 1000; ++client) count += client * 0.01 <= *(*rule)->UnitOf(numbers) ? 1 : -1;
    numbers = (*rule)->Next(numbers, {}, {{kUnclipped, count}});
  }
  EXPECT_EQ((*rule)->Of(numbers, "anybody").at("clip"), *(*rule)->UnitOf(numbers));
  return *(*rule)->UnitOf(numbers);
}

TEST(DpFedAvg, ClipQuantileAndLearningRate_SayWhereTheClipGoesAndHowFast) {
  Scenario scenario = AdaptiveScenario(0.8, 0, 1000);
  EXPECT_NEAR(ClipAfter(scenario, 300), 8, 0.2);
  const double slow = ClipAfter(scenario, 1);
  EXPECT_NEAR(slow, 2 * std::exp(-0.2 * (0.2 - 0.8)), 1e-12);
  scenario.algorithm.settings["clip_learning_rate"] = 1.0;
  EXPECT_NEAR(ClipAfter(scenario, 1), 2 * std::exp(-1.0 * (0.2 - 0.8)), 1e-12);
  scenario.algorithm.settings["clip_quantile"] = 0.1;
  EXPECT_NEAR(ClipAfter(scenario, 300), 1, 0.1);
}

// Updates' noise of the paper's z_delta beside a count of sigma_b = 4: both together have noise_multiplier.
TEST(DpFedAvg, ClipCountStddev_IsPaidForByTheUpdates) {
  Scenario scenario = AdaptiveScenario(0.5, 2, 100);
  const auto noise = [&] {
    const auto composition = ComposeFor(scenario, 64);
    EXPECT_OK(composition);
    EXPECT_EQ(composition->noise.clip, 1) << "of what is sent";
    return *testing::SeededNoise(*composition, composition->aggregation, 1);
  };
  const privacy::SumNoise usual = noise();  // 100 / 20
  EXPECT_NEAR(usual.multiplier(), 2, 1e-8);
  EXPECT_EQ(usual.dimension(), 65);
  scenario.algorithm.settings["clip_count_stddev"] = 1.5;
  const privacy::SumNoise coarse = noise();
  EXPECT_NEAR(coarse.multiplier(), 2, 1e-8);
  EXPECT_NEAR(coarse.deviation() / usual.deviation(), std::sqrt((1.0 / 4 - 1.0 / 100) / (1.0 / 4 - 1.0 / 9)), 1e-4);
  ASSERT_OK_AND_ASSIGN(const Composition composition, ComposeFor(scenario, 64));
  const double unit = std::ldexp(1.0, -composition.aggregation.fraction_bits(composition.aggregation.parts[0]));
  EXPECT_NEAR(coarse.deviation() * unit, 1 / std::sqrt(1.0 / 4 - 1.0 / 9), 1e-4);
  scenario.algorithm.settings["clip_count_stddev"] = 1.0;
  EXPECT_THAT(ErrorOf(ComposeFor(scenario, 64)), HasSubstr("set clip_count_stddev above 1, or raise"));
}

TEST(DpFedAvg, WhatAdaptiveClippingCannotBeCombinedWith_IsRefusedByItsKey) {
  const auto refusal = [](const std::function<void(Scenario&)>& change, Segment segment = Segment::kTrainable) {
    Scenario scenario = AdaptiveScenario(0.5, 1, 100);
    change(scenario);
    return ErrorOf(ComposeFor(scenario, 4, segment));
  };
  EXPECT_THAT(refusal([](Scenario& s) { s.privacy.clip = 0; }), HasSubstr("privacy.clip = 0: the clip starts at"));
  EXPECT_THAT(refusal([](Scenario& s) { s.algorithm.settings["bands"] = int64_t{4}; }),
              HasSubstr("bands: correlated noise needs one clip"));
  EXPECT_THAT(refusal([](Scenario& s) { s.privacy.noise = 1; }), HasSubstr("privacy.noise: clients' noise"));
  EXPECT_THAT(refusal([](Scenario& s) { s.server.base = "latest"; }), HasSubstr("need one clip"));
  EXPECT_THAT(refusal([](Scenario& s) { s.update.codec = "bf16"; }), HasSubstr("update.codec = \"bf16\""));
  EXPECT_THAT(refusal([](Scenario&) {}, Segment::kShared), HasSubstr("running statistics"));
  EXPECT_EQ(refusal([](Scenario&) {}), "no error");
}

TEST(DpFedAvg, WhatWouldMakeTheNoiseALie_IsRefusedByItsKey) {
  EXPECT_THAT(ErrorOf(ComposeFor(PrivateScenario(0, 1, 4), 4)),
              HasSubstr("adds noise as a multiple of privacy.clip, which is 0; set it to the largest norm"));
  Scenario rounded = PrivateScenario(1, 1, 4);
  rounded.update.codec = "bf16";
  EXPECT_THAT(ErrorOf(ComposeFor(rounded, 4)), HasSubstr("with update.codec = \"bf16\": a decoded update"));
  Scenario asynchronous = PrivateScenario(1, 1, 4);
  asynchronous.server.base = "latest";
  EXPECT_THAT(ErrorOf(ComposeFor(asynchronous, 4)), HasSubstr("a client may be in a version twice"));
  EXPECT_THAT(ErrorOf(ComposeFor(PrivateScenario(1, 1, 4), 4, Segment::kShared)),
              HasSubstr("would add noise to the running statistics of the model"));
  EXPECT_OK(ComposeFor(PrivateScenario(1, 0, 4), 4, Segment::kShared));
}

}  // namespace
}  // namespace rivulet
