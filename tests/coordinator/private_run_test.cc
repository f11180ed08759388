// Private runs: the noise key and its recording, the spend in the rows, and the budget that ends a run. A version that
// is repeated after a kill is the same and counts once.
#include <sys/stat.h>

#include <filesystem>

#include "federated/population/population.h"
#include "federated/privacy/sum_noise.h"
#include "killed_run.h"
#include "test_run.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kPrivateClients = 4, kPrivateCohort = 2;

// Sums of one part, weighed alike, in units of 2^-36.
RunParts PrivateParts(bool seeded) {
  RunParts parts = TinyParts(3, kPrivateCohort);
  parts.aggregation.parts[0].weigh = "one";
  parts.aggregation.parts[0].value_bits = 25;
  parts.aggregation.parts[0].denominator = {.kind = Denominator::Kind::kConstant, .constant = kPrivateCohort};
  parts.noise = {.multiplier = 2, .clip = 1, .seeded = seeded};
  return parts;
}

CoordinatorOptions PrivateOptions(const std::string& db, int64_t rounds, double epsilon = 0) {
  CoordinatorOptions options;
  options.scenario = TinyScenario(kPrivateClients, kPrivateCohort, rounds);
  options.scenario.run.keep_models = "all";
  options.scenario.privacy.clip = 1;
  options.scenario.privacy.epsilon = epsilon;
  options.db_path = db;
  return options;
}

struct Stored {
  RunRow run;
  std::vector<RoundRow> rounds;
  std::string folder;
};
Stored ReadStored(const std::string& db) {
  const auto history = History::Open(db, History::Access::kReadOnly);
  EXPECT_OK(history);
  Stored stored;
  stored.run = Value((*history)->ResolveRun("latest"));
  stored.rounds = Value((*history)->Rounds(stored.run.run_id));
  stored.folder = db + ".models/" + stored.run.run_id;
  return stored;
}

double EpsilonAfter(int64_t attempts, double multiplier) {
  const auto spend = privacy::EpsilonOf(
      {.relation = privacy::Relation::kReplaceOne, .rounds = {{.multiplier = multiplier, .count = attempts}}}, 1e-5);
  EXPECT_OK(spend);
  return spend->value;
}

TEST(PrivateRun, EachRow_HasWhatWasSpentUpToIt) {
  TestFolder folder;
  ASSERT_OK(RunTiny(PrivateOptions(folder.db(), 3), PrivateParts(false), kPrivateClients));
  const Stored stored = ReadStored(folder.db());
  ASSERT_THAT(stored.rounds, SizeIs(3));
  for (const RoundRow& round : stored.rounds) {
    ASSERT_TRUE(round.epsilon && round.participant_epsilon && round.noise_multiplier);
    EXPECT_NEAR(*round.noise_multiplier, 2, 1e-8);
    EXPECT_EQ(round.sampling_rate, 1.0);
    EXPECT_EQ(round.delta, 1e-5);
    const double expected = EpsilonAfter(round.round, 2);
    EXPECT_NEAR(*round.epsilon, expected, 1e-4 * expected);
    EXPECT_GE(*round.epsilon, expected * (1 - 1e-7));
    EXPECT_EQ(round.epsilon, round.participant_epsilon) << "nothing is claimed of sampling";
  }
}

TEST(PrivateRun, NoiseKey_IsItsOwnersAloneAndEachRunHasAnother) {
  TestFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto first, RunTiny(PrivateOptions(folder.db(), 2), PrivateParts(false), kPrivateClients));
  const std::string path = ReadStored(folder.db()).folder + "/noise.key";
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  TestFolder other;
  ASSERT_OK_AND_ASSIGN(const auto second, RunTiny(PrivateOptions(other.db(), 2), PrivateParts(false), kPrivateClients));
  EXPECT_NE(first, second);
  TestFolder seeded, again;
  ASSERT_OK_AND_ASSIGN(const auto third, RunTiny(PrivateOptions(seeded.db(), 2), PrivateParts(true), kPrivateClients));
  EXPECT_EQ(Value(RunTiny(PrivateOptions(again.db(), 2), PrivateParts(true), kPrivateClients)), third);
  EXPECT_FALSE(std::filesystem::exists(ReadStored(seeded.db()).folder + "/noise.key"));
}

TEST(PrivateRun, Budget_EndsTheRunBeforeTheRoundThatWouldExceedIt) {
  TestFolder folder;
  const double three = EpsilonAfter(3, 2), four = EpsilonAfter(4, 2);
  CoordinatorOptions options = PrivateOptions(folder.db(), 10, (three + four) / 2);
  ASSERT_OK(RunTiny(options, PrivateParts(false), kPrivateClients));
  Stored stored = ReadStored(folder.db());
  EXPECT_THAT(stored.rounds, SizeIs(3));
  EXPECT_EQ(stored.run.status, "finished");
  EXPECT_LE(*stored.rounds.back().epsilon, options.scenario.privacy.epsilon);
  // Resumed it has finished, and with more budget it goes further.
  options.resume = "latest";
  ASSERT_OK(RunTiny(options, PrivateParts(false), kPrivateClients));
  EXPECT_THAT(ReadStored(folder.db()).rounds, SizeIs(3));
  // With less it is over: what was spent stays spent.
  const std::optional<double> spent = stored.rounds.back().epsilon;
  options.scenario.privacy.epsilon = EpsilonAfter(1, 2) * 1.01;
  ASSERT_OK(RunTiny(options, PrivateParts(false), kPrivateClients));
  EXPECT_THAT(ReadStored(folder.db()).rounds, SizeIs(3));
  EXPECT_EQ(ReadStored(folder.db()).rounds.back().epsilon, spent);
  options.scenario.privacy.epsilon = EpsilonAfter(5, 2) * 1.01;
  ASSERT_OK(RunTiny(options, PrivateParts(false), kPrivateClients));
  stored = ReadStored(folder.db());
  EXPECT_THAT(stored.rounds, SizeIs(5));
  EXPECT_LE(*stored.rounds.back().epsilon, options.scenario.privacy.epsilon);
}

TEST(PrivateRun, WhatCannotKeepItsBudget_IsNotBegun) {
  TestFolder folder;
  EXPECT_THAT(RunTiny(PrivateOptions(folder.db(), 10, 0.01), PrivateParts(false), kPrivateClients).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not one round fits into the budget")));
  RunParts plain = PrivateParts(false);
  plain.noise = {};
  EXPECT_THAT(RunTiny(PrivateOptions(folder.db(), 10, 1), plain, kPrivateClients).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("adds none; take \"dp_fedavg\"")));
  CoordinatorOptions options = PrivateOptions(folder.db(), 10);
  options.scenario.selection.name = "oort";
  EXPECT_THAT(RunTiny(options, PrivateParts(false), kPrivateClients).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("draws clients by their data")));
  EXPECT_FALSE(std::filesystem::exists(folder.db() + ".models")) << "nothing was written";
}

TEST(PrivateRun, WithoutItsKey_IsNotResumed) {
  TestFolder folder;
  CoordinatorOptions options = PrivateOptions(folder.db(), 2);
  ASSERT_OK(RunTiny(options, PrivateParts(false), kPrivateClients));
  const std::string path = ReadStored(folder.db()).folder + "/noise.key";
  std::filesystem::remove(path);
  options.resume = "latest";
  options.scenario.run.rounds = 3;
  EXPECT_THAT(RunTiny(options, PrivateParts(false), kPrivateClients).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no noise key")));
}

// Its file is gone, and other updates under the same noise would show their difference.
TEST(PrivateRun, VersionThatWasReleased_IsNotMadeAgain) {
  TestFolder folder;
  CoordinatorOptions options = PrivateOptions(folder.db(), 2);
  ASSERT_OK(RunTiny(options, PrivateParts(false), kPrivateClients));
  std::filesystem::remove(ReadStored(folder.db()).folder + "/round-000002.safetensors");
  options.resume = "latest";
  options.scenario.run.rounds = 3;
  EXPECT_THAT(RunTiny(options, PrivateParts(false), kPrivateClients).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("would reveal their difference")));
}

// A version's file without the digest of its record, which has the time at which it was made.
std::string WithoutRecord(std::string bytes) {
  const size_t at = bytes.find("\"rivulet.record\":\"");
  return at == bytes.npos ? bytes : bytes.replace(at + 18, 64, 64, '0');
}

// At each durable operation. A version whose file is there and whose row is not was ready and seen by nobody; it comes
// out again to the bit. No schedule spends more than the budget, and each attempt counts once.
TEST(PrivateRun, KilledAnywhere_SameDigestsOneSpendAndNeverAboveTheBudget) {
  const double budget = (EpsilonAfter(3, 2) + EpsilonAfter(4, 2)) / 2;
  int points = 0, ready = 0;
  for (int victim = 1;; ++victim) {
    SCOPED_TRACE(fmt::format("killed at operation {}", victim));
    TestFolder folder;
    ASSERT_OK((*History::Open(folder.db(), History::Access::kReadWrite))->Close());
    CoordinatorOptions options = PrivateOptions(folder.db(), 10, budget);
    if (testing::EndsBefore(victim, options, [&](const CoordinatorOptions& doomed) {
          return RunTiny(doomed, PrivateParts(false), kPrivateClients);
        }))
      break;
    ++points;
    std::map<std::string, std::string> before;  // files of versions, whole
    {
      auto history = History::Open(folder.db(), History::Access::kReadOnly);
      ASSERT_OK(history);
      if ((*history)->ResolveRun("latest").ok()) {
        options.resume = "latest";
        const RunRow run = Value((*history)->ResolveRun("latest"));
        const std::vector<ModelRow> models = Value((*history)->Models(run.run_id));
        for (const auto& entry : std::filesystem::directory_iterator(folder.db() + ".models/" + run.run_id)) {
          const std::string name = entry.path().filename().string();
          if (!name.ends_with(".safetensors") || !name.starts_with("round-")) continue;
          before[entry.path().string()] = Value(FileSystem::Default().ReadAll(entry.path().string()));
        }
        ready += before.size() > models.size();
      }
    }
    ASSERT_OK(RunTiny(options, PrivateParts(false), kPrivateClients));
    const Stored stored = ReadStored(folder.db());
    EXPECT_EQ(stored.run.status, "finished");
    ASSERT_THAT(stored.rounds, SizeIs(3));
    for (const RoundRow& round : stored.rounds) {
      EXPECT_EQ(round.attempt, 1);
      EXPECT_NEAR(*round.epsilon, EpsilonAfter(round.round, 2), 1e-3);
      EXPECT_LE(*round.epsilon, budget);
    }
    for (const auto& [path, bytes] : before) {
      EXPECT_EQ(WithoutRecord(Value(FileSystem::Default().ReadAll(path))), WithoutRecord(bytes)) << path;
    }
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(points, 30);
  EXPECT_GT(ready, 2);
}

// Its release is the noise over the planned number of updates, and it spends as much as any other. Of four clients at
// this rate more than half of the samples have nobody.
TEST(PrivateRun, SampleOfNobody_ReleasesNoiseAloneAndCounts) {
  TestFolder folder;
  CoordinatorOptions options = PrivateOptions(folder.db(), 12);
  options.scenario.selection = {.name = "poisson", .settings = {{"rate", 0.1}}};
  RunParts parts = PrivateParts(true);
  parts.aggregation.updates_per_version = 16;
  parts.aggregation.parts[0].value_bits = 22;
  ASSERT_OK_AND_ASSIGN(const auto whole, RunTiny(options, parts, kPrivateClients));
  const Stored stored = ReadStored(folder.db());
  ASSERT_THAT(stored.rounds, SizeIs(12));
  int empty = 0;
  for (const RoundRow& round : stored.rounds) {
    EXPECT_EQ(round.status, "committed");
    EXPECT_EQ(round.sampling_rate, 0.1);
    const auto spent = privacy::EpsilonOf(
        {.rounds = {{.multiplier = 2, .sampling = privacy::SamplingKind::kPoisson, .rate = 0.1, .count = round.round}}},
        1e-5);
    ASSERT_OK(spent);
    EXPECT_NEAR(*round.epsilon, spent->value, 5e-3 * spent->value);
    if (round.selected > 0) continue;
    ++empty;
    const auto model = [&](int64_t version) {
      const std::string path = fmt::format("{}/round-{:06}.safetensors", stored.folder, version);
      return Value(ModelFromSafetensors(parts.layout, Value(FileSystem::Default().ReadAll(path))));
    };
    const auto before = model(round.round - 1), after = model(round.round);
    const int bits = parts.aggregation.fraction_bits(parts.aggregation.parts[0]);
    const auto noise = privacy::SumNoise::Create(
        std::make_shared<const privacy::NoiseKey>(privacy::SeededKey(options.scenario.run.seed)), 2, {1, 3, bits});
    ASSERT_OK(noise);
    std::vector<int64_t> sums(3);
    ASSERT_OK(noise->Add(static_cast<uint64_t>(round.round), sums));
    for (int64_t i = 0; i < 3; ++i) {
      const auto mean = static_cast<float>(std::ldexp(static_cast<double>(sums[i]), -bits) / kPrivateCohort);
      const auto* const old = reinterpret_cast<const float*>(before->arena().data());
      const auto* const now = reinterpret_cast<const float*>(after->arena().data());
      EXPECT_NEAR(now[i] - old[i], mean, 1e-5) << round.round;
    }
  }
  EXPECT_GT(empty, 3);
  EXPECT_LT(empty, 12);
  // In two processes it comes out the same.
  TestFolder parted;
  options.db_path = parted.db();
  options.scenario.run.rounds = 5;
  ASSERT_OK(RunTiny(options, parts, kPrivateClients));
  options.resume = "latest";
  options.scenario.run.rounds = 12;
  EXPECT_EQ(Value(RunTiny(options, parts, kPrivateClients)), whole);
}

TEST(PrivateRun, SampleOfNobody_EndsARunThatAsksForUpdates) {
  TestFolder folder;
  CoordinatorOptions options = PrivateOptions(folder.db(), 12);
  options.scenario.selection = {.name = "poisson", .settings = {{"rate", 0.1}}};
  options.scenario.server.min_reports = 1;
  options.enforce_deadline = false;
  options.population = NumberedPopulation(kPrivateClients);
  RunParts parts = PrivateParts(true);
  parts.aggregation.updates_per_version = 16;
  parts.aggregation.parts[0].value_bits = 22;
  EXPECT_THAT(Message(RunTiny(options, parts, kPrivateClients).status()),
              HasSubstr("draws 0 clients at selection.rate"));
}

TEST(PrivateRun, SpacedClients_AreChargedForTheVersionsThatOneCanBeIn) {
  RunParts parts = PrivateParts(false);
  parts.noise.separation = 2;
  TestFolder folder;
  CoordinatorOptions options = PrivateOptions(folder.db(), 4);
  options.scenario.selection = {.name = "spaced", .settings = {{"separation", int64_t{2}}}};
  ASSERT_OK(RunTiny(options, parts, kPrivateClients));
  for (const RoundRow& round : ReadStored(folder.db()).rounds) {
    EXPECT_NEAR(*round.epsilon, EpsilonAfter((round.round + 1) / 2, 2), 1e-3) << round.round;
  }
}

// DP-FTRL: all versions are one release, and a client that comes back late costs less than one round each.
TEST(PrivateRun, CorrelatedNoise_IsAccountedForAsAWholeAndSurvivesARestart) {
  RunParts parts = PrivateParts(true);
  parts.aggregation.parts[0].value_bits = 30;
  parts.noise.multiplier = 1.5;
  parts.noise.bands = 2;
  parts.noise.separation = 2;
  TestFolder folder, parted;
  CoordinatorOptions options = PrivateOptions(folder.db(), 4);
  options.scenario.selection = {.name = "spaced", .settings = {{"separation", int64_t{2}}}};
  ASSERT_OK_AND_ASSIGN(const auto whole, RunTiny(options, parts, kPrivateClients));
  const Stored stored = ReadStored(folder.db());
  ASSERT_THAT(stored.rounds, SizeIs(4));
  for (const RoundRow& round : stored.rounds) {
    const int64_t times = (round.round + 1) / 2;  // at least two versions apart, in columns (1, 1/2)
    const double most = EpsilonAfter(times, 1.5 / std::sqrt(1.25));
    EXPECT_LE(*round.epsilon, most * 1.001);
    EXPECT_GE(*round.epsilon, EpsilonAfter(times, 1.5) * 0.999);
  }
  options.db_path = parted.db();
  options.scenario.run.rounds = 2;
  ASSERT_OK(RunTiny(options, parts, kPrivateClients));
  options.resume = "latest";
  options.scenario.run.rounds = 4;
  ASSERT_OK_AND_ASSIGN(const auto resumed, RunTiny(options, parts, kPrivateClients));
  EXPECT_EQ(resumed, whole);
}

// Abandoned attempts count too.
TEST(PrivateRun, AbandonedAttempts_SpendAndMayEndTheRun) {
  TestFolder folder;
  CoordinatorOptions options = PrivateOptions(folder.db(), 10, (EpsilonAfter(2, 2) + EpsilonAfter(3, 2)) / 2);
  options.scenario.server.max_attempts = 5;
  options.scenario.server.min_reports = kPrivateCohort;
  options.enforce_deadline = false;
  FakeFleet fleet(options);
  fleet.act = [](Coordinator& coordinator, const std::string& client_id, const Task& task) {
    (void)coordinator.Fail(As(client_id),
                           {.task = task.id, .code = TaskFailure::Code::kNoExamples, .subject = "train"});
  };
  Status ended;
  {
    ASSERT_OK_AND_ASSIGN(const auto coordinator, CreateCoordinator(options, PrivateParts(false)));
    ended = fleet.Run(*coordinator, Names(kPrivateClients));
  }
  EXPECT_THAT(Message(ended), HasSubstr("privacy.epsilon"));
  const Stored stored = ReadStored(folder.db());
  ASSERT_THAT(stored.rounds, SizeIs(2));
  for (const RoundRow& round : stored.rounds) {
    EXPECT_EQ(round.status, "abandoned");
    EXPECT_NEAR(*round.epsilon, EpsilonAfter(round.attempt, 2), 1e-3);
  }
}

}  // namespace
}  // namespace rivulet
