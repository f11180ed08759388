// The record of a run reproduces its versions.
#include "simulations/replay.h"

#include "coordinator/history/database.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

// What is recorded of a run gives its versions again; whoever changes what is recorded is found out.
TEST_F(CountingTest, Replayed_SimulatedOrDeployed_ComesOutAsRecorded) {
  Scenario scenario = CountingScenario();
  scenario.run.rounds = 4;
  ASSERT_OK(Simulate(scenario, 2, "simulated.sqlite").status);
  const Trace deployed = Deploy(scenario, "deployed.sqlite");
  ASSERT_OK(deployed.status);
  for (const char* db : {"simulated.sqlite", "deployed.sqlite"}) {
    for (const int workers : {1, 3}) {
      ReplayOptions options{.scenario = scenario, .db_path = Path(db), .run = "latest", .workers = workers};
      std::vector<int64_t> versions;
      options.on_version = [&](int64_t version, int64_t) { versions.push_back(version); };
      ASSERT_OK_AND_ASSIGN(const ReplayResult result, Replay(options));
      EXPECT_EQ(versions, (std::vector<int64_t>{1, 2, 3, 4}));
      EXPECT_EQ(result.tasks, 16);
      EXPECT_EQ(result.model_digest.Hex(), deployed.final_digest);
    }
  }
}

TEST_F(SimulatorTest, ReplayOfARowThatWasChanged_NamesItsTask) {
  const Scenario scenario = SmallScenario();
  ASSERT_OK(Simulate(scenario, 2, "a.sqlite").status);
  const auto replay = [&] {
    return Replay({.scenario = scenario, .db_path = Path("a.sqlite"), .run = "latest", .workers = 2}).status();
  };
  const auto change = [&](const std::string& sql) {
    ASSERT_OK_AND_ASSIGN(const auto db, Database::Open(Path("a.sqlite"), Database::Access::kReadWrite));
    ASSERT_OK(db->Run(sql));
  };
  EXPECT_OK(replay());
  const std::string third = "attempt_key = (SELECT attempt_key FROM attempt WHERE round = 3)";
  change("UPDATE task SET examples = examples + 1 WHERE task = (SELECT min(task) FROM task WHERE " + third + ")");
  EXPECT_THAT(replay(), StatusIs(absl::StatusCode::kDataLoss,
                                 ::testing::AllOf(HasSubstr("version 3 of run 'small-"), HasSubstr("-r3-a1-client-"),
                                                  HasSubstr("its examples is "))));
  change("UPDATE task SET ordinal = 7 WHERE task = (SELECT min(task) FROM task WHERE " + third + ")");
  EXPECT_THAT(replay(), StatusIs(absl::StatusCode::kDataLoss, ::testing::AllOf(HasSubstr("version 3 of run 'small-"),
                                                                               HasSubstr("recorded tasks make"))));
  change("UPDATE model SET digest = zeroblob(32) WHERE round = 2");
  EXPECT_THAT(replay(), StatusIs(absl::StatusCode::kDataLoss,
                                 ::testing::AllOf(HasSubstr("version 2 of run 'small-"), HasSubstr(" is 000000"))));
  Scenario without = scenario;
  without.data.partition.clients = 2;
  EXPECT_THAT(Replay({.scenario = without, .db_path = Path("a.sqlite"), .run = "latest", .workers = 2}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cannot be replayed")));
}

}  // namespace
}  // namespace rivulet
