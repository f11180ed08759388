// Property: wherever a client's or an aggregator's machine loses its power, before or after any of its durable
// operations, and is switched on again, the run comes to the model of an undisturbed one; where tasks outlive versions,
// each version to what its rows say. The client holds finished updates, checkpoints its training after each step and
// may keep a state; the coordinator keeps reports, or not; an aggregator has durable operations only where it keeps
// them too. What federation.h asks of every run is asked too.
//
// Of each case every ninth point is tried, or all of them (RIVULET_KILL_POINTS=all). The coordinator's own are
// tests/coordinator/kill_test.cc, those between two calls of an upload transfer_kill_test.cc there.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/system/federation.h"

namespace rivulet::testing {
namespace {

struct KillPointsCase {
  const char* name;
  Death::Of dies;
  const char* algorithm;
  int64_t aggregators;
  uint64_t seed;  // a multiple of three: reports are kept
};

class KillPointsTest : public ::testing::TestWithParam<KillPointsCase> {};
INSTANTIATE_TEST_SUITE_P(
    Matrix, KillPointsTest,
    ::testing::Values(KillPointsCase{"Client", Death::Of::kClient, "fedavg", 0, 4},
                      KillPointsCase{"ClientReportsKept", Death::Of::kClient, "fedavg", 0, 3},
                      KillPointsCase{"ClientWithState", Death::Of::kClient, "scaffold", 0, 5},
                      KillPointsCase{"ClientWithStateReportsKept", Death::Of::kClient, "moon", 0, 6},
                      KillPointsCase{"ClientTasksOutliveVersions", Death::Of::kClient, "fedbuff", 0, 7},
                      KillPointsCase{"ClientThroughAggregator", Death::Of::kClient, "fedavg", 1, 9},
                      KillPointsCase{"AggregatorReportsKept", Death::Of::kAggregator, "fedavg", 1, 9},
                      KillPointsCase{"AggregatorWithStates", Death::Of::kAggregator, "scaffold", 1, 12},
                      KillPointsCase{"AggregatorTasksOutliveVersions", Death::Of::kAggregator, "fedbuff", 2, 15}),
    [](const auto& info) { return info.param.name; });

TEST_P(KillPointsTest, AtDurableOperations_TheRunComesToTheSame) {
  const KillPointsCase& c = GetParam();
  StormOptions options{
      .seed = c.seed,
      .algorithm = &*std::ranges::find(TenAlgorithms(), std::string_view(c.algorithm), &TenthAlgorithm::name),
      .calm = true,
      .aggregators = c.aggregators};
  options.everybody = !options.algorithm->outlives_versions;
  std::string reference;
  {
    Federation undisturbed(options);
    undisturbed.Go();
    ASSERT_FALSE(HasFailure()) << undisturbed.story();
    reference = undisturbed.last_digest();
  }
  const char* const wanted = std::getenv("RIVULET_KILL_POINTS");
  const int64_t every = wanted != nullptr && std::string_view(wanted) == "all" ? 1 : 9;
  options.death.of = c.dies;
  int64_t points = 0;
  for (options.death.operation = 1 + static_cast<int64_t>(c.seed) % every;; options.death.operation += every) {
    SCOPED_TRACE(fmt::format("dies at point {}", options.death.operation));
    Federation run(options);
    run.Go();
    if (options.everybody) {
      EXPECT_EQ(run.last_digest(), reference);
    }
    if (HasFailure()) {
      fmt::print(stderr, "{}", run.story());
      break;
    }
    if (!run.died()) break;
    ++points;
  }
  EXPECT_GT(points * every, 20);
  RecordProperty("points", static_cast<int>(points));
}

}  // namespace
}  // namespace rivulet::testing
