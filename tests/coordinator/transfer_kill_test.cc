// Property: wherever in an upload a process dies, between any two of its calls, the run that is resumed gives the
// models of an undisturbed one. Updates of clients, and partials of a site of another process, each of several blocks;
// synchronous and where tasks outlive versions; whether or not what is acknowledged is kept.
//
// Of each case every third step is tried, or all of them (RIVULET_KILL_POINTS=all).
#include <cstdlib>
#include <string_view>

#include "killed_run.h"
#include "test_run.h"
#include "tests/testing/status_matchers.h"
#include "tiny_sites.h"

namespace rivulet {
namespace {

// An update has two blocks, a partial three.
constexpr int64_t kSentElements = 300'000, kSentRounds = 2, kSenders = 3, kSendersPerRound = 2;

struct TransferCase {
  const char* name;
  bool site, latest, keeps;
};

CoordinatorOptions OptionsOf(const TransferCase& c, const std::string& db) {
  CoordinatorOptions options;
  options.scenario = TinyScenario(kSenders, kSendersPerRound, kSentRounds);
  options.scenario.server.checkpoint_reports = c.keeps;
  options.db_path = db;
  options.task_time = [](const std::string& client_id) { return client_id.back() == '1' ? 4 : 2; };
  return options;
}

RunParts PartsOf(const TransferCase& c) {
  RunParts parts = TinyParts(kSentElements, kSendersPerRound);
  if (!c.latest) return parts;
  parts.policy = {TaskPolicy::Base::kLatest, kSenders - 1, 2, 0.5};
  parts.aggregation.staleness_bits = kStalenessBits;
  return parts;
}

StatusOr<std::map<int64_t, std::string>> RunInSteps(const TransferCase& c, CoordinatorOptions options,
                                                    const std::function<void()>& step) {
  if (c.site) {
    return RunTinySite(std::move(options), PartsOf(c), kSenders, SitePlace::kAnother, {.step = step});
  }
  FakeFleet fleet(options);
  Status failed;
  fleet.act = [&](Coordinator& coordinator, const std::string& client_id, const Task& task) {
    const std::string update =
        MakeUpdate(FakeDelta(task, *coordinator.model()), 10 + static_cast<int64_t>(client_id.back() - '0'));
    const auto sent = SendInBlocks(coordinator, As(client_id), Announce(task.id, update), update, step);
    if (!sent.ok()) failed = sent.status();
  };
  const std::string db = options.db_path;
  RIVULET_ASSIGN_OR_RETURN(const auto coordinator, CreateCoordinator(options, PartsOf(c)));
  RIVULET_RETURN_IF_ERROR(fleet.Run(*coordinator, Names(kSenders)));
  RIVULET_RETURN_IF_ERROR(failed);
  return DigestsOfRun(db, coordinator->run_id());
}

class TransferKillTest : public ::testing::TestWithParam<TransferCase> {};
INSTANTIATE_TEST_SUITE_P(Matrix, TransferKillTest,
                         ::testing::Values(TransferCase{"Updates", false, false, false},
                                           TransferCase{"UpdatesKept", false, false, true},
                                           TransferCase{"Partials", true, false, false},
                                           TransferCase{"PartialsKept", true, false, true},
                                           TransferCase{"PartialsLatest", true, true, false},
                                           TransferCase{"PartialsLatestKept", true, true, true}),
                         [](const auto& info) { return info.param.name; });

TEST_P(TransferKillTest, BetweenAnyTwoCalls_TheModelsAreTheSame) {
  const TransferCase& c = GetParam();
  TestFolder undisturbed;
  const auto reference = RunInSteps(c, OptionsOf(c, undisturbed.db()), nullptr);
  ASSERT_OK(reference);
  const char* const wanted = std::getenv("RIVULET_KILL_POINTS");
  const int every = wanted != nullptr && std::string_view(wanted) == "all" ? 1 : 3;
  const int first = every == 1 ? 1 : 1 + static_cast<int>(std::string_view(c.name).size() % 3);
  int points = 0;
  for (int victim = first;; victim += every) {
    SCOPED_TRACE(fmt::format("killed at step {}", victim));
    TestFolder folder;
    ASSERT_OK((*History::Open(folder.db(), History::Access::kReadWrite))->Close());
    CoordinatorOptions options = OptionsOf(c, folder.db());
    if (testing::EndsBefore(victim, options, [&](CoordinatorOptions doomed, std::function<void()> step) {
          return RunInSteps(c, std::move(doomed), step);
        })) {
      break;
    }
    ++points;
    {
      auto history = History::Open(folder.db(), History::Access::kReadOnly);
      ASSERT_OK(history);
      if ((*history)->ResolveRun("latest").ok()) options.resume = "latest";
    }
    const auto digests = RunInSteps(c, options, nullptr);
    ASSERT_OK(digests);
    EXPECT_EQ(*digests, *reference);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GE(points * every, 12);
  RecordProperty("points", points);
}

}  // namespace
}  // namespace rivulet
