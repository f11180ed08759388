#include "engine/base/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <vector>

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(ClockTest, System_NeverGoesBack_AndKnowsTheYear) {
  Clock& clock = Clock::System();
  const TimeMs before = clock.Now();
  EXPECT_GE(before, 1);
  EXPECT_GE(clock.Now(), before);
  EXPECT_GT(clock.UnixMs(), 1'735'689'600'000);  // 2025-01-01
}

TEST(ClockTest, Manual_MovesWhenMoved) {
  ManualClock clock(1000);
  EXPECT_EQ(clock.Now(), 1);
  EXPECT_EQ(clock.UnixMs(), 1000);
  clock.Advance(250);
  EXPECT_EQ(clock.Now(), 251);
  EXPECT_EQ(clock.UnixMs(), 1250);
}

// Says what was run.
class InlineExecutorTest : public ::testing::Test {
 protected:
  std::function<void()> Say(std::string word) {
    return [this, word = std::move(word)] { said_.push_back(word); };
  }
  ManualClock clock_;
  std::vector<std::string> said_;
  std::unique_ptr<InlineExecutor> executor_ = InlineExecutor::Create(clock_);
};

TEST_F(InlineExecutorTest, RunAt_BeginsByTime_ThenAsGiven) {
  executor_->RunAt(30, Say("c"));
  executor_->RunAt(20, Say("a"));
  executor_->RunAt(20, Say("b"));
  executor_->Run(Say("now"));
  EXPECT_THAT(executor_->next(), Optional(1));
  EXPECT_EQ(executor_->RunDue(), 1);
  EXPECT_THAT(executor_->next(), Optional(20));
  clock_.Advance(100);
  executor_->Run(Say("late"));
  EXPECT_EQ(executor_->RunDue(), 4);
  EXPECT_THAT(said_, ElementsAre("now", "a", "b", "c", "late"));
  EXPECT_EQ(executor_->next(), std::nullopt);
  EXPECT_EQ(executor_->RunDue(), 0);
}

TEST_F(InlineExecutorTest, RunAt_TimeThatHasPassed_DoesNotOvertake) {
  clock_.Advance(50);
  executor_->Run(Say("first"));
  executor_->RunAt(2, Say("second"));
  executor_->RunDue();
  EXPECT_THAT(said_, ElementsAre("first", "second"));
}

TEST_F(InlineExecutorTest, RunDue_RunsWhatJobsGive_IfItIsDue) {
  executor_->Run([this] {
    executor_->RunAt(100, Say("tomorrow"));
    executor_->Run([this] { executor_->Run(Say("third")); });
  });
  EXPECT_EQ(executor_->RunDue(), 3);
  EXPECT_THAT(said_, ElementsAre("third"));
}

TEST_F(InlineExecutorTest, Destroyed_RunsWhatIsDue_DropsTheRest) {
  executor_->Run([this, executor = executor_.get()] { executor->Run(Say("given by the last")); });
  executor_->RunAt(100, Say("never"));
  executor_.reset();
  EXPECT_THAT(said_, ElementsAre("given by the last"));
}

TEST(ThreadExecutorTest, OneThread_RunsInOrder_AndEverythingBeforeItEnds) {
  std::vector<int> ran;
  {
    const auto executor = ThreadExecutor("one", 1);
    for (int i = 0; i < 1000; ++i) executor->Run([&ran, i] { ran.push_back(i); });
    executor->Run([&ran, at = executor.get()] { at->Run([&ran] { ran.push_back(1000); }); });
    executor->RunAt(Clock::System().Now() + 3'600'000, [&ran] { ran.push_back(-1); });
  }
  ASSERT_EQ(ran.size(), 1001u);
  for (int i = 0; i <= 1000; ++i) EXPECT_EQ(ran[static_cast<size_t>(i)], i);
}

// Each of two jobs waits for the other: done by one thread they would wait for ever.
TEST(ThreadExecutorTest, TwoThreads_RunAtOnce) {
  std::mutex mutex;
  std::condition_variable changed;
  int there = 0;
  const auto executor = ThreadExecutor("two threads with a long name", 2);
  const auto meet = [&] {
    std::unique_lock<std::mutex> lock(mutex);
    ++there;
    changed.notify_all();
    changed.wait(lock, [&] { return there >= 2; });
  };
  executor->Run(meet);
  executor->Run(meet);
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return there >= 2; });
}

// A thread that already waits for a later job is woken for an earlier one.
TEST(ThreadExecutorTest, RunAt_EarlierThanWhatIsWaitedFor_ComesInTime) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  const auto executor = ThreadExecutor("timer", 1);
  executor->RunAt(Clock::System().Now() + 3'600'000, [] {});
  const TimeMs due = Clock::System().Now() + 20;
  TimeMs ran = 0;
  executor->RunAt(due, [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    ran = Clock::System().Now();
    done = true;
    changed.notify_all();
  });
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return done; });
  EXPECT_GE(ran, due);
}

}  // namespace
}  // namespace rivulet
