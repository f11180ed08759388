#include "coordinator/rounds/members.h"

#include <algorithm>
#include <random>

#include "federated/privacy/sum_noise.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool Nobody(const std::string&) { return false; }

TEST(MembersTest, LateName_IsDrawnFromItsDrawOn) {
  Members members(7);
  members.BeginDraw({1, 1});
  members.Add("a", {1, 1}, "");
  members.Add("b", {1, 2}, "");
  EXPECT_EQ(members.size(), 2);
  EXPECT_EQ(members.eligible(), 1);
  EXPECT_THAT(members.Draw(2, Nobody), ElementsAre("a"));
  members.Add("c", {1, 1}, "");
  EXPECT_THAT(members.Draw(2, Nobody), IsEmpty()) << "the draw has begun";
  members.BeginDraw({2, 1});
  EXPECT_THAT(members.Draw(3, Nobody), ::testing::UnorderedElementsAre("a", "b", "c"));
}

TEST(MembersTest, NameThatLeft_IsNobodyUntilItJoinsAgain) {
  Members members(7);
  members.Add("a", {1, 1}, "aggregator");
  EXPECT_EQ(members.via("a"), "aggregator");
  members.Remove("a");
  members.Remove("nobody");
  EXPECT_FALSE(members.Knows("a"));
  EXPECT_EQ(members.size(), 0);
  EXPECT_THAT(members.Draw(1, Nobody), IsEmpty());
  members.Add("a", {1, 2}, "");
  EXPECT_TRUE(members.Knows("a"));
  EXPECT_EQ(members.via("a"), "");
  EXPECT_EQ(members.eligible(), 0);
}

TEST(MembersTest, WhoIsPassedOver_IsAsIfTheNextOneHadStoodThere) {
  std::vector<std::string> order;
  for (const bool whole : {true, false}) {
    Members members(7);
    for (int i = 0; i < 10; ++i) members.Add(fmt::format("c{}", i), {1, 1}, "");
    if (whole) {
      order = members.Draw(10, Nobody);
      continue;
    }
    const auto second = [&](const std::string& name) { return name == order[1]; };
    EXPECT_THAT(members.Draw(2, second), ElementsAre(order[0], order[2]));
    members.Remove(order[3]);
    EXPECT_THAT(members.Draw(1, second), ElementsAre(order[4]));
  }
}

TEST(MembersTest, NameThatWasPassedOver_StaysSoInThisDraw) {
  Members members(7);
  for (int i = 0; i < 3; ++i) members.Add(fmt::format("c{}", i), {1, 1}, "");
  std::set<std::string> absent = {"c1"};
  const auto away = [&](const std::string& name) { return absent.contains(name); };
  EXPECT_THAT(members.Draw(3, away), ::testing::UnorderedElementsAre("c0", "c2"));
  absent.clear();
  EXPECT_THAT(members.Draw(3, away), IsEmpty());
  members.BeginDraw({1, 2});
  EXPECT_THAT(members.Draw(3, away), ::testing::SizeIs(3));
}

// Every second time of members that are known beforehand, who can only leave and come back.
TEST(MembersTest, AnyJoiningAndLeaving_DrawsAsFromASortedList) {
  std::vector<std::string> known;
  for (int i = 0; i < 40; ++i) known.push_back(fmt::format("c{}", i));
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::shared_ptr<Population> population;
    if (seed % 2 == 1) population = *FixedPopulation(known);
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
    Members members(seed, population);
    std::map<std::string, Members::DrawAt> naive;
    for (const std::string& name : known) {
      if (population != nullptr) naive.emplace(name, Members::DrawAt{});
    }
    std::optional<std::vector<std::string>> order;  // of the draw that has begun, what is left of it
    std::set<std::string> left_since;
    Members::DrawAt draw;
    for (int step = 0; step < 100; ++step) {
      const std::string name = fmt::format("c{}", below(40));
      if (below(5) == 0) {
        if (naive.erase(name) > 0 && order) left_since.insert(name);
        members.Remove(name);
      } else {
        const Members::DrawAt from = {draw.round + below(2), 1 + below(3)};
        members.Add(name, from, "");
        naive.emplace(name, order ? std::max(from, Members::DrawAt{draw.round, draw.attempt + 1}) : from);
      }
      if (below(8) == 0) {
        draw = below(2) == 0 ? Members::DrawAt{draw.round, draw.attempt + 1} : Members::DrawAt{draw.round + 1, 1};
        members.BeginDraw(draw);
        order.reset();
        left_since.clear();
      }
      ASSERT_EQ(members.size(), static_cast<int64_t>(naive.size()));
      for (const auto& [member, from] : naive) ASSERT_TRUE(members.Knows(member));
      if (!order) {
        const auto eligible =
            std::count_if(naive.begin(), naive.end(), [&](const auto& m) { return m.second <= draw; });
        ASSERT_EQ(members.eligible(), eligible);
      }
      if (below(4) == 0) {
        if (!order) {
          std::vector<std::string> eligible;
          for (const auto& [member, from] : naive) {
            if (from <= draw) eligible.push_back(member);
          }
          order.emplace();
          LazyPermutation ranks = UniformPermutation(
              {seed, draw.round, draw.attempt, TaskKind::kTrain, static_cast<int64_t>(eligible.size())});
          while (const auto rank = ranks.Next()) order->push_back(eligible[static_cast<size_t>(*rank)]);
        }
        const std::set<std::string> pass_over = {fmt::format("c{}", below(40)), fmt::format("c{}", below(40))};
        const auto count = static_cast<size_t>(below(4));
        std::vector<std::string> cohort;
        while (cohort.size() < count && !order->empty()) {
          const std::string next = order->front();
          order->erase(order->begin());
          if (!left_since.contains(next) && !pass_over.contains(next)) cohort.push_back(next);
        }
        const auto passed_over = [&](const std::string& client_id) { return pass_over.contains(client_id); };
        ASSERT_EQ(members.Draw(static_cast<int64_t>(count), passed_over), cohort);
      }
      // A copy by way of what is saved goes on as this one does.
      Members copy(seed, population);
      copy.BeginDraw(draw);
      const auto listed = [](const std::set<std::string>& names) { return std::vector(names.begin(), names.end()); };
      copy.Restore(members.told(), listed(members.gone()), listed(members.leaving()), members.drawn());
      ASSERT_EQ(copy.size(), members.size());
      ASSERT_EQ(copy.leaving(), members.leaving());
      ASSERT_EQ(copy.drawn(), members.drawn());
      const std::vector<Members::Member> all = members.told(), again = copy.told();
      ASSERT_EQ(all.size(), again.size());
      for (size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i].client_id, again[i].client_id);
        ASSERT_EQ(all[i].from, again[i].from);
        ASSERT_EQ(all[i].from, std::max(draw, naive.at(all[i].client_id)));
      }
      members = std::move(copy);
    }
  }
}

TEST(MembersTest, NamesThatNoPopulationHas_AreNoMembers) {
  Members members(7, NumberedPopulation(100));
  EXPECT_EQ(members.eligible(), 100);
  members.Add("client-00100", {}, "");
  EXPECT_FALSE(members.Knows("client-00100"));
  EXPECT_TRUE(members.Knows("client-00099"));
  EXPECT_THAT(members.told(), ::testing::IsEmpty()) << "its members need not be told";
}

Members PoissonMembers(double rate, int names) {
  auto selector = Selector::Create({"poisson", {{"rate", rate}}});
  EXPECT_OK(selector);
  Members members(7, nullptr, *std::move(selector), 1000,
                  std::make_shared<const privacy::NoiseKey>(privacy::SeededKey(3)));
  for (int i = 0; i < names; ++i) members.Add(fmt::format("c{:03}", i), {1, 1}, "");
  return members;
}

// The first attempt draws more while it lacks some; nobody takes the place of another.
TEST(MembersTest, PoissonDraw_IsOfTheVersionInEveryAttemptAndEndsWithItsSample) {
  Members members = PoissonMembers(0.3, 200);
  members.BeginDraw({1, 1});
  const std::vector<std::string> first = members.Draw(1000, Nobody);
  EXPECT_GT(first.size(), 30u);
  EXPECT_LT(first.size(), 90u);
  EXPECT_THAT(members.Draw(1000, Nobody), IsEmpty());
  members.BeginDraw({1, 2});
  EXPECT_THAT(members.Draw(1000, Nobody), ::testing::UnorderedElementsAreArray(first));
  members.BeginDraw({2, 1});
  EXPECT_THAT(members.Draw(1000, Nobody), ::testing::Not(::testing::UnorderedElementsAreArray(first)));
}

TEST(MembersTest, PoissonDraw_ChangesForNobodyWhenOthersComeOrLeaveOrAreAbsent) {
  Members members = PoissonMembers(0.3, 200);
  members.BeginDraw({1, 1});
  std::vector<std::string> first = members.Draw(1000, Nobody);
  Members others = PoissonMembers(0.3, 200);
  for (int i = 0; i < 50; ++i) others.Add(fmt::format("b{:03}", i), {1, 1}, "");
  others.Remove(first[0]);
  others.Remove("c000");
  others.BeginDraw({1, 1});
  std::vector<std::string> second = others.Draw(1000, [&](const std::string& name) { return name == first[1]; });
  std::erase_if(second, [](const std::string& name) { return name[0] == 'b'; });
  const std::string gone = first[0], absent = first[1];
  std::erase_if(first, [&](const std::string& name) { return name == gone || name == absent || name == "c000"; });
  EXPECT_THAT(second, ::testing::UnorderedElementsAreArray(first));
}

}  // namespace
}  // namespace rivulet
