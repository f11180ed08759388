// Clients' states between tasks, which count their aggregations, for all workers and interruptions of the
// process.
#include "tests/simulations/whole_runs.h"
#include "tests/testing/counting_algorithm.h"

namespace rivulet {

void CountingTest::ExpectCounts(const std::string& db, std::string states) {
  if (states.empty()) states = Path(db) + ".models";
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path(db), History::Access::kReadOnly));
  ASSERT_OK_AND_ASSIGN(const RunRow run, history->ResolveRun("latest"));
  EXPECT_EQ(run.status, "finished");
  std::map<std::string, int> folds;
  ASSERT_OK_AND_ASSIGN(const auto rows, history->ClientRounds(run.run_id));
  for (const ClientRoundRow& row : rows) folds[row.client_id] += row.status == "folded";
  ASSERT_OK_AND_ASSIGN(const auto newest, history->NewestFolded(run.run_id));
  EXPECT_EQ(newest.size(), folds.size());
  const auto store = NewStateStore(FileSystem::Default(), states, false);
  for (const TaskId& task : newest) {
    const std::string client = TaskNameOf(task, run.run_id)->client_id;
    ASSERT_OK_AND_ASSIGN(const StateBlob blob, store->Read(run.run_id, client, task));
    std::vector<float> counts(7850 + 100);
    counts.resize((blob.size() - testing::kCountOverhead) / sizeof(float));
    ASSERT_OK(ReadState(blob, std::vector<NamedState>{{"n", counts}}));
    EXPECT_EQ(counts[0], static_cast<float>(folds.at(client))) << client;
  }
}

namespace {

TEST_F(CountingTest, AnyWorkersAndDeployed_SameBitsAndEachFoldCounted) {
  const Scenario scenario = CountingScenario();
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  ExpectCounts("1.sqlite");
  for (const int workers : {2, 3, 16}) {
    const std::string db = fmt::format("{}.sqlite", workers);
    EXPECT_EQ(Simulate(scenario, workers, db).digests, one.digests) << workers;
    ExpectCounts(db);
  }
  const Trace deployed = Deploy(scenario, "deployed.sqlite");
  ASSERT_OK(deployed.status);
  EXPECT_EQ(deployed.digests, one.digests);
  EXPECT_EQ(deployed.folds, one.folds);
  ExpectCounts("deployed.sqlite", Path("deployed.sqlite.clients"));
  // Of what is durable one is kept; the last of each client when the run ends is not told any more.
  EXPECT_LE(FilesIn(Path("deployed.sqlite.clients")), 12u);
  Scenario average = scenario;
  average.algorithm = {};
  EXPECT_NE(Simulate(average, 2, "average.sqlite").digests, one.digests) << "what is kept has no effect";
}

// Sites that share no disk: what a client keeps goes from the coordinator to whichever has its next task.
TEST_F(CountingTest, TwoSitesElsewhere_SameBitsAndEachFoldCounted) {
  const Scenario scenario = CountingScenario();
  const Trace simulated = Simulate(scenario, 2, "simulated.sqlite");
  ASSERT_OK(simulated.status);
  const Trace sites = BySites(scenario, "sites.sqlite");
  ASSERT_OK(sites.status);
  EXPECT_EQ(sites.digests, simulated.digests);
  ExpectCounts("sites.sqlite");
  EXPECT_LE(FilesIn(Path("sites.sqlite.models")), 12u) << "what was kept before goes";
}

TEST_F(CountingTest, KilledAndResumed_SameBitsAndEachFoldCounted) {
  ExpectSameWhenKilled(CountingScenario(), [&](const std::string& db) { ExpectCounts(db); });
}

// Whoever has lost it fails once, says so, and begins anew.
TEST_F(CountingTest, LostState_IsToldAndBeginsAnew) {
  Scenario scenario = CountingScenario();
  scenario.data.partition.clients = 4;
  scenario.server.min_reports = 1;
  const Trace before = Simulate(scenario, 2, "a.sqlite", "", 4);
  EXPECT_THAT(before.status, StatusIs(absl::StatusCode::kCancelled));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("a.sqlite.models"))) {
    const std::string newest = fmt::format("-r{}-a1-state-", before.digests.size());
    if (entry.path().filename().string().find(newest) == std::string::npos) continue;
    std::filesystem::remove(entry.path());
    break;
  }
  ASSERT_OK(Simulate(scenario, 2, "a.sqlite", "latest").status);
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path("a.sqlite"), History::Access::kReadOnly));
  ASSERT_OK_AND_ASSIGN(const auto rows, history->ClientRounds((*history->ResolveRun("latest")).run_id));
  int64_t failed = 0;
  std::string loser;
  int64_t lost_at = 0;
  for (const ClientRoundRow& row : rows) {
    if (row.status != "failed") continue;
    ++failed;
    loser = row.client_id;
    lost_at = row.round;
    EXPECT_THAT(row.error, HasSubstr("is not there; it starts again without state"));
  }
  EXPECT_EQ(failed, 1);
  const bool again = std::ranges::any_of(rows, [&](const ClientRoundRow& row) {
    return row.client_id == loser && row.round > lost_at && row.status == "folded";
  });
  EXPECT_TRUE(again);
}

}  // namespace
}  // namespace rivulet
