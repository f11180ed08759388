// Poisson sampling by names, and separation between versions.
#include "federated/selection/poisson_draw.h"

#include <cmath>
#include <set>
#include <vector>

#include "federated/privacy/sum_noise.h"
#include "federated/selection/selector.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

PoissonDraw DrawOf(uint64_t seed, int64_t version, double rate) {
  return PoissonDraw(CohortKey(privacy::SeededKey(seed), version), rate);
}

// Counts are binomial. Seeds are fixed, so a count that is out by five deviations is wrong on every machine.
TEST(Poisson, Rate_IsHowOftenEachIsDrawn) {
  constexpr int kNames = 2000, kVersions = 100;
  for (const double rate : {0.01, 0.3, 0.9}) {
    std::vector<int> by_name(kNames), by_version(kVersions);
    int64_t pairs = 0;  // neighbours in one draw
    for (int version = 0; version < kVersions; ++version) {
      const PoissonDraw draw = DrawOf(5, version + 1, rate);
      bool before = false;
      for (int name = 0; name < kNames; ++name) {
        const bool drawn = draw.Has(fmt::format("client-{:05}", name));
        by_name[static_cast<size_t>(name)] += drawn;
        by_version[static_cast<size_t>(version)] += drawn;
        pairs += drawn && before;
        before = drawn;
      }
    }
    const double of_name = std::sqrt(kVersions * rate * (1 - rate)), of_version = std::sqrt(kNames * rate * (1 - rate));
    double squares = 0;
    for (const int count : by_version) {
      EXPECT_NEAR(count, kNames * rate, 5 * of_version);
      squares += std::pow((count - kNames * rate) / of_version, 2);
    }
    EXPECT_NEAR(squares / kVersions, 1, 0.75) << "sizes vary as those of independent draws";
    for (const int count : by_name) EXPECT_NEAR(count, kVersions * rate, 6 * of_name + 1);
    const double expected = static_cast<double>(kNames - 1) * kVersions * rate * rate;
    EXPECT_NEAR(static_cast<double>(pairs), expected, 6 * std::sqrt(expected));
  }
}

TEST(Poisson, Draw_IsOfTheKeyTheVersionAndTheNameAlone) {
  const auto drawn = [](const PoissonDraw& draw) {
    std::set<int> names;
    for (int i = 0; i < 200; ++i)
      if (draw.Has(fmt::format("{}", i))) names.insert(i);
    return names;
  };
  const auto first = drawn(DrawOf(5, 1, 0.5));
  EXPECT_EQ(drawn(DrawOf(5, 1, 0.5)), first);
  EXPECT_NE(drawn(DrawOf(5, 2, 0.5)), first);
  EXPECT_NE(drawn(DrawOf(6, 1, 0.5)), first);
  const auto fewer = drawn(DrawOf(5, 1, 0.1));
  for (const int name : fewer) EXPECT_TRUE(first.contains(name)) << "who is in at a rate is in at each higher one";
  EXPECT_NE(SeedOf(CohortKey(privacy::SeededKey(5), 1)), SeedOf(CohortKey(privacy::SeededKey(5), 2)));
}

std::vector<int64_t> RanksOf(const std::string& name, const SettingValues& settings, const CohortDraw& draw) {
  const auto selector = Selector::Create({name, settings});
  EXPECT_OK(selector);
  const auto order = (*selector)->OrderOf(draw);
  std::vector<int64_t> ranks;
  while (const std::optional<int64_t> rank = order->Next()) ranks.push_back(*rank);
  return ranks;
}

TEST(Spaced, Separation_IsHowManyVersionsApartOneIsDrawn) {
  for (const int64_t separation : {1, 2, 4}) {
    std::vector<int64_t> last(12, -100);
    for (int64_t round = 1; round <= 40; ++round) {
      std::vector<CohortDraw::Known> known;
      for (int64_t rank = 0; rank < 12; ++rank) {
        const int64_t version = last[static_cast<size_t>(rank)];
        if (version > 0) known.push_back({rank, {.version = version}});
      }
      const auto ranks =
          RanksOf("spaced", {{"separation", separation}}, {.round = round, .members = 12, .wanted = 3, .known = known});
      ASSERT_GE(ranks.size(), 3u) << "nine of twelve rest at most";
      for (size_t i = 0; i < 3; ++i) {
        int64_t& version = last[static_cast<size_t>(ranks[i])];
        ASSERT_GE(round - version, separation);
        version = round;
      }
    }
  }
}

TEST(Spaced, WhenAllRest_NobodyIsDrawn) {
  const std::vector<CohortDraw::Known> known = {{0, {.version = 3}}, {1, {.version = 2}}};
  const CohortDraw draw = {.round = 4, .members = 2, .known = known};
  EXPECT_THAT(RanksOf("spaced", {{"separation", int64_t{3}}}, draw), ::testing::IsEmpty());
  EXPECT_THAT(RanksOf("spaced", {{"separation", int64_t{2}}}, draw), ::testing::ElementsAre(1));
}

}  // namespace
}  // namespace rivulet
