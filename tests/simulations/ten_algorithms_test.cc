// Each of the ten algorithms in all modes and with all interruptions of the process; every test covers all ten.
#include "tests/simulations/ten_algorithms.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <set>

#include "federated/algorithms/algorithm.h"
#include "simulations/replay.h"
#include "tests/coordinator/killed_run.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

using testing::PixelData;
using testing::TenthAlgorithm;

class TenAlgorithmsTest : public CountingTest, public ::testing::WithParamInterface<TenthAlgorithm> {
 protected:
  // A few thousand parameters, of a model that has a representation.
  Scenario TenScenario() {
    Scenario scenario = CountingScenario();
    scenario.algorithm = {};
    scenario.run.rounds = 4;
    scenario.model.preset = "";
    scenario.model.input.shape = {28, 28, 1};
    scenario.model.classes = 10;
    scenario.model.layers = {
        {{"type", std::string("flatten")}},
        {{"type", std::string("dense")}, {"units", int64_t{4}}, {"activation", std::string("relu")}},
        {{"type", std::string("dense")}, {"units", int64_t{10}}}};
    scenario.data.partition.kind = "dirichlet";
    GetParam().set(scenario);
    return scenario;
  }
  Status Replayed(const Scenario& scenario, const std::string& db) {
    return Replay({.scenario = scenario, .db_path = Path(db), .run = "latest", .workers = 2}).status();
  }
};

// In this process by any number of workers; by clients that send what they make; by two sites that share no disk, where
// what clients keep travels. Where nobody is waited for, what comes first is an accident elsewhere than in a
// simulation, and what is recorded of it gives the same bits again.
TEST_P(TenAlgorithmsTest, HoweverItIsRun_SameBits) {
  const Scenario scenario = TenScenario();
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  for (const int workers : {2, 3, 16}) {
    EXPECT_EQ(Simulate(scenario, workers, fmt::format("{}.sqlite", workers)).digests, one.digests) << workers;
  }
  EXPECT_OK(Replayed(scenario, "3.sqlite"));
  const Trace deployed = Deploy(scenario, "deployed.sqlite"), sites = BySites(scenario, "sites.sqlite");
  ASSERT_OK(deployed.status);
  ASSERT_OK(sites.status);
  if (GetParam().outlives_versions) {
    EXPECT_OK(Replayed(scenario, "deployed.sqlite"));
    EXPECT_OK(Replayed(scenario, "sites.sqlite"));
  } else {
    EXPECT_EQ(deployed.digests, one.digests);
    EXPECT_EQ(sites.digests, one.digests);
  }
}

// A process that is killed between rounds has written each of them, those of whole seconds, or none.
TEST_P(TenAlgorithmsTest, KilledUnderEachDurability_ResumedGivesTheSameBits) {
  Scenario scenario = TenScenario();
  scenario.run.rounds = 8;
  ExpectSameWhenKilled(scenario, [](const std::string&) {});
}

// One site's whole run, in the coordinator's process or as if from another one; its digests.
StatusOr<std::vector<std::string>> RunPixelSite(CoordinatorOptions options, bool elsewhere) {
  constexpr int64_t kPixelClients = 5;
  options.population = NumberedPopulation(kPixelClients);
  options.enforce_deadline = false;
  // Who comes first where nobody is waited for.
  options.task_time = [](const std::string& client_id) { return client_id.back() == '1' ? 4 : 2; };
  const std::string db = options.db_path;
  std::string run_id;
  {
    const PixelData data(kPixelClients);
    RIVULET_ASSIGN_OR_RETURN(const auto coordinator, Coordinator::Create(std::move(options)));
    run_id = coordinator->run_id();
    const auto states = NewStateStore(FileSystem::Default(), FolderOf(coordinator->folder()), true);
    Elsewhere api(*coordinator);
    ArtifactCache artifacts;
    StopSignal stop;
    SiteOptions site{.name = "site", .run_id = run_id, .most_tasks = 2, .states = elsewhere ? nullptr : states.get()};
    RIVULET_RETURN_IF_ERROR(
        Site(elsewhere ? static_cast<CoordinatorApi&>(api) : *coordinator, data, artifacts, stop, std::move(site))
            .Run());
    RIVULET_RETURN_IF_ERROR(coordinator->Wait());
  }
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const auto models, history->Models(run_id));
  std::vector<std::string> digests;
  for (const ModelRow& model : models) digests.push_back(model.digest);
  return digests;
}

// Whatever a server and clients keep for an algorithm (moments, control variates, their own models, what a codec left
// out, tasks that outlive versions) is found again as it was. Of the operations every 19th is tried, each algorithm
// beginning at another one; all with RIVULET_KILL_POINTS=all.
TEST_P(TenAlgorithmsTest, KilledAtDurableOperations_ResumedGivesTheSameBits) {
  const char* const wanted = std::getenv("RIVULET_KILL_POINTS");
  const bool all = wanted != nullptr && std::string_view(wanted) == "all";
  CoordinatorOptions options;
  options.scenario = testing::PixelFederation(5, 3);
  options.scenario.run.seed = 11;
  options.scenario.server.clients_per_round = 2;
  GetParam().set(options.scenario);
  ASSERT_OK_AND_ASSIGN(options.plan, ComposePlan(options.scenario, testing::PixelModel()));
  const testing::TempFolder whole(testing::TempFolder::Place::kMemory);
  options.db_path = whole.File("runs.sqlite");
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> expected, RunPixelSite(options, false));
  constexpr int kTried = 19;
  int points = 0, resumed = 0;
  for (const char* durability : {"round", "end"}) {
    for (const bool elsewhere : {false, true}) {
      // Where clients keep nothing, another process has nothing that could be lost.
      if (elsewhere && !GetParam().keeps_state && !all) continue;
      options.scenario.run.durability = durability;
      const int every = all ? 1 : kTried;
      for (int victim = all ? 1 : 1 + static_cast<int>(GetParam().name.size() + points) % every;; victim += every) {
        SCOPED_TRACE(fmt::format("{}{} killed at operation {}", durability, elsewhere ? " elsewhere" : "", victim));
        const testing::TempFolder folder(testing::TempFolder::Place::kMemory);
        options.db_path = folder.File("runs.sqlite");
        options.resume = "";
        ASSERT_OK((*History::Open(options.db_path, History::Access::kReadWrite))->Close());
        if (testing::EndsBefore(victim, options,
                                [&](CoordinatorOptions doomed) { return RunPixelSite(std::move(doomed), elsewhere); }))
          break;
        ++points;
        ASSERT_OK_AND_ASSIGN(const auto left, History::Open(options.db_path, History::Access::kReadOnly));
        if (left->ResolveRun("latest").ok()) options.resume = "latest";
        resumed += !options.resume.empty();
        ASSERT_OK_AND_ASSIGN(const std::vector<std::string> digests, RunPixelSite(options, elsewhere));
        ASSERT_EQ(digests, expected);
        ASSERT_OK_AND_ASSIGN(const auto history, History::Open(options.db_path, History::Access::kReadOnly));
        ASSERT_OK_AND_ASSIGN(const RunRow run, history->ResolveRun("latest"));
        EXPECT_EQ(run.status, "finished");
        ASSERT_OK_AND_ASSIGN(const auto rows, history->ClientRounds(run.run_id));
        std::set<TaskId> once;
        for (const ClientRoundRow& row : rows) EXPECT_TRUE(once.insert(row.task_id).second) << row.task_id;
        ASSERT_FALSE(HasFailure());
      }
    }
  }
  EXPECT_GT(points * (all ? 1 : kTried), 100);
  // Mostly half of them or more; how many operations come before the run's row depends on the threads.
  EXPECT_GT(resumed, points / 4);
  RecordProperty("points", points);
}

INSTANTIATE_TEST_SUITE_P(All, TenAlgorithmsTest, ::testing::ValuesIn(testing::TenAlgorithms()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rivulet
