#include "coordinator/rounds/members.h"

#include <algorithm>
#include <random>

#include "coordinator/selection/uniform.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MembersTest, LateName_IsDrawnFromItsDrawOn) {
  Members members;
  members.BeginDraw({1, 1});
  members.Add("a", {1, 1}, "");
  members.Add("b", {1, 2}, "");
  EXPECT_EQ(members.size(), 2);
  EXPECT_EQ(members.eligible(), 1);
  EXPECT_THAT(members.Draw(7, 2), ElementsAre("a"));
  members.BeginDraw({2, 1});
  EXPECT_THAT(members.Draw(7, 2), ::testing::UnorderedElementsAre("a", "b"));
}

TEST(MembersTest, NameThatLeft_IsNobodyUntilItJoinsAgain) {
  Members members;
  members.Add("a", {1, 1}, "tier");
  EXPECT_EQ(members.via("a"), "tier");
  members.Remove("a");
  members.Remove("nobody");
  EXPECT_FALSE(members.Knows("a"));
  EXPECT_EQ(members.size(), 0);
  EXPECT_THAT(members.Draw(7, 1), IsEmpty());
  members.Add("a", {1, 2}, "");
  EXPECT_TRUE(members.Knows("a"));
  EXPECT_EQ(members.via("a"), "");
  EXPECT_EQ(members.eligible(), 0);
}

TEST(MembersTest, AnyJoiningAndLeaving_DrawsAsFromASortedList) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
    Members members;
    std::map<std::string, Members::DrawAt> naive;
    Members::DrawAt draw;
    for (int step = 0; step < 60; ++step) {
      const std::string name = fmt::format("c{}", below(40));
      if (below(5) == 0) {
        members.Remove(name);
        naive.erase(name);
      } else {
        const Members::DrawAt from = {draw.round + below(2), 1 + below(3)};
        members.Add(name, from, "");
        naive.emplace(name, from);
      }
      if (below(6) == 0) {
        draw = below(2) == 0 ? Members::DrawAt{draw.round, draw.attempt + 1} : Members::DrawAt{draw.round + 1, 1};
        members.BeginDraw(draw);
      }
      std::vector<std::string> eligible;
      for (const auto& [member, from] : naive) {
        if (from <= draw) eligible.push_back(member);
      }
      ASSERT_EQ(members.size(), static_cast<int64_t>(naive.size()));
      ASSERT_EQ(members.eligible(), static_cast<int64_t>(eligible.size()));
      std::vector<std::string> cohort;
      for (const int64_t rank :
           SelectUniform(static_cast<int64_t>(eligible.size()), 5, seed, draw.round, draw.attempt)) {
        cohort.push_back(eligible[static_cast<size_t>(rank)]);
      }
      ASSERT_EQ(members.Draw(seed, 5), cohort);
      std::vector<std::string> all;
      members.ForEach([&](const std::string& member, Members::DrawAt from, const std::string&) {
        all.push_back(member);
        ASSERT_EQ(from, std::max(draw, naive.at(member)));
      });
      ASSERT_EQ(all.size(), naive.size());
      ASSERT_TRUE(std::is_sorted(all.begin(), all.end()));
    }
  }
}

}  // namespace
}  // namespace rivulet
