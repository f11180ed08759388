#include "engine/base/vlog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using testing::StatusIs;

class VlogTest : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::internal::CaptureStderr(); }
  void TearDown() override {
    ::testing::internal::GetCapturedStderr();
    ASSERT_OK(SetVlogLevels(""));
  }
  // All that was logged so far in this test.
  std::vector<std::string> lines() {
    logged_ += ::testing::internal::GetCapturedStderr();
    ::testing::internal::CaptureStderr();
    std::vector<std::string> lines;
    std::istringstream text(logged_);
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
  // One site per level, reached again and again.
  static void Log(int value) {
    RIVULET_VLOG(1, "one {}", value);
    RIVULET_VLOG(2, "two {}", value);
  }

 private:
  std::string logged_;
};

TEST_F(VlogTest, NothingSet_IsSilentAndEvaluatesNothing) {
  int evaluated = 0;
  RIVULET_VLOG(1, "{}", ++evaluated);
  Log(7);
  EXPECT_THAT(lines(), IsEmpty());
  EXPECT_EQ(evaluated, 0);
}

TEST_F(VlogTest, LevelOfThisModule_PrintsModuleLevelAndLine) {
  ASSERT_OK(SetVlogLevels("other=9,vlog_test=1"));
  Log(7);
  EXPECT_THAT(lines(),
              ElementsAre(MatchesRegex("V1 [0-9][0-9]:[0-9][0-9]:[0-9][0-9]\\.[0-9]+ vlog_test.cc:[0-9]+\\] one 7")));
}

TEST_F(VlogTest, LevelsSetAgain_ReachSitesThatHaveLogged) {
  ASSERT_OK(SetVlogLevels("vlog_test=2"));
  Log(1);
  ASSERT_OK(SetVlogLevels("vlog_test=1"));
  Log(2);
  ASSERT_OK(SetVlogLevels(""));
  Log(3);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("one 1"), HasSubstr("two 1"), HasSubstr("one 2")));
}

TEST_F(VlogTest, Wildcards_FirstThatFitsCounts) {
  ASSERT_OK(SetVlogLevels("vlog_t?st=1,v*=2"));
  Log(1);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("one 1")));
  ASSERT_OK(SetVlogLevels("*x*=1,v*_*t=2"));
  Log(2);
  EXPECT_EQ(lines().size(), 3u);
  ASSERT_OK(SetVlogLevels("2"));
  Log(3);
  EXPECT_EQ(lines().size(), 5u);
}

TEST_F(VlogTest, WrongSyntax_IsRefusedBySentenceAndChangesNothing) {
  ASSERT_OK(SetVlogLevels("vlog_test=1"));
  EXPECT_THAT(SetVlogLevels("vlog_test=two"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "'vlog_test=two' is no log level; write MODULE=LEVEL, such as program=2, or a level for all"));
  EXPECT_THAT(SetVlogLevels("a=1,,b=2"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'' is no log level")));
  EXPECT_THAT(SetVlogLevels("=1"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'=1' is no log level")));
  EXPECT_THAT(SetVlogLevels("program=10"), StatusIs(absl::StatusCode::kInvalidArgument,
                                                    "the log level of 'program' is 10; it must be between 0 and 9"));
  EXPECT_THAT(SetVlogLevels("program=-1"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("between 0 and 9")));
  Log(1);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("one 1")));
}

// The property: threads that log while levels change neither race nor tear lines.
TEST_F(VlogTest, ThreadsLogWhileLevelsChange_LinesAreWhole) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) Log(i);
    });
  for (int i = 0; i < 50; ++i) ASSERT_OK(SetVlogLevels(i % 2 == 0 ? "vlog_test=2" : ""));
  for (std::thread& thread : threads) thread.join();
  for (const std::string& line : lines()) EXPECT_THAT(line, HasSubstr("vlog_test.cc:"));
}

}  // namespace
}  // namespace rivulet
