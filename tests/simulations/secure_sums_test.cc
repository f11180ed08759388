// Runs whose updates are summed as words: every version is that of the run with plain sums, to the bit.
#include "federated/privacy/accountant.h"
#include "simulations/replay.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

class SecureSumsTest : public CountingTest {
 protected:
  // A scenario with the bounds of its secure twin.
  Scenario Plain(const std::string& algorithm = "fedavg") {
    Scenario scenario = SmallScenario();
    scenario.run.rounds = 3;
    scenario.run.durability = "end";
    scenario.algorithm.name = algorithm;
    scenario.privacy.clip = 0.75;
    scenario.server.value_bits = 0;
    return scenario;
  }
  static Scenario Secure(Scenario scenario) {
    scenario.secure.protocol = "arithmetic";
    scenario.secure.min_survivors = std::min<int64_t>(3, scenario.server.clients_per_round);
    return scenario;
  }
  std::vector<double> ClipsOf(const std::string& db) {
    const auto history = History::Open(Path(db), History::Access::kReadOnly);
    EXPECT_OK(history);
    const auto metrics = (*history)->Metrics((*history)->ResolveRun("latest")->run_id, "federated");
    EXPECT_OK(metrics);
    std::vector<double> clips;
    for (const MetricRow& metric : *metrics) {
      if (metric.name == "privacy/clip") clips.push_back(metric.value.value());
    }
    return clips;
  }
  void ExpectSame(const Scenario& plain, const std::string& name, int workers = 2) {
    SCOPED_TRACE(name);
    const Trace sums = Simulate(plain, workers, name + "-plain.sqlite");
    ASSERT_OK(sums.status);
    const Trace words = Simulate(Secure(plain), workers, name + "-secure.sqlite");
    ASSERT_OK(words.status);
    ASSERT_THAT(sums.digests, SizeIs(static_cast<size_t>(plain.run.rounds)));
    EXPECT_EQ(words.digests, sums.digests);
    EXPECT_EQ(words.central, sums.central);
  }
};

TEST_F(SecureSumsTest, Flat_AreThePlainVersions) {
  ExpectSame(Plain(), "weights");
  Scenario uniform = Plain();
  uniform.server.weights = "uniform";
  ExpectSame(uniform, "uniform");
  uniform.server.sum_bits = 32;
  ExpectSame(uniform, "words-of-32-bits");
}

TEST_F(SecureSumsTest, OfSeveralParts_AreThePlainVersions) { ExpectSame(Plain("scaffold"), "scaffold"); }

TEST_F(SecureSumsTest, OfValuesAtSharedPlaces_AreThePlainVersions) {
  for (const std::string algorithm : {"fedavg", "scaffold"}) {
    Scenario scenario = Plain(algorithm);
    scenario.update.codec = "random_k_shared";
    scenario.update.settings = {{"fraction", 0.25}};
    scenario.server.value_bits = 2;  // the clip of 0.75, times 4
    ExpectSame(scenario, algorithm + "-shared-places");
  }
}

// Noise is added to the sums, whatever they were made by.
TEST_F(SecureSumsTest, WithNoiseOnTheSums_AreThePlainVersions) {
  Scenario scenario = Plain("dp_fedavg");
  scenario.algorithm.settings = {{"noise_multiplier", 0.5}, {"noise_source", std::string("seeded")}};
  ExpectSame(scenario, "noise");
}

// Each client adds its share to its words, and the coordinator none: the run is one of any division over workers, and
// is charged for the noise of the smallest sum.
TEST_F(SecureSumsTest, WithNoiseOfClients_HoweverItIsRun_IsOneRunAndCharged) {
  Scenario scenario = Secure(Plain("dp_fedavg"));
  scenario.algorithm.settings = {
      {"noise_multiplier", 2.0}, {"noise_source", std::string("seeded")}, {"noise", std::string("distributed")}};
  for (const int64_t bits : {64, 32}) {
    SCOPED_TRACE(bits);
    scenario.server.sum_bits = bits;
    const Trace one = Simulate(scenario, 1, fmt::format("distributed-{}-1.sqlite", bits));
    ASSERT_OK(one.status);
    const std::string db = fmt::format("distributed-{}-3.sqlite", bits);
    EXPECT_EQ(Simulate(scenario, 3, db).digests, one.digests);
    EXPECT_OK(Replay({.scenario = scenario, .db_path = Path(db), .run = "latest", .workers = 2}).status());
    const auto history = History::Open(Path(db), History::Access::kReadOnly);
    ASSERT_OK(history);
    const std::string run = (*history)->ResolveRun("latest")->run_id;
    ASSERT_OK_AND_ASSIGN(const std::vector<RoundRow> rounds, (*history)->Rounds(run));
    ASSERT_THAT(rounds, SizeIs(3));
    for (const RoundRow& round : rounds) {
      EXPECT_NEAR(*round.noise_multiplier, 2, 1e-4);
      EXPECT_GE(*round.noise_multiplier, 2);
      const auto gaussian = privacy::EpsilonOf(
          {.relation = privacy::Relation::kReplaceOne, .rounds = {{.multiplier = 2, .count = round.round}}}, 1e-5);
      ASSERT_OK(gaussian);
      EXPECT_NEAR(*round.participant_epsilon, gaussian->value, 1e-3 * gaussian->value);
    }
    // With other seeds of the noise the versions differ.
    Scenario other = scenario;
    other.run.seed += 1;
    EXPECT_NE(Simulate(other, 1, fmt::format("distributed-{}-other.sqlite", bits)).final_digest, one.final_digest);
  }
}

// The count of unclipped updates is a word of the sum, whoever adds its noise.
TEST_F(SecureSumsTest, WithAClipThatFollowsTheNorms_AreThePlainVersions) {
  Scenario scenario = Plain("dp_fedavg");
  scenario.server.value_bits = 1;  // an update is a multiple of its clip, and a rounding more than 1 at most
  scenario.algorithm.settings = {{"noise_multiplier", 0.1},
                                 {"noise_source", std::string("seeded")},
                                 {"clip_quantile", 0.5},
                                 {"clip_count_stddev", 0.15}};
  ExpectSame(scenario, "adaptive");
  const std::vector<double> clips = ClipsOf("adaptive-secure.sqlite");
  EXPECT_THAT(clips, SizeIs(3));
  EXPECT_NE(clips.front(), clips.back());
  EXPECT_EQ(clips, ClipsOf("adaptive-plain.sqlite"));
}

TEST_F(SecureSumsTest, WithAClipThatFollowsTheNormsAndNoiseOfClients_IsOneRunAndCharged) {
  Scenario scenario = Secure(Plain("dp_fedavg"));
  scenario.algorithm.settings = {{"noise_multiplier", 2.0},
                                 {"noise_source", std::string("seeded")},
                                 {"noise", std::string("distributed")},
                                 {"clip_quantile", 0.5},
                                 {"clip_count_stddev", 3.0}};
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_EQ(Simulate(scenario, 3, "3.sqlite").digests, one.digests);
  EXPECT_OK(Replay({.scenario = scenario, .db_path = Path("3.sqlite"), .run = "latest", .workers = 2}).status());
  const std::vector<double> clips = ClipsOf("1.sqlite");
  EXPECT_THAT(clips, SizeIs(3));
  EXPECT_NE(clips.front(), clips.back());
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path("1.sqlite"), History::Access::kReadOnly));
  ASSERT_OK_AND_ASSIGN(const std::vector<RoundRow> rounds, history->Rounds(history->ResolveRun("latest")->run_id));
  for (const RoundRow& round : rounds) EXPECT_NEAR(*round.noise_multiplier, 2, 1e-3) << "updates and count together";
}

// Sums of losses as weights, and of norms that only a client measures.
TEST_F(SecureSumsTest, OfScalars_AreThePlainVersions) { ExpectSame(Plain("fedexp"), "fedexp"); }

TEST_F(SecureSumsTest, OfPartsThatSomeUpdatesLack_AreThePlainVersions) { ExpectSame(Plain("ifca"), "ifca"); }

TEST_F(SecureSumsTest, OfCohortsOfThreeToAThousand_AreThePlainVersions) {
  for (const int64_t cohort : {3, 20, 100, 1000}) {
    Scenario scenario = Plain();
    scenario.run.rounds = 1;
    scenario.data.train = WriteRecords("many.tfrecord", DigitRecords(std::max<int64_t>(cohort * 2, 205)));
    scenario.data.partition.clients = cohort;
    scenario.server.clients_per_round = cohort;
    ExpectSame(scenario, fmt::format("cohort-{}", cohort));
  }
}

TEST_F(SecureSumsTest, ByAnyNumberOfWorkers_AndSites_AndReplayed_AreOneRun) {
  const Scenario scenario = Secure(Plain());
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  for (const int workers : {2, 5}) {
    EXPECT_EQ(Simulate(scenario, workers, fmt::format("{}.sqlite", workers)).digests, one.digests) << workers;
  }
  EXPECT_EQ(BySites(scenario, "sites.sqlite").digests, one.digests);
  EXPECT_OK(Replay({.scenario = scenario, .db_path = Path("2.sqlite"), .run = "latest", .workers = 2}).status());
}

// Sites of other processes play no halves, and their sums need no keys.
TEST_F(SecureSumsTest, OfKeysThatNobodyPlays_AreThePlainVersions) {
  Scenario scenario = Plain();
  scenario.evaluation.federated_every = 3;
  const Trace plain = Simulate(scenario, 2, "plain.sqlite");
  scenario.secure.protocol = "secagg_plus";
  const Trace sites = BySites(scenario, "sites.sqlite");
  ASSERT_OK(sites.status);
  EXPECT_EQ(sites.digests, plain.digests);
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path("sites.sqlite"), History::Access::kReadOnly));
  ASSERT_OK_AND_ASSIGN(const RunRow run, history->ResolveRun("latest"));
  ASSERT_OK_AND_ASSIGN(const std::vector<EventRow> events, history->Events(run.run_id));
  EXPECT_TRUE(std::ranges::any_of(events, [](const EventRow& event) {
    return event.level == "warning" && event.message.find("without keys, which hides nothing") != std::string::npos;
  }));
}

TEST_F(SecureSumsTest, StoppedAndResumed_IsTheSameRun) {
  Scenario scenario = Secure(Plain());
  scenario.run.rounds = 5;
  const Trace whole = Simulate(scenario, 2, "whole.sqlite");
  ASSERT_OK(whole.status);
  Simulate(scenario, 2, "stopped.sqlite", "", 2);
  const Trace after = Simulate(scenario, 2, "stopped.sqlite", "latest");
  ASSERT_OK(after.status);
  EXPECT_EQ(after.final_digest, whole.final_digest);
}

TEST_F(SecureSumsTest, HistorySaysThatArithmeticHidesNothing) {
  ASSERT_OK(Simulate(Secure(Plain()), 2, "a.sqlite").status);
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path("a.sqlite"), History::Access::kReadOnly));
  ASSERT_OK_AND_ASSIGN(const RunRow run, history->ResolveRun("latest"));
  ASSERT_OK_AND_ASSIGN(const std::vector<EventRow> events, history->Events(run.run_id));
  const auto warning = std::ranges::find_if(
      events, [](const EventRow& event) { return event.message.find("hides nothing") != std::string::npos; });
  ASSERT_NE(warning, events.end());
  EXPECT_EQ(warning->level, "warning");
}

TEST_F(SecureSumsTest, Arithmetic_IsRefusedWhereRealClientsTrain) {
  EXPECT_THAT(Deploy(Secure(Plain()), "deployed.sqlite").status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is for simulations alone")));
}

// Nine of twelve clients send updates beyond the bound, so that three are left for a sum.
TEST_F(SecureSumsTest, SumsOfFewerThanMinSurvivors_AreNotMade) {
  Scenario scenario = Secure(Plain());
  scenario.attack = {.name = "scaling", .fraction = 0.75, .settings = {{"scale", 1e6}}};
  scenario.server.min_reports = 1;
  EXPECT_OK(Simulate(scenario, 2, "three.sqlite").status);
  scenario.secure.min_survivors = 4;
  const Trace few = Simulate(scenario, 2, "four.sqlite");
  EXPECT_THAT(few.status, StatusIs(absl::StatusCode::kAborted, HasSubstr("3 of 4 updates")));
  EXPECT_THAT(few.ends, SizeIs(3));
  for (const std::string& end : few.ends) EXPECT_THAT(end, HasSubstr("abandon r1"));
}

}  // namespace
}  // namespace rivulet
