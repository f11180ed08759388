// Selectors: the order that each gives, and the effects of its settings.
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "federated/random/streams.h"
#include "federated/selection/weighted_order.h"
#include "federated/settings/setting_tables.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::rivulet::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Known = CohortDraw::Known;

std::vector<int64_t> Ranks(Order& order, int64_t most = 1 << 20) {
  std::vector<int64_t> ranks;
  while (std::ssize(ranks) < most) {
    const std::optional<int64_t> rank = order.Next();
    if (!rank) break;
    ranks.push_back(*rank);
  }
  return ranks;
}

std::vector<int64_t> OrderBy(const std::string& name, const CohortDraw& draw, SettingValues settings = {}) {
  if (name == "poisson" && settings.empty()) settings = {{"rate", 0.5}};
  if (name == "spaced" && settings.empty()) settings = {{"separation", int64_t{1}}};
  const auto selector = Selector::Create({name, settings});
  EXPECT_OK(selector);
  return Ranks(*(*selector)->OrderOf(draw));
}

// Members 1, 4 and 7 of ten have taken part.
const std::vector<Known> kThree = {{1, {.version = 3, .versions = 2, .examples = 10, .loss = 0.5}},
                                   {4, {.version = 1, .versions = 1, .examples = 40, .loss = 2}},
                                   {7, {.version = 2, .versions = 1, .examples = 20, .loss = 1}}};

TEST(Selector, UnknownName_IsToldTheNearest) {
  EXPECT_THAT(Selector::Create({"ort"}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("Did you mean 'oort'?")));
}

TEST(Selector, EveryOne_GivesEachRankOnceAndTheSameAgain) {
  for (const std::string& name : SettingTableNames("selection")) {
    for (const std::span<const Known> known : {std::span<const Known>(), std::span<const Known>(kThree)}) {
      const CohortDraw draw = {.seed = 5, .round = 4, .members = 10, .wanted = 4, .known = known};
      const std::vector<int64_t> order = OrderBy(name, draw);
      EXPECT_EQ(order, OrderBy(name, draw)) << name;
      EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 10u) << name;
      EXPECT_EQ(order.size(), 10u) << name;
      CohortDraw next = draw;
      next.attempt = 2;
      EXPECT_NE(OrderBy(name, next), order) << name << ": each attempt has an order of its own";
    }
  }
}

TEST(Selector, NobodyAtAll_GivesNobody) {
  for (const std::string& name : SettingTableNames("selection")) EXPECT_TRUE(OrderBy(name, {}).empty()) << name;
}

TEST(Selector, EveryOne_CountsWhatItGave) {
  const auto order = UniformOrder({.members = 3});
  EXPECT_EQ(order->given(), 0);
  EXPECT_EQ(Ranks(*order).size(), 3u);
  EXPECT_FALSE(order->Next().has_value());
  EXPECT_EQ(order->given(), 3);
}

// What every cohort ever drawn depends on.
TEST(Uniform, Order_IsAPermutationOfTheDrawsOwnStream) {
  const CohortDraw draw = {.seed = 9, .round = 7, .attempt = 2, .kind = TaskKind::kEvaluate, .members = 100};
  LazyPermutation ranks(Draws(StreamFor(9, "", Purpose::kSelect, 7, 1), 1), 100);
  for (const int64_t rank : OrderBy("uniform", draw)) EXPECT_EQ(rank, *ranks.Next());
}

// How often each rank comes first, of so many draws.
std::map<int64_t, double> FirstOnes(const std::function<std::unique_ptr<Order>(const CohortDraw&)>& order_of,
                                    CohortDraw draw, int64_t draws) {
  std::map<int64_t, double> shares;
  for (draw.round = 1; draw.round <= draws; ++draw.round) {
    shares[*order_of(draw)->Next()] += 1.0 / static_cast<double>(draws);
  }
  return shares;
}

// A share's deviation over 20,000 draws is below 0.0036: what is out by four of them is wrong.
constexpr int64_t kDraws = 20'000;
constexpr double kOff = 0.0144;

TEST(Weighted, WhoComesFirst_IsInProportionToExamples) {
  const auto by_examples = [](const CohortDraw& draw) { return OrderByExamples(draw, 1); };
  // Two others weigh as the mean of the three, 70 / 3 each.
  const std::vector<Known> known = {{0, {.examples = 10}}, {2, {.examples = 40}}, {4, {.examples = 20}}};
  const auto shares = FirstOnes(by_examples, {.members = 5, .known = known}, kDraws);
  const double sum = 70 + 2 * 70.0 / 3;
  EXPECT_NEAR(shares.at(0), 10 / sum, kOff);
  EXPECT_NEAR(shares.at(1), 70 / 3.0 / sum, kOff);
  EXPECT_NEAR(shares.at(2), 40 / sum, kOff);
  EXPECT_NEAR(shares.at(3), 70 / 3.0 / sum, kOff);
  EXPECT_NEAR(shares.at(4), 20 / sum, kOff);
}

TEST(Weighted, WhoComesSecond_IsInProportionAmongTheOthers) {
  double second = 0, pairs = 0;
  const std::vector<Known> known = {{0, {.examples = 1}}, {1, {.examples = 3}}, {2, {.examples = 6}}};
  for (int64_t round = 1; round <= kDraws; ++round) {
    const auto order = OrderByExamples({.round = round, .members = 3, .known = known}, 1);
    if (*order->Next() != 2) continue;
    ++pairs;
    if (*order->Next() == 1) ++second;
  }
  EXPECT_NEAR(second / pairs, 0.75, 4 * std::sqrt(0.1875 / pairs));
}

TEST(Weighted, WhoWeighsNothing_ComesLast) {
  for (int64_t round = 1; round <= 100; ++round) {
    const auto order = WeightedOrder({.round = round, .members = 10, .known = kThree}, {1, 0, 1}, 1);
    EXPECT_EQ(Ranks(*order).back(), 4);
    const auto others = WeightedOrder({.round = round, .members = 10, .known = kThree}, {1, 2, 3}, 0);
    EXPECT_THAT(Ranks(*others, 3), ::testing::UnorderedElementsAre(1, 4, 7));
  }
}

TEST(Weighted, Exponent_IsHowMuchExamplesCount) {
  const CohortDraw draw = {.seed = 3, .members = 10, .known = kThree};
  EXPECT_EQ(OrderBy("weighted", draw, {{"exponent", 0.0}}), OrderBy("uniform", draw));
  const auto squares = [](const CohortDraw& with) { return OrderByExamples(with, 2); };
  const std::vector<Known> known = {{0, {.examples = 1}}, {1, {.examples = 3}}};
  EXPECT_NEAR(FirstOnes(squares, {.members = 2, .known = known}, kDraws).at(1), 0.9, kOff);
}

TEST(RoundRobin, WhoHasTakenPartLeastRecently_ComesFirst) {
  const std::vector<int64_t> order = OrderBy("round_robin", {.seed = 3, .round = 4, .members = 10, .known = kThree});
  EXPECT_THAT(std::vector(order.end() - 3, order.end()), ElementsAre(4, 7, 1));
}

// Twelve members and cohorts of five: nobody's updates are less than two versions apart.
TEST(RoundRobin, Cohorts_AreAsFarApartAsTheMembersAllow) {
  std::map<int64_t, Participation> taken;
  for (int64_t round = 1; round <= 60; ++round) {
    std::vector<Known> known;
    for (const auto& [rank, participation] : taken) known.push_back({rank, participation});
    std::vector<int64_t> cohort = OrderBy("round_robin", {.round = round, .members = 12, .wanted = 5, .known = known});
    cohort.resize(5);
    for (const int64_t rank : cohort) {
      EXPECT_TRUE(!taken.contains(rank) || round - taken[rank].version >= 2) << round;
      taken[rank].version = round;
    }
  }
  EXPECT_EQ(taken.size(), 12u);
}

TEST(PowerOfChoice, OfAllCandidates_ThoseWithTheHighestLossComeFirst) {
  const std::vector<int64_t> order = OrderBy(
      "power_of_choice", {.round = 4, .members = 10, .wanted = 2, .known = kThree}, {{"candidates", int64_t{10}}});
  EXPECT_THAT(std::vector(order.end() - 3, order.end()), ElementsAre(4, 7, 1)) << "after those who have none yet";
}

TEST(PowerOfChoice, Candidates_AreHowManyAreCompared) {
  const CohortDraw draw = {.seed = 8, .round = 4, .members = 3, .wanted = 1, .known = std::vector<Known>{}};
  std::vector<Known> known = kThree;
  for (size_t i = 0; i < known.size(); ++i) known[i].rank = static_cast<int64_t>(i);
  CohortDraw all = draw;
  all.known = known;
  EXPECT_EQ(OrderBy("power_of_choice", all, {{"candidates", int64_t{3}}}).front(), 1) << "whose loss is 2";
  const std::vector<int64_t> one = OrderBy("power_of_choice", all, {{"candidates", int64_t{1}}});
  EXPECT_EQ(one.front(), OrderBy("weighted", all).front()) << "nobody to be compared with";
  EXPECT_EQ(OrderBy("power_of_choice", all), OrderBy("power_of_choice", all, {{"candidates", int64_t{2}}}));
}

// Ten who are known, with utilities 1 to 10; ten who are not.
struct TwentyMembers {
  std::vector<Known> known;
  CohortDraw draw;
  explicit TwentyMembers(int64_t round = 100) {
    for (int64_t i = 0; i < 10; ++i) {
      known.push_back({i,
                       {.version = std::max<int64_t>(1, round - 1),
                        .versions = i,
                        .examples = 10,
                        .loss = 0.1 * static_cast<double>(i + 1)}});
    }
    draw = {.seed = 4, .round = round, .members = 20, .wanted = 10, .known = known};
  }
  // How many of the first `wanted` have taken part.
  int64_t Exploited(const SettingValues& settings) const {
    const std::vector<int64_t> order = OrderBy("oort", draw, settings);
    return std::count_if(order.begin(), order.begin() + draw.wanted, [](int64_t rank) { return rank < 10; });
  }
};

// Ten who are known and equally useful, of whom the last three took four times as long.
std::vector<Known> ThreeSlow() {
  std::vector<Known> known;
  for (int64_t i = 0; i < 10; ++i) {
    known.push_back({i, {.version = 99, .versions = 1, .examples = 10, .loss = 1, .duration = i < 7 ? 3.0 : 12.0}});
  }
  return known;
}

TEST(Oort, SlowPenalty_LeavesSlowClientsForLater) {
  const std::vector<Known> known = ThreeSlow();
  const CohortDraw draw = {.seed = 4, .round = 100, .members = 10, .wanted = 7, .known = known};
  const auto slow_of_first = [&](const SettingValues& settings) {
    const std::vector<int64_t> order = OrderBy("oort", draw, settings);
    return std::count_if(order.begin(), order.begin() + 7, [](int64_t rank) { return rank >= 7; });
  };
  const SettingValues none = {{"exploration", 0.0}, {"least_exploration", 0.0}, {"fast_enough", 0.5}};
  EXPECT_GT(slow_of_first(none), 0) << "it goes by use alone";
  SettingValues some = none;
  some["slow_penalty"] = 2.0;
  EXPECT_EQ(slow_of_first(some), 0);
  some["fast_enough"] = 0.9;  // which all are then
  EXPECT_EQ(OrderBy("oort", draw, some), OrderBy("oort", draw, none));
}

// (3 / 12)^2 of the others' utility, and the cutoff far below it.
TEST(Oort, SlowPenalty_IsTheExponentOfHowMuchTooLong) {
  const std::vector<Known> known = ThreeSlow();
  ASSERT_OK_AND_ASSIGN(const auto oort, Selector::Create({"oort",
                                                          {{"exploration", 0.0},
                                                           {"least_exploration", 0.0},
                                                           {"cutoff", 0.01},
                                                           {"slow_penalty", 2.0},
                                                           {"fast_enough", 0.5}}}));
  const auto first = [&](const CohortDraw& with) { return oort->OrderOf(with); };
  const auto shares = FirstOnes(first, {.round = 100, .members = 10, .wanted = 1, .known = known}, kDraws);
  double slow = 0;
  for (int64_t rank = 7; rank < 10; ++rank) slow += shares.contains(rank) ? shares.at(rank) : 0;
  EXPECT_NEAR(slow, 3.0 / 16 / (7 + 3.0 / 16), kOff);
  EXPECT_GT(slow, 0.01);
}

TEST(Oort, Exploration_IsTheShareOfThoseWhoAreNew) {
  const TwentyMembers first(1);
  EXPECT_EQ(first.Exploited({}), 1) << "0.9 of ten are new";
  EXPECT_EQ(first.Exploited({{"exploration", 0.5}}), 5);
}

TEST(Oort, Decay_IsWhatIsLeftOfExplorationAfterARound) {
  EXPECT_EQ(TwentyMembers(2).Exploited({{"decay", 0.5}, {"exploration", 0.8}}), 6);
  EXPECT_EQ(TwentyMembers(3).Exploited({{"decay", 0.5}, {"exploration", 0.8}}), 8);
}

TEST(Oort, LeastExploration_IsWhereItStops) {
  EXPECT_EQ(TwentyMembers(400).Exploited({}), 8);
  EXPECT_EQ(TwentyMembers(400).Exploited({{"least_exploration", 0.0}}), 10);
}

TEST(Oort, Cutoff_IsHowFarBelowTheBestOneMayBe) {
  const auto best_alone = [](double cutoff) {
    std::set<int64_t> drawn;
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      TwentyMembers members(400);
      members.draw.seed = seed;
      members.draw.wanted = 2;
      drawn.insert(OrderBy("oort", members.draw, {{"cutoff", cutoff}, {"least_exploration", 0.0}}).front());
    }
    return drawn;
  };
  EXPECT_THAT(best_alone(1), ElementsAre(8, 9));
  EXPECT_THAT(best_alone(0.5), Contains(5));
}

TEST(Oort, Clip_MakesTheHighestUtilitiesOne) {
  // Above the clipped quantile all count the same, so that with a cutoff of 1 any of them may come first.
  std::set<int64_t> drawn;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    TwentyMembers members(400);
    members.draw.seed = seed;
    members.draw.wanted = 1;
    drawn.insert(OrderBy("oort", members.draw, {{"cutoff", 1.0}, {"clip", 0.5}, {"least_exploration", 0.0}}).front());
  }
  EXPECT_THAT(drawn, ElementsAre(4, 5, 6, 7, 8, 9));
}

TEST(Oort, MostVersions_MakeRoomForOthers) {
  const std::vector<int64_t> order =
      OrderBy("oort", TwentyMembers(400).draw, {{"most_versions", int64_t{5}}, {"least_exploration", 0.0}});
  for (const int64_t rank : std::vector(order.begin(), order.begin() + 5)) EXPECT_LT(rank, 5);
}

TEST(Oort, WhoWasNotHeardOfForLong_IsWorthMore) {
  const std::vector<Known> known = {{0, {.version = 399, .versions = 1, .examples = 10, .loss = 1}},
                                    {1, {.version = 1, .versions = 1, .examples = 10, .loss = 1}}};
  const CohortDraw draw = {.round = 400, .members = 2, .wanted = 1, .known = known};
  EXPECT_EQ(OrderBy("oort", draw, {{"cutoff", 1.0}, {"least_exploration", 0.0}}).front(), 1);
}

TEST(Selector, SettingOutOfItsRange_IsRefused) {
  EXPECT_THAT(ErrorOf(Selector::Create({"oort", {{"decay", 1.5}}})),
              HasSubstr("decay must be at least 0 and at most 1"));
}

}  // namespace
}  // namespace rivulet
