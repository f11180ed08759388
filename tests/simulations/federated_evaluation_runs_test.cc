// Versions that clients measure, in whole runs.
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

// "3 evaluate/accuracy 40/53", "3 client-00002 evaluate/loss 0.25": what clients have measured.
std::vector<std::string> MeasuredBy(const std::string& db, int64_t from_round = 0) {
  std::vector<std::string> lines;
  const auto history = History::Open(db, History::Access::kReadOnly);
  EXPECT_OK(history);
  for (const char* scope : {"federated", "client"}) {
    const auto rows = (*history)->Metrics((*history)->ResolveRun("latest")->run_id, scope);
    EXPECT_OK(rows);
    for (const MetricRow& row : *rows) {
      if (!row.name.starts_with("evaluate/") || row.round < from_round) continue;
      lines.push_back(fmt::format("{} {} {} {} {}/{}", row.round, row.client_id, row.name, row.value.value_or(-1),
                                  row.right.value_or(-1), row.total.value_or(-1)));
    }
  }
  return lines;
}

std::vector<std::string> OfTraining(std::vector<std::string> actions) {
  std::erase_if(actions, [](const std::string& action) { return action.find(" e") == action.find(' '); });
  return actions;
}

// A limit that whole runs show, however they are run: who measures changes no bit of what is measured, and the figures
// are those of the cohort, whoever computes them in whatever order.
TEST_F(SimulatorTest, FederatedEvaluation_ChangesNoModelAndIsTheSameHoweverItIsRun) {
  Scenario scenario = SmallScenario();
  const Trace off = Simulate(scenario, 2, "off.sqlite");
  EXPECT_THAT(MeasuredBy(Path("off.sqlite")), IsEmpty());
  scenario.evaluation.federated_every = 2;
  scenario.evaluation.federated_clients = 5;
  const Trace on = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(on.status);
  EXPECT_EQ(on.digests, off.digests);
  EXPECT_EQ(OfTraining(on.offers), off.offers);
  const std::vector<std::string> measured = MeasuredBy(Path("1.sqlite"));
  // Of versions 2, 4 and the last: two measures, five figures of how each is spread, and both of each client.
  EXPECT_THAT(measured, SizeIs(3 * (2 * 6 + 5 * 2)));
  for (const int workers : {2, 3, 16}) {
    const std::string db = fmt::format("{}.sqlite", workers);
    EXPECT_EQ(Simulate(scenario, workers, db).digests, off.digests);
    EXPECT_EQ(MeasuredBy(Path(db)), measured) << workers;
  }
  // Clients of a network take their time: a version whose turn does not come before the next is due is left out, and
  // the last one never is.
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, off.digests);
  const std::vector<std::string> deployed = MeasuredBy(Path("deployed.sqlite"));
  EXPECT_THAT(measured, ::testing::IsSupersetOf(deployed));
  EXPECT_EQ(MeasuredBy(Path("deployed.sqlite"), 5), MeasuredBy(Path("1.sqlite"), 5));
}

// By sites that share no disk, and by a process that is killed, the last time while the last version is measured.
TEST_F(CountingTest, FederatedEvaluation_BySitesOrKilledUnderEachDurability_MeasuresTheSame) {
  Scenario scenario = CountingScenario();
  scenario.algorithm = {};
  const Trace off = Simulate(scenario, 2, "off.sqlite");
  ASSERT_OK(off.status);
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 5;
  EXPECT_EQ(BySites(scenario, "sites.sqlite").digests, off.digests);
  const auto expect_measured = [&](const std::string& db) {
    EXPECT_THAT(MeasuredBy(Path("whole.sqlite")), ::testing::IsSupersetOf(MeasuredBy(Path(db))));
    EXPECT_THAT(MeasuredBy(Path(db), 8), SizeIs(2 * 6 + 5 * 2));
  };
  ExpectSameWhenKilled(scenario, expect_measured);
  expect_measured("sites.sqlite");
}

// All clients together hold the training set: what they measure of a version is what central evaluation of that says.
TEST_F(SimulatorTest, FederatedEvaluationByAll_IsCentralEvaluationOfTheirData) {
  Scenario scenario = SmallScenario();
  scenario.data.test = scenario.data.train;
  scenario.run.rounds = 2;
  scenario.evaluation.every = 1;
  scenario.evaluation.batch_size = 1;  // nothing is rounded but each example's loss, which is the same
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 12;
  ASSERT_OK(Simulate(scenario, 2, "a.sqlite").status);
  const auto history = *History::Open(Path("a.sqlite"), History::Access::kReadOnly);
  const std::string run_id = history->ResolveRun("latest")->run_id;
  std::map<std::pair<int64_t, std::string>, MetricRow> rows;
  for (const char* scope : {"central", "federated"}) {
    const auto found = history->Metrics(run_id, scope);
    ASSERT_OK(found);
    for (const MetricRow& row : *found) rows[{row.round, row.name}] = row;
  }
  for (const int64_t round : {1, 2}) {
    const MetricRow &loss = rows.at({round, "evaluate/loss"}), &accuracy = rows.at({round, "evaluate/accuracy"});
    EXPECT_NEAR(*loss.value, *rows.at({round, "test/loss"}).value, 1e-12 * *loss.value);
    EXPECT_EQ(accuracy.right, rows.at({round, "test/accuracy"}).right);
    EXPECT_EQ(accuracy.total, 205);
  }
}

// One of the clients fails at every task; in the evaluation too the next of the draw takes its place.
TEST_F(SimulatorTest, FederatedEvaluation_ReplacesWhoFails) {
  Scenario scenario = SmallScenario();
  std::vector<std::string> records = DigitRecords(205);
  records[100] = DigitExample(std::string(784, 'x'), 42);
  scenario.data.train = WriteRecords("bad.tfrecord", records);
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 9;
  ASSERT_OK(Simulate(scenario, 2, "a.sqlite").status);
  const auto history = *History::Open(Path("a.sqlite"), History::Access::kReadOnly);
  const auto tasks = history->ClientRounds(history->ResolveRun("latest")->run_id);
  ASSERT_OK(tasks);
  std::map<int64_t, int64_t> folded;
  int64_t failed = 0;
  for (const ClientRoundRow& task : *tasks) {
    if (task.kind != "evaluate") continue;
    EXPECT_EQ(task.base_round, task.round);
    if (task.status == "folded") ++folded[task.round];
    if (task.status == "failed") ++failed;
  }
  EXPECT_EQ(folded, (std::map<int64_t, int64_t>{{1, 9}, {2, 9}, {3, 9}, {4, 9}, {5, 9}}));
  EXPECT_GT(failed, 0);
  EXPECT_EQ(Simulate(scenario, 3, "b.sqlite").digests.size(), 5u);
  EXPECT_EQ(MeasuredBy(Path("b.sqlite")), MeasuredBy(Path("a.sqlite")));
}

TEST_F(SimulatorTest, FederatedEvaluation_StoppedAndResumed_GoesOn) {
  Scenario scenario = SmallScenario();
  scenario.run.durability = "round";
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 8;
  const Trace whole = Simulate(scenario, 2, "whole.sqlite");
  const Trace before = Simulate(scenario, 2, "parts.sqlite", "", 3);
  EXPECT_THAT(before.status, StatusIs(absl::StatusCode::kCancelled));
  const Trace after = Simulate(scenario, 3, "parts.sqlite", "latest");
  ASSERT_OK(after.status);
  EXPECT_EQ(after.final_digest, whole.final_digest);
  // Models of the two newest versions are there still, so that their measuring begins again where it was cut off.
  const auto newest = static_cast<int64_t>(before.digests.size());
  ASSERT_GE(newest, 3);
  EXPECT_EQ(MeasuredBy(Path("parts.sqlite"), newest), MeasuredBy(Path("whole.sqlite"), newest));
  EXPECT_THAT(MeasuredBy(Path("whole.sqlite")), ::testing::IsSupersetOf(MeasuredBy(Path("parts.sqlite"))));

  // Switched on later: nobody was told how.
  Scenario later = SmallScenario();
  EXPECT_OK(Simulate(later, 2, "later.sqlite").status);
  later.run.rounds = 7;
  later.evaluation.federated_every = 1;
  EXPECT_THAT(Simulate(later, 2, "later.sqlite", "latest").status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("does not say how to measure")));
}

}  // namespace
}  // namespace rivulet
