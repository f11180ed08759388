// Callbacks of a run: one at a time, in order, without a lock; and the history, which closes after its last use.
#include "coordinator/run_events.h"

#include <gmock/gmock.h>

#include <semaphore>
#include <thread>

#include "test_run.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RunEventsTest : public ::testing::Test {
 protected:
  void Later(const std::string& text) {
    events_.Later([this, text] { heard_.push_back(text); });
  }

  TestFolder folder_;
  int64_t now_ms_ = 1000;
  RunClock clock_{[this] { return now_ms_; }};
  CoordinatorObserver observer_;
  RunHistory history_{*History::Open(folder_.db(), History::Access::kReadWrite)};
  int left_ = 0;
  RunEvents events_{"run", observer_, history_, clock_, [this] { ++left_; }};
  std::vector<std::string> heard_;
};

TEST_F(RunEventsTest, Drain_CallsInTheOrderQueued) {
  EXPECT_FALSE(events_.HasWork());
  Later("1");
  Later("2");
  EXPECT_TRUE(events_.HasWork());
  EXPECT_THAT(heard_, IsEmpty());
  events_.Drain();
  EXPECT_THAT(heard_, ElementsAre("1", "2"));
  EXPECT_EQ(left_, 0);
}

TEST_F(RunEventsTest, QueuedByACallback_IsLeftForTheNextAndSaid) {
  events_.Later([this] {
    Later("2");
    events_.Drain();  // another is at it
    heard_.push_back("1");
  });
  events_.Drain();
  EXPECT_THAT(heard_, ElementsAre("1"));
  EXPECT_EQ(left_, 1);
  events_.Drain();
  EXPECT_THAT(heard_, ElementsAre("1", "2"));
}

TEST_F(RunEventsTest, Held_ItsOwnComeBeforeThoseQueuedMeanwhile) {
  Later("before");
  events_.Hold();
  Later("meanwhile");
  events_.Drain();
  EXPECT_FALSE(events_.HasWork());
  EXPECT_THAT(heard_, IsEmpty());
  std::vector<RunEvents::Callback> first;
  first.emplace_back([this] { heard_.push_back("first"); });
  first.emplace_back([this] { heard_.push_back("second"); });
  events_.Release(std::move(first));
  events_.Drain();
  EXPECT_THAT(heard_, ElementsAre("before", "first", "second", "meanwhile"));
}

TEST_F(RunEventsTest, WaitUntilEnd_CallsWhatNobodyElseDoes) {
  observer_.on_finished = [this](const Status& status) { heard_.push_back(std::string(Message(status))); };
  Later("1");
  std::thread waiting([&] { EXPECT_THAT(events_.WaitUntilEnd(), StatusIs(absl::StatusCode::kAborted, "why")); });
  events_.End(Aborted("why"));
  waiting.join();
  EXPECT_THAT(heard_, ElementsAre("1", "why"));
  EXPECT_FALSE(events_.WaitUntilEnd().ok()) << "whoever asks later hears the same";
}

TEST_F(RunEventsTest, QuietUntil_OnlyWhereSomebodyListens) {
  events_.Begin();
  events_.Heard();
  EXPECT_EQ(events_.quiet_until(), 0);
  observer_.on_event = [this](const EventRow& event) { heard_.push_back(event.message); };
  events_.Begin();
  EXPECT_EQ(events_.quiet_until(), 1000);
  events_.Say(events_.Note("info", "said", 3));
  EXPECT_EQ(events_.quiet_until(), 61'000);
  events_.Drain();
  EXPECT_THAT(heard_, ElementsAre("said"));
}

TEST_F(RunEventsTest, Close_WaitsForWhoeverAsks) {
  std::binary_semaphore asking(0), go_on(0);
  std::thread asks([&] {
    EXPECT_EQ(history_.WhileOpen([&] {
      asking.release();
      go_on.acquire();
      return history_->Runs().ok();
    }),
              true);
  });
  asking.acquire();
  std::thread closes([&] { history_.Close(); });
  go_on.release();
  asks.join();
  closes.join();
  EXPECT_EQ(history_.WhileOpen([] { return 1; }), std::nullopt);
}

}  // namespace
}  // namespace rivulet
