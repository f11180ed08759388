// Runs that end before their last round, with a version that is good enough or has not improved for long.
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

class EndingEarlyTest : public CountingTest {
 protected:
  // Eight rounds that are measured each, and what to wait for so that the fifth is the first to have it.
  void SetUp() override {
    CountingTest::SetUp();
    scenario_ = SmallScenario();
    scenario_.run.rounds = 8;
    scenario_.evaluation.every = 1;
    whole_ = Simulate(scenario_, 2, "planned.sqlite");
    ASSERT_OK(whole_.status);
    ASSERT_THAT(whole_.digests, SizeIs(8));
    const double fifth = whole_.central[4].at("test/loss");
    for (size_t i = 0; i < 4; ++i) ASSERT_GT(whole_.central[i].at("test/loss"), fifth);
    scenario_.run.stop = fmt::format("loss <= {}", fifth);
    first_five_ = {whole_.digests.begin(), whole_.digests.begin() + 5};
  }
  RunRow RunOf(const std::string& db) {
    const auto history = History::Open(Path(db), History::Access::kReadOnly);
    EXPECT_OK(history);
    const auto run = (*history)->ResolveRun("latest");
    EXPECT_OK(run);
    return *run;
  }

  Scenario scenario_;
  Trace whole_;
  std::vector<std::string> first_five_;
};

TEST_F(EndingEarlyTest, AnyNumberOfWorkersAndDeployed_TheSameVersionIsTheLast) {
  for (const int workers : {1, 3, 16}) {
    const std::string db = fmt::format("{}.sqlite", workers);
    const Trace trace = Simulate(scenario_, workers, db);
    ASSERT_OK(trace.status);
    EXPECT_EQ(trace.digests, first_five_) << workers;
    EXPECT_EQ(RunOf(db).status, "finished");
  }
  EXPECT_EQ(Deploy(scenario_, "deployed.sqlite").digests, first_five_);
  EXPECT_OK(Replay({.scenario = scenario_, .db_path = Path("3.sqlite"), .run = "latest", .workers = 2}).status());
}

TEST_F(EndingEarlyTest, Killed_TheSameVersionIsTheLast) {
  ExpectSameWhenKilled(scenario_, [&](const std::string& db) { EXPECT_EQ(RunOf(db).status, "finished"); });
}

TEST_F(EndingEarlyTest, Resumed_HasFinishedUntilItIsToGoFurther) {
  ASSERT_OK(Simulate(scenario_, 2, "a.sqlite").status);
  const Trace again = Simulate(scenario_, 2, "a.sqlite", "latest");
  ASSERT_OK(again.status);
  EXPECT_THAT(again.digests, IsEmpty());
  scenario_.run.stop = "";
  const Trace further = Simulate(scenario_, 2, "a.sqlite", "latest");
  ASSERT_OK(further.status);
  EXPECT_EQ(further.digests, std::vector<std::string>(whole_.digests.begin() + 5, whole_.digests.end()));
}

TEST_F(EndingEarlyTest, Patience_GoesOverAStopAndIsKept) {
  scenario_.run.stop = "";
  scenario_.run.patience = 3;
  scenario_.client.optimizer.learning_rate = 1e-30;  // no version is better than the first
  const Trace whole = Simulate(scenario_, 2, "patient.sqlite");
  ASSERT_OK(whole.status);
  EXPECT_THAT(whole.digests, SizeIs(4));
  const std::string parts = "parts.sqlite";
  const Trace before = Simulate(scenario_, 1, parts, "", 2);
  ASSERT_THAT(before.status, StatusIs(absl::StatusCode::kCancelled));
  const Trace after = Simulate(scenario_, 1, parts, "latest");
  ASSERT_OK(after.status);
  EXPECT_EQ(before.digests.size() + after.digests.size(), 4u);
  EXPECT_EQ(after.final_digest, whole.final_digest);
}

// The last version is measured by clients, whatever every how many are; the run waits for it.
TEST_F(EndingEarlyTest, ClientsMeasureTheVersionThatWasEnough) {
  scenario_.evaluation.federated_every = 3;
  ASSERT_OK(Simulate(scenario_, 2, "a.sqlite").status);
  const auto history = History::Open(Path("a.sqlite"), History::Access::kReadOnly);
  ASSERT_OK(history);
  const auto metrics = (*history)->Metrics(RunOf("a.sqlite").run_id, "federated");
  ASSERT_OK(metrics);
  std::set<int64_t> measured;
  for (const MetricRow& metric : *metrics)
    if (metric.name == "evaluate/loss") measured.insert(metric.round);
  EXPECT_THAT(measured, ElementsAre(3, 5));
  EXPECT_EQ(RunOf("a.sqlite").status, "finished");
}

// Tasks are under way when the last version is made; what they bring is of no use, and nobody waits for it.
TEST_F(EndingEarlyTest, WhereTasksOutliveVersions_AnyNumberOfWorkersEndsAlike) {
  scenario_.algorithm.name = "fedbuff";
  scenario_.server.clients_per_round = 3;
  scenario_.server.in_flight = 7;
  scenario_.run.stop = "";
  const Trace planned = Simulate(scenario_, 2, "all.sqlite");
  ASSERT_OK(planned.status);
  scenario_.run.stop = fmt::format("loss <= {}", planned.central[2].at("test/loss"));
  const Trace one = Simulate(scenario_, 1, "1.sqlite");
  ASSERT_OK(one.status);
  ASSERT_LE(one.digests.size(), 3u);
  EXPECT_EQ(one.digests,
            std::vector<std::string>(planned.digests.begin(), planned.digests.begin() + std::ssize(one.digests)));
  for (const int workers : {2, 3, 16}) {
    EXPECT_EQ(Simulate(scenario_, workers, fmt::format("{}.sqlite", workers)).digests, one.digests) << workers;
  }
}

}  // namespace
}  // namespace rivulet
