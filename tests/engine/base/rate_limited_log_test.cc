#include "engine/base/rate_limited_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class RateLimitedLogTest : public ::testing::Test {
 protected:
  std::vector<std::string> told_;
  RateLimitedLog::Clock::time_point now_{std::chrono::hours(1)};
  RateLimitedLog log_{[this](const std::string& sentence) { told_.push_back(sentence); }, [this] { return now_; }};
};

TEST_F(RateLimitedLogTest, SameSentence_IsToldOnceAMinute) {
  for (int i = 0; i < 10; ++i) log_.Tell("refused");
  EXPECT_THAT(told_, ElementsAre("refused"));
  now_ += std::chrono::seconds(61);
  log_.Tell("refused");
  EXPECT_THAT(told_, ElementsAre("refused", "9 more lines of this kind were left out", "refused"));
}

TEST_F(RateLimitedLogTest, ManySentences_AreTwentyAMinuteAndACount) {
  for (int i = 0; i < 5000; ++i) log_.Tell("name " + std::to_string(i));
  EXPECT_THAT(told_, SizeIs(20));
  log_.TellRest();
  log_.TellRest();
  ASSERT_THAT(told_, SizeIs(21));
  EXPECT_EQ(told_.back(), "4980 more lines of this kind were left out");
}

TEST_F(RateLimitedLogTest, AnotherBound_IsKept) {
  RateLimitedLog log([this](const std::string& sentence) { told_.push_back(sentence); }, [this] { return now_; }, 1);
  for (const char* sentence : {"a", "b", "c"}) log.Tell(sentence);
  EXPECT_THAT(told_, ElementsAre("a"));
  now_ += std::chrono::minutes(1);
  log.Tell("d");
  EXPECT_THAT(told_, ElementsAre("a", "2 more lines of this kind were left out", "d"));
}

TEST_F(RateLimitedLogTest, NothingLeftOut_IsNotCounted) {
  log_.Tell("a");
  now_ += std::chrono::minutes(2);
  log_.Tell("b");
  log_.TellRest();
  EXPECT_THAT(told_, ElementsAre("a", "b"));
}

TEST_F(RateLimitedLogTest, WordsOfStrangers_AreCleanedAndShortened) {
  log_.Tell("'a\n\x1b[2Jround 9: done\xe2\x80\xae' " + std::string(10'000, 'x'));
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_TRUE(told_[0].starts_with("'a??[2Jround 9: done?' xxx")) << told_[0];
  EXPECT_LE(told_[0].size(), 603u);
}

TEST(RateLimitedLog, WithoutAListener_TellsNobody) {
  RateLimitedLog log(nullptr);
  log.Tell("a");
  log.Tell("a");
  log.TellRest();
}

}  // namespace
}  // namespace rivulet
