// Every way of selecting of the registry: a test for each of its options, and what its page says.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "federated/selection/selector.h"
#include "federated/settings/setting_tables.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

bool IsTest(const std::string& name) {
  const auto& program = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const auto& suite = *program.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      if (fmt::format("{}.{}", suite.name(), suite.GetTestInfo(k)->name()) == name) return true;
    }
  }
  return false;
}

// The test of this program that sees the effect of an option: one that does nothing does not exist.
TEST(SelectionCensus, EveryOption_HasATestThatSeesItsEffect) {
  const std::map<std::string, std::string> tests = {
      {"oort.clip", "Oort.Clip_MakesTheHighestUtilitiesOne"},
      {"oort.cutoff", "Oort.Cutoff_IsHowFarBelowTheBestOneMayBe"},
      {"oort.decay", "Oort.Decay_IsWhatIsLeftOfExplorationAfterARound"},
      {"oort.exploration", "Oort.Exploration_IsTheShareOfThoseWhoAreNew"},
      {"oort.least_exploration", "Oort.LeastExploration_IsWhereItStops"},
      {"oort.fast_enough", "Oort.SlowPenalty_LeavesSlowClientsForLater"},
      {"oort.slow_penalty", "Oort.SlowPenalty_IsTheExponentOfHowMuchTooLong"},
      {"oort.most_versions", "Oort.MostVersions_MakeRoomForOthers"},
      {"poisson.rate", "Poisson.Rate_IsHowOftenEachIsDrawn"},
      {"spaced.separation", "Spaced.Separation_IsHowManyVersionsApartOneIsDrawn"},
      {"power_of_choice.candidates", "PowerOfChoice.Candidates_AreHowManyAreCompared"},
      {"weighted.exponent", "Weighted.Exponent_IsHowMuchExamplesCount"},
  };
  size_t options = 0;
  for (const std::string& name : SettingTableNames("selection")) {
    for (const Setting& setting : FindSettingTable("selection", name).value()->settings) {
      const auto test = tests.find(fmt::format("{}.{}", name, setting.name));
      ASSERT_NE(test, tests.end()) << name << "." << setting.name << " has no test of its effect";
      EXPECT_TRUE(IsTest(test->second)) << test->second;
      EXPECT_FALSE(setting.example.empty()) << test->first;
      ++options;
    }
  }
  EXPECT_EQ(options, tests.size()) << "tests of options that there are not";
}

TEST(SelectionReference, IsWhatTheDocumentHolds) {
  const std::string path = std::string(RIVULET_SOURCE_DIR) + "/docs/reference/selection.md";
  std::ifstream file(path);
  std::string page{std::istreambuf_iterator<char>(file), {}};
  constexpr std::string_view kBegin = "<!-- selection: begin -->\n", kEnd = "<!-- selection: end -->\n";
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  ASSERT_NE(begin, std::string::npos) << path;
  ASSERT_NE(end, std::string::npos) << path;
  const size_t from = begin + kBegin.size();
  if (std::getenv("RIVULET_UPDATE_DOCS") != nullptr) {
    page.replace(from, end - from, SelectionReference());
    std::ofstream(path) << page;
    return;
  }
  EXPECT_EQ(page.substr(from, end - from), SelectionReference())
      << "run this test with RIVULET_UPDATE_DOCS=1 to bring docs/reference/selection.md up to date";
}

}  // namespace
}  // namespace rivulet
