// Whole runs whose devices use virtual time.
#include "coordinator/ledger/ledger.h"
#include "simulations/replay.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

// Devices of which some are slow, some away, and some lost in the middle of a task.
Scenario OnDevices(Scenario scenario) {
  scenario.run.rounds = 8;
  scenario.evaluation.every = 0;
  scenario.server.over_selection = 1.5;
  scenario.server.lease_seconds = 30;
  scenario.devices.compute = "lognormal(1e5, 1)";
  scenario.devices.download = "uniform(1e4, 1e5)";
  scenario.devices.upload = "uniform(1e4, 1e5)";
  scenario.devices.delay = "half_normal(20)";
  scenario.devices.failure = "exponential(200)";
  scenario.devices.availability = "uniform(0.5, 1)";
  scenario.devices.period_seconds = 600;
  return scenario;
}

Scenario Latest(Scenario scenario) {
  scenario.algorithm.name = "fedbuff";
  scenario.server.over_selection = 1;
  scenario.server.clients_per_round = 3;
  scenario.server.in_flight = 7;
  return scenario;
}

struct Times {
  std::vector<double> made;  // when, by version
  int64_t folded = 0, late = 0, gone = 0;
};

Times TimesOf(const std::string& db) {
  Times times;
  const auto history = History::Open(db, History::Access::kReadOnly);
  EXPECT_OK(history);
  const auto run = (*history)->ResolveRun("latest");
  EXPECT_OK(run);
  EXPECT_EQ(run->status, "finished");
  const auto metrics = (*history)->Metrics(run->run_id, "federated");
  EXPECT_OK(metrics);
  for (const MetricRow& metric : *metrics)
    if (metric.name == kVirtualSeconds) times.made.push_back(metric.value.value_or(-1));
  const auto rows = (*history)->ClientRounds(run->run_id);
  EXPECT_OK(rows);
  for (const ClientRoundRow& row : *rows) {
    times.folded += row.status == "folded";
    times.late += row.status == "dropped" && row.error == EnoughWithout(TaskKind::kTrain);
    times.gone += row.status == "dropped" && row.error.find("disconnected") != row.error.npos;
  }
  return times;
}

TEST_F(SimulatorTest, Devices_AnyNumberOfWorkers_SameBitsAndTimes) {
  const Scenario base = OnDevices(SmallScenario());
  Scenario slow = base;
  slow.run.name = "slow";
  slow.devices.server = "uniform(1, 5)";
  for (const Scenario& scenario : {base, Latest(base), slow}) {
    const std::string name = scenario.run.name + scenario.algorithm.name;
    SCOPED_TRACE(name);
    const Trace one = Simulate(scenario, 1, name + "-1.sqlite");
    ASSERT_OK(one.status);
    const Times times = TimesOf(Path(name + "-1.sqlite"));
    ASSERT_THAT(times.made, SizeIs(scenario.run.rounds));
    for (size_t i = 1; i < times.made.size(); ++i) EXPECT_GT(times.made[i], times.made[i - 1]);
    // Of the rounds of the slow server one had asked all nine who were there, and six of these went away.
    EXPECT_EQ(times.folded, scenario.run.rounds * scenario.server.clients_per_round - (name == "slowfedavg" ? 1 : 0));
    EXPECT_GT(times.gone, 0);
    EXPECT_EQ(times.late > 3, scenario.server.over_selection > 1) << times.late;
    for (const int workers : {2, 3, 16}) {
      const std::string db = fmt::format("{}-{}.sqlite", name, workers);
      const Trace many = Simulate(scenario, workers, db);
      ASSERT_OK(many.status);
      EXPECT_EQ(many.digests, one.digests) << workers;
      EXPECT_EQ(many.offers, one.offers) << workers;
      EXPECT_EQ(many.folds, one.folds) << workers;
      EXPECT_EQ(TimesOf(Path(db)).made, times.made) << workers;
    }
    EXPECT_OK(
        Replay({.scenario = scenario, .db_path = Path(name + "-3.sqlite"), .run = "latest", .workers = 2}).status());
  }
}

// Without devices who is first is decided by how much there is to do.
TEST_F(SimulatorTest, OverSelection_AnyNumberOfWorkers_SameBitsAndTheRestIsLate) {
  Scenario scenario = SmallScenario();
  scenario.data.partition.kind = "dirichlet";
  const Trace all = Simulate(scenario, 2, "all.sqlite");
  scenario.server.over_selection = 1.5;
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_NE(one.digests, all.digests);
  const Times times = TimesOf(Path("1.sqlite"));
  EXPECT_THAT(times.made, IsEmpty()) << "examples are no seconds";
  EXPECT_EQ(times.folded, 5 * 4);
  EXPECT_EQ(times.late, 5 * 2);
  for (const int workers : {2, 3, 16}) {
    const Trace many = Simulate(scenario, workers, fmt::format("{}.sqlite", workers));
    EXPECT_EQ(many.digests, one.digests) << workers;
    EXPECT_EQ(many.folds, one.folds) << workers;
  }
}

TEST_F(CountingTest, Devices_Killed_SameBitsAndTimes) {
  std::vector<double> made;
  ExpectSameWhenKilled(OnDevices(SmallScenario()), [&](const std::string& db) {
    if (made.empty()) made = TimesOf(Path("whole.sqlite")).made;
    EXPECT_EQ(TimesOf(Path(db)).made, made);
  });
}

TEST_F(CountingTest, DevicesWithTasksUnderWay_Killed_SameBitsAndTimes) {
  std::vector<double> made;
  ExpectSameWhenKilled(Latest(OnDevices(SmallScenario())), [&](const std::string& db) {
    if (made.empty()) made = TimesOf(Path("whole.sqlite")).made;
    EXPECT_EQ(TimesOf(Path(db)).made, made);
  });
}

TEST_F(SimulatorTest, Devices_OfRealClients_AreRefused) {
  EXPECT_THAT(Deploy(OnDevices(SmallScenario()), "deployed.sqlite").status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[devices]")));
}

TEST_F(SimulatorTest, Devices_LawThatIsNone_IsToldBeforeTheRunHasARow) {
  Scenario scenario = OnDevices(SmallScenario());
  scenario.devices.compute = "fast";
  EXPECT_THAT(Simulate(scenario, 1, "none.sqlite").status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("devices.compute is 'fast'")));
}

}  // namespace
}  // namespace rivulet
