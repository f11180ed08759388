// Whole runs of algorithms, codecs and mechanisms, and their limits as equal digests.
#include "simulations/replay.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

// A limit that whole runs show, however they are run: the proximal term of weight 0 is no term.
TEST_F(SimulatorTest, FedProxWithMuZero_HasTheDigestsOfFedAvg) {
  Scenario scenario = SmallScenario();
  const Trace average = Simulate(scenario, 2, "average.sqlite");
  scenario.algorithm.name = "fedprox";
  scenario.algorithm.settings["mu"] = 0.0;
  EXPECT_EQ(Simulate(scenario, 2, "zero.sqlite").digests, average.digests);
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, average.digests);
  scenario.algorithm.settings["mu"] = 1.0;
  const Trace pulled = Simulate(scenario, 2, "pulled.sqlite");
  ASSERT_OK(pulled.status);
  EXPECT_NE(pulled.final_digest, average.final_digest);
}

// Clients of one step are trained together and clipped while they are added; deployed clients clip what they send.
TEST_F(SimulatorTest, ClippedUpdates_HoweverTheyAreTrained_SameBits) {
  Scenario scenario = SmallScenario();
  scenario.model.preset = "mlp";
  scenario.client.batch_size = 20;  // of at most 18 examples
  scenario.evaluation.every = 0;
  scenario.algorithm = {.name = "dp_fedavg", .settings = {{"noise_source", std::string("seeded")}}};
  scenario.server.weights = "uniform";
  const auto expect_same = [&](const std::string& name) {
    const Trace one = Simulate(scenario, 1, name + "-1.sqlite");
    ASSERT_OK(one.status);
    EXPECT_EQ(Simulate(scenario, 3, name + "-3.sqlite").digests, one.digests);
    EXPECT_EQ(Deploy(scenario, name + "-deployed.sqlite").digests, one.digests);
    ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path(name + "-1.sqlite"), History::Access::kReadOnly));
    ASSERT_OK_AND_ASSIGN(const auto rows, history->ClientRounds(history->ResolveRun("latest")->run_id));
    double longest = 0;
    for (const ClientRoundRow& row : rows) longest = std::max(longest, row.update_norm.value_or(0));
    EXPECT_LE(longest, scenario.privacy.clip * (1 + 0x1p-23));
    EXPECT_GT(longest, scenario.privacy.clip < 1 ? 0.9999 * scenario.privacy.clip : 0);
  };
  for (const double clip : {0.05, 100.0}) {
    SCOPED_TRACE(clip);
    scenario.privacy.clip = clip;
    expect_same(fmt::format("clip-{}", clip));
  }
  scenario.client.epochs = 2;  // each alone
  scenario.privacy.clip = 0.05;
  expect_same("epochs");
}

// Three models in one loss, of which two weigh nothing.
TEST_F(SimulatorTest, MoonWithMuZero_HasTheDigestsOfFedAvg) {
  Scenario scenario = SmallScenario();
  scenario.evaluation.every = 0;
  scenario.run.rounds = 2;
  // Each with each, of a task alone: tests/federated/algorithms/moon_test.cc.
  for (const auto& [preset, kernels] :
       std::map<std::string, std::string>{{"mlp", "portable"}, {"mnist_cnn", "native"}}) {
    SCOPED_TRACE(fmt::format("{} {}", preset, kernels));
    scenario.model.preset = preset;
    scenario.run.kernels = kernels;
    scenario.algorithm = {};
    const Trace average = Simulate(scenario, 2, preset + "-average.sqlite");
    ASSERT_OK(average.status);
    scenario.algorithm.name = "moon";
    scenario.algorithm.settings["mu"] = 0.0;
    EXPECT_EQ(Simulate(scenario, 2, preset + "-zero.sqlite").digests, average.digests);
    EXPECT_EQ(Deploy(scenario, preset + "-deployed.sqlite").digests, average.digests);
  }
}

TEST_F(CountingTest, DittosSharedModel_HasTheDigestsOfFedAvg) {
  Scenario scenario = CountingScenario();
  scenario.algorithm = {};
  const Trace average = Simulate(scenario, 2, "average.sqlite");
  ASSERT_OK(average.status);
  scenario.algorithm = {.name = "ditto", .settings = {{"lambda", 0.1}}};
  EXPECT_EQ(Simulate(scenario, 2, "ditto.sqlite").digests, average.digests);
}

// FedPer (Arivazhagan et al. 2019, arXiv:1912.00818): the last layer is everybody's own.
TEST_F(CountingTest, PersonalLayers_HoweverItIsRun_SameBits) {
  Scenario scenario = CountingScenario();
  scenario.algorithm = {};
  scenario.model.preset = "mlp";
  const Trace average = Simulate(scenario, 2, "average.sqlite");
  ASSERT_OK(average.status);
  scenario.model.personal = {"dense3/*"};
  ExpectSameHoweverItIsRun(scenario);
  EXPECT_NE(Simulate(scenario, 2, "personal.sqlite").digests, average.digests);
}

TEST_F(SimulatorTest, ScaffoldsFirstRound_IsThatOfUniformFedAvg) {
  Scenario scenario = SmallScenario();
  scenario.server.weights = "uniform";
  const Trace average = Simulate(scenario, 2, "average.sqlite");
  ASSERT_OK(average.status);
  scenario.algorithm.name = "scaffold";
  const Trace scaffold = Simulate(scenario, 2, "scaffold.sqlite");
  ASSERT_OK(scaffold.status);
  EXPECT_EQ(scaffold.digests[0], average.digests[0]);
  EXPECT_NE(scaffold.digests[1], average.digests[1]);
}

// The rule that keeps every update, however its run is run: what it comes to without a trim, a mean comes to as well.
TEST_F(SimulatorTest, TrimmedMeanWithoutTrim_HasTheDigestsOfTheUniformMean) {
  Scenario scenario = SmallScenario();
  scenario.server.weights = "uniform";
  const Trace mean = Simulate(scenario, 2, "mean.sqlite");
  ASSERT_OK(mean.status);
  scenario.server.weights = "examples";
  EXPECT_NE(Simulate(scenario, 2, "weighted.sqlite").final_digest, mean.final_digest);
  scenario.algorithm.name = "trimmed_mean";
  scenario.algorithm.settings["trim"] = 0.0;
  for (const int workers : {1, 3}) {
    EXPECT_EQ(Simulate(scenario, workers, fmt::format("trim-{}.sqlite", workers)).digests, mean.digests);
  }
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, mean.digests);
  scenario.algorithm.settings["trim"] = 0.34;
  const Trace trimmed = Simulate(scenario, 2, "trimmed.sqlite");
  ASSERT_OK(trimmed.status);
  EXPECT_NE(trimmed.final_digest, mean.final_digest);
  EXPECT_EQ(Deploy(scenario, "deployed-trimmed.sqlite").digests, trimmed.digests);
}

TEST_F(CountingTest, DpFedAvgsLimit_HasTheDigestsOfTheUniformMean) {
  Scenario scenario = CountingScenario();
  scenario.algorithm = {};
  scenario.server.weights = "uniform";
  const Trace uniform = Simulate(scenario, 2, "uniform.sqlite");
  ASSERT_OK(uniform.status);
  scenario.algorithm.name = "dp_fedavg";
  scenario.algorithm.settings = {{"noise_multiplier", 0.0}};
  EXPECT_EQ(Simulate(scenario, 2, "limit.sqlite").digests, uniform.digests);
  EXPECT_EQ(Deploy(scenario, "deployed-limit.sqlite").digests, uniform.digests);
  scenario.privacy.clip = 0.1;
  const Trace clipped = Simulate(scenario, 2, "clipped.sqlite");
  EXPECT_NE(clipped.final_digest, uniform.final_digest);
  scenario.algorithm.settings = {{"noise_multiplier", 0.5}, {"noise_source", "seeded"}};
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_NE(one.final_digest, clipped.final_digest);
}

// Secret noise is another in each run, and whoever has the run's key can make its versions again.
TEST_F(SimulatorTest, SecureNoise_IsNeverTheSameAndIsReplayedWithItsKeyAlone) {
  Scenario scenario = SmallScenario();
  scenario.run.rounds = 2;
  scenario.privacy.clip = 0.1;
  scenario.algorithm.name = "dp_fedavg";
  const Trace one = Simulate(scenario, 2, "a.sqlite");
  ASSERT_OK(one.status);
  EXPECT_NE(Simulate(scenario, 2, "b.sqlite").digests, one.digests);
  const auto replay = [&] {
    return Replay({.scenario = scenario, .db_path = Path("a.sqlite"), .run = "latest", .workers = 2}).status();
  };
  EXPECT_OK(replay());
  std::string key;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("a.sqlite.models"))) {
    if (entry.path().filename() == "noise.key") key = entry.path().string();
  }
  ASSERT_TRUE(std::filesystem::remove(key));
  EXPECT_THAT(replay(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no noise key")));
}

// A Poisson cohort has a random size, which no number of workers changes, and its noise is secret by default.
TEST_F(CountingTest, PoissonCohorts_HoweverTheyAreRun_AreOfTheVersionAlone) {
  Scenario scenario = CountingScenario();
  scenario.algorithm = {.name = "dp_fedavg",
                        .settings = {{"noise_multiplier", 1.0}, {"noise_source", std::string("seeded")}}};
  scenario.privacy.clip = 0.1;
  scenario.selection = {.name = "poisson", .settings = {{"rate", 0.5}}};
  const Trace one = Simulate(scenario, 1, "poisson-1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_EQ(Simulate(scenario, 3, "poisson-3.sqlite").digests, one.digests);
  EXPECT_OK(
      Replay({.scenario = scenario, .db_path = Path("poisson-3.sqlite"), .run = "latest", .workers = 2}).status());
  const auto history = History::Open(Path("poisson-1.sqlite"), History::Access::kReadOnly);
  ASSERT_OK(history);
  ASSERT_OK_AND_ASSIGN(const std::vector<RoundRow> rounds,
                       (*history)->Rounds((*history)->ResolveRun("latest")->run_id));
  for (const RoundRow& round : rounds) {
    EXPECT_EQ(round.sampling_rate, 0.5);
    EXPECT_LT(*round.epsilon, *round.participant_epsilon);
  }
}

// The clip follows the median of the updates' norms, which are of its order whatever it began with; each round's is a
// metric. The run is the same however it is run, and is replayed.
TEST_F(CountingTest, AdaptiveClip_FollowsTheNormsHoweverItIsRun) {
  Scenario scenario = CountingScenario();
  scenario.run.rounds = 6;
  scenario.algorithm = {.name = "dp_fedavg",
                        .settings = {{"noise_multiplier", 0.1},
                                     {"noise_source", std::string("seeded")},
                                     {"clip_quantile", 0.5},
                                     {"clip_count_stddev", 0.15},
                                     {"clip_learning_rate", 1.0}}};
  const auto clips = [&](const std::string& db) {
    const auto history = History::Open(Path(db), History::Access::kReadOnly);
    EXPECT_OK(history);
    std::vector<double> clips;
    const StatusOr<std::vector<MetricRow>> metrics =
        (*history)->Metrics((*history)->ResolveRun("latest")->run_id, "federated");
    EXPECT_OK(metrics);
    for (const MetricRow& metric : *metrics) {
      if (metric.name == "privacy/clip") clips.push_back(*metric.value);
    }
    return clips;
  };
  for (const double first : {1e-3, 1e3}) {
    SCOPED_TRACE(first);
    scenario.privacy.clip = first;
    const std::string name = first < 1 ? "small" : "large";
    const Trace one = Simulate(scenario, 1, name + "-1.sqlite");
    ASSERT_OK(one.status);
    const std::vector<double> of = clips(name + "-1.sqlite");
    ASSERT_EQ(of.size(), 6u);
    EXPECT_EQ(of[0], first);
    for (size_t i = 1; i < of.size(); ++i) {
      const double step = std::log(of[i] / of[i - 1]);
      EXPECT_GT(first < 1 ? step : -step, 0) << "all are clipped, or none";
    }
    EXPECT_EQ(Simulate(scenario, 3, name + "-3.sqlite").digests, one.digests);
    EXPECT_EQ(Deploy(scenario, name + "-deployed.sqlite").digests, one.digests);
    EXPECT_OK(
        Replay({.scenario = scenario, .db_path = Path(name + "-3.sqlite"), .run = "latest", .workers = 2}).status());
  }
}

// Each update is protected alone, so that a simulation and a deployment spend the same, whoever is drawn. One task has
// epsilon 2 / noise_multiplier, and a client's tasks add up. Nothing else that tells of its data leaves a client.
TEST_F(CountingTest, LocalNoise_IsChargedByTheTask_AndLeavesNoLoss) {
  Scenario scenario = CountingScenario();
  scenario.run.rounds = 3;
  scenario.algorithm = {
      .name = "dp_fedavg",
      .settings = {
          {"noise_multiplier", 8.0}, {"noise_source", std::string("seeded")}, {"noise", std::string("local")}}};
  scenario.privacy.clip = 0.1;
  const Trace one = Simulate(scenario, 1, "one.sqlite");
  ASSERT_OK(one.status);
  EXPECT_EQ(Simulate(scenario, 3, "three.sqlite").digests, one.digests);
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, one.digests);
  EXPECT_OK(Replay({.scenario = scenario, .db_path = Path("three.sqlite"), .run = "latest", .workers = 2}).status());
  for (const char* db : {"one.sqlite", "deployed.sqlite"}) {
    ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path(db), History::Access::kReadOnly));
    const std::string run = history->ResolveRun("latest")->run_id;
    ASSERT_OK_AND_ASSIGN(const std::vector<RoundRow> rounds, history->Rounds(run));
    ASSERT_THAT(rounds, SizeIs(3));
    for (const RoundRow& round : rounds) {
      EXPECT_NEAR(*round.noise_multiplier, 8, 1e-3);
      EXPECT_GE(*round.noise_multiplier, 8);
      EXPECT_LE(*round.epsilon, 2.0 / 8 * static_cast<double>(round.round) * (1 + 1e-4)) << "tasks add up at most";
      EXPECT_GT(*round.epsilon, 0.9 * 2.0 / 8 * static_cast<double>(round.round));
      EXPECT_EQ(round.participant_epsilon, round.epsilon);
    }
    ASSERT_OK_AND_ASSIGN(const std::vector<ClientRoundRow> rows, history->ClientRounds(run));
    for (const ClientRoundRow& row : rows) EXPECT_EQ(row.train_loss, std::nullopt) << row.client_id;
  }
  scenario.privacy.epsilon = 0.6;
  ASSERT_OK(Simulate(scenario, 2, "budget.sqlite").status);
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path("budget.sqlite"), History::Access::kReadOnly));
  ASSERT_OK_AND_ASSIGN(const std::vector<RoundRow> rounds, history->Rounds(history->ResolveRun("latest")->run_id));
  EXPECT_THAT(rounds, SizeIs(2)) << "three tasks have epsilon 0.75";
}

// Who is there of a deployment's members is not known beforehand, and who fails is replaced.
TEST_F(CountingTest, FixedCohorts_AreAccountedForAsASampleInSimulationsAlone) {
  Scenario scenario = CountingScenario();
  scenario.run.rounds = 2;
  scenario.algorithm = {.name = "dp_fedavg",
                        .settings = {{"noise_multiplier", 4.0}, {"noise_source", std::string("seeded")}}};
  scenario.privacy.clip = 0.1;
  const Trace simulated = Simulate(scenario, 2, "fixed.sqlite");
  ASSERT_OK(simulated.status);
  EXPECT_EQ(Deploy(scenario, "fixed-deployed.sqlite").digests, simulated.digests);
  const auto rates = [&](const std::string& db) {
    const auto history = History::Open(Path(db), History::Access::kReadOnly);
    EXPECT_OK(history);
    std::vector<double> rates;
    const StatusOr<std::vector<RoundRow>> rounds = (*history)->Rounds((*history)->ResolveRun("latest")->run_id);
    EXPECT_OK(rounds);
    for (const RoundRow& round : *rounds) rates.push_back(*round.sampling_rate);
    return rates;
  };
  const double share =
      static_cast<double>(scenario.server.clients_per_round) / static_cast<double>(scenario.data.partition.clients);
  ASSERT_LT(share, 1);
  EXPECT_THAT(rates("fixed.sqlite"), ElementsAre(share, share));
  EXPECT_THAT(rates("fixed-deployed.sqlite"), ElementsAre(1, 1));
}

// What an update goes through on its way is the client's, wherever that is: clipped, with noise of the seed, rounded.
TEST_F(SimulatorTest, ClippedNoisyAndEncoded_DeployedAsSimulated) {
  Scenario scenario = SmallScenario();
  const Trace plain = Simulate(scenario, 2, "plain.sqlite");
  scenario.update.codec = "bf16";
  const Trace rounded = Simulate(scenario, 2, "rounded.sqlite");
  ASSERT_OK(rounded.status);
  EXPECT_NE(rounded.final_digest, plain.final_digest);
  EXPECT_EQ(Deploy(scenario, "deployed-rounded.sqlite").digests, rounded.digests);
  scenario.privacy.clip = 0.1;
  scenario.privacy.noise = 0.01;
  scenario.privacy.noise_source = "seeded";
  for (const char* codec : {"f32", "bf16", "int8", "random_k"}) {
    scenario.update.codec = codec;
    const Trace one = Simulate(scenario, 1, fmt::format("1-{}.sqlite", codec));
    ASSERT_OK(one.status);
    EXPECT_NE(one.final_digest, rounded.final_digest);
    EXPECT_EQ(Simulate(scenario, 3, fmt::format("3-{}.sqlite", codec)).digests, one.digests);
    EXPECT_EQ(Deploy(scenario, fmt::format("deployed-{}.sqlite", codec)).digests, one.digests);
  }
}

// What a codec leaves out is kept beside what else is: of the counting client two vectors.
TEST_F(CountingTest, TopKWithErrorFeedback_KeepsItBesideWhatElseIsKept) {
  Scenario scenario = CountingScenario();
  const Trace plain = Simulate(scenario, 2, "plain.sqlite");
  scenario.update.codec = "top_k";
  scenario.update.settings["fraction"] = 1;
  EXPECT_EQ(Simulate(scenario, 2, "limit.sqlite").digests, plain.digests);
  EXPECT_EQ(Deploy(scenario, "deployed-limit.sqlite").digests, plain.digests);
  scenario.update.settings["fraction"] = 0.02;
  scenario.update.error_feedback = false;
  const Trace lossy = Simulate(scenario, 2, "lossy.sqlite");
  ASSERT_OK(lossy.status);
  scenario.update.error_feedback = true;
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_NE(one.final_digest, plain.final_digest);
  EXPECT_NE(one.final_digest, lossy.final_digest) << "what was left out is lost";
  EXPECT_EQ(Simulate(scenario, 3, "3.sqlite").digests, one.digests);
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, one.digests);
  EXPECT_EQ(BySites(scenario, "sites.sqlite").digests, one.digests);
}

TEST_F(SimulatorTest, TopK_LearnsFromTheFewValuesThatItSends) {
  Scenario scenario = SmallScenario();
  scenario.run.rounds = 12;
  scenario.update.codec = "top_k";
  scenario.update.settings["fraction"] = 0.02;
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  ASSERT_OK(trace.status);
  EXPECT_GT(trace.central.back().at("test/accuracy"), 0.8);
}

}  // namespace
}  // namespace rivulet
