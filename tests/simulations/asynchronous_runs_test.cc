// Whole runs whose tasks outlive versions.
#include "simulations/replay.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

// Tasks that outlive versions: more under way than make one, of clients of whom some take longer.
Scenario Asynchronous(Scenario scenario) {
  scenario.run.rounds = 8;
  scenario.algorithm.name = "fedbuff";
  scenario.data.partition.kind = "dirichlet";
  scenario.server.clients_per_round = 3;
  scenario.server.in_flight = 7;
  scenario.server.max_staleness = 3;
  scenario.evaluation.every = 0;
  return scenario;
}

// Of a finished run: each folded task is in one version, none is later than allowed. How many were late.
int64_t CountLate(const std::string& db, const Scenario& scenario) {
  const auto history = History::Open(db, History::Access::kReadOnly);
  EXPECT_OK(history);
  const auto run = (*history)->ResolveRun("latest");
  EXPECT_OK(run);
  EXPECT_EQ(run->status, "finished");
  const auto rows = (*history)->ClientRounds(run->run_id);
  EXPECT_OK(rows);
  std::map<int64_t, int64_t> updates;
  int64_t late = 0;
  for (const ClientRoundRow& row : *rows) {
    if (row.status != "folded") continue;
    EXPECT_EQ(row.committed_round, row.round);
    EXPECT_EQ(row.staleness, row.round - 1 - row.base_round);
    EXPECT_GE(row.staleness, 0);
    EXPECT_LE(row.staleness, scenario.server.max_staleness);
    late += row.staleness > 0;
    ++updates[row.round];
  }
  EXPECT_EQ(std::ssize(updates), scenario.run.rounds);
  for (const auto& [round, count] : updates) EXPECT_EQ(count, scenario.server.clients_per_round) << round;
  return late;
}

TEST_F(SimulatorTest, Asynchronous_AnyNumberOfWorkers_SameBits) {
  Scenario scenario = Asynchronous(SmallScenario());
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_GT(CountLate(Path("1.sqlite"), scenario), 5);
  for (const int workers : {2, 3, 16}) {
    const std::string db = fmt::format("{}.sqlite", workers);
    const Trace many = Simulate(scenario, workers, db);
    ASSERT_OK(many.status);
    EXPECT_EQ(many.digests, one.digests) << workers;
    EXPECT_EQ(many.offers, one.offers) << workers;
    EXPECT_EQ(many.folds, one.folds) << workers;
    EXPECT_EQ(many.ends, one.ends) << workers;
    EXPECT_OK(Replay({.scenario = scenario, .db_path = Path(db), .run = "latest", .workers = 2}).status());
  }
  // Who measures changes nothing, and is kept the version that is measured.
  Scenario measured = scenario;
  measured.evaluation.federated_every = 1;
  measured.evaluation.federated_clients = 2;
  EXPECT_EQ(Simulate(measured, 2, "measured.sqlite").digests, one.digests);
  // Each key of the policy has its effect.
  scenario.server.staleness_exponent = 0;
  const Trace flat = Simulate(scenario, 2, "flat.sqlite");
  EXPECT_EQ(flat.folds, one.folds);
  EXPECT_NE(flat.final_digest, one.final_digest);
  scenario.server.max_staleness = 1;
  EXPECT_NE(Simulate(scenario, 2, "strict.sqlite").folds, one.folds);
  scenario.server.in_flight = 4;
  EXPECT_NE(Simulate(scenario, 2, "narrow.sqlite").folds, one.folds);
}

// Where nobody is late it is the uniform mean, however it is run.
// Whoever was out at the end would have been in the versions that follow.
TEST_F(SimulatorTest, AsynchronousRunThatHasFinished_TakesNoMoreRounds) {
  Scenario scenario = Asynchronous(SmallScenario());
  scenario.run.rounds = 3;
  ASSERT_OK(Simulate(scenario, 2, "short.sqlite").status);
  scenario.run.rounds = 5;
  const auto longer = [&](const Scenario& of, const std::string& db) {
    return Simulation::Create({.scenario = of, .db_path = Path(db), .resume = "latest"});
  };
  EXPECT_THAT(longer(scenario, "short.sqlite"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("has finished with 3 rounds, and its versions lack the updates")));
  scenario.run.rounds = 3;
  EXPECT_OK(longer(scenario, "short.sqlite")) << "nothing is left to be done";
  // Where each version begins from a committed one nobody is, and more rounds are those of a run of so many.
  scenario.server.base = "committed";
  scenario.server.in_flight = scenario.server.clients_per_round;
  ASSERT_OK(Simulate(scenario, 2, "committed.sqlite").status);
  scenario.run.rounds = 5;
  ASSERT_OK_AND_ASSIGN(const auto extended, longer(scenario, "committed.sqlite"));
  ASSERT_OK_AND_ASSIGN(const SimulationResult result, extended->Run());
  EXPECT_EQ(result.model->ComputeDigest().Hex(), Simulate(scenario, 2, "whole.sqlite").final_digest);
}

TEST_F(SimulatorTest, FedBuffFromCommittedModels_HasTheDigestsOfTheUniformMean) {
  Scenario scenario = SmallScenario();
  scenario.server.weights = "uniform";
  const Trace mean = Simulate(scenario, 2, "mean.sqlite");
  ASSERT_OK(mean.status);
  scenario.algorithm.name = "fedbuff";
  scenario.server.base = "committed";
  scenario.server.in_flight = scenario.server.clients_per_round;
  EXPECT_EQ(Simulate(scenario, 3, "buffered.sqlite").digests, mean.digests);
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, mean.digests);
}

TEST_F(CountingTest, Asynchronous_KilledWithTasksUnderWay_SameBits) {
  const Scenario scenario = Asynchronous(SmallScenario());
  ExpectSameWhenKilled(scenario, [&](const std::string& db) {
    EXPECT_GT(CountLate(Path(db), scenario), 5);
    EXPECT_OK(Replay({.scenario = scenario, .db_path = Path(db), .run = "latest", .workers = 2}).status());
  });
}

// Nobody can say beforehand what comes of it; what came of it comes out again.
TEST_F(SimulatorTest, AsynchronousDeployedRun_ReplaysToItsDigests) {
  const Scenario scenario = Asynchronous(SmallScenario());
  for (const int time : {1, 2}) {
    const std::string db = fmt::format("deployed-{}.sqlite", time);
    const Trace deployed = Deploy(scenario, db);
    ASSERT_OK(deployed.status);
    CountLate(Path(db), scenario);
    for (const int workers : {1, 3}) {
      ASSERT_OK_AND_ASSIGN(const ReplayResult result,
                           Replay({.scenario = scenario, .db_path = Path(db), .run = "latest", .workers = workers}));
      EXPECT_EQ(result.model_digest.Hex(), deployed.final_digest);
      EXPECT_EQ(result.tasks, 24);
    }
  }
}

}  // namespace
}  // namespace rivulet
