#include "rpc/long_polls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace rivulet {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

// Jobs run when the test says so.
class HandExecutor : public Executor {
 public:
  void Run(std::function<void()> job) override { jobs.push_back(std::move(job)); }
  void RunAt(TimeMs, std::function<void()> job) override { later.push_back(std::move(job)); }
  int RunAll() {
    int ran = 0;
    for (; !jobs.empty(); ++ran) {
      const auto job = std::move(jobs.front());
      jobs.erase(jobs.begin());
      job();
    }
    return ran;
  }
  std::vector<std::function<void()>> jobs, later;
};

class HeldPollsTest : public ::testing::Test {
 protected:
  // A poll that is answered once `ready_` is set, or at the last.
  LongPolls::Ask Poll(const std::string& what) {
    return [this, what](bool last) {
      asked_.push_back(what);
      if (while_asked_) while_asked_();
      if (ready_ || last) answered_.push_back(what);
      return ready_ || last;
    };
  }
  HandExecutor executor_;
  LongPolls polls_{executor_};
  bool ready_ = false;
  std::function<void()> while_asked_;
  std::vector<std::string> asked_, answered_;
};

TEST_F(HeldPollsTest, SomethingToTell_IsAnsweredAtOnce) {
  ready_ = true;
  polls_.Hold("a", milliseconds(100), Poll("a"));
  EXPECT_THAT(answered_, ElementsAre("a"));
  polls_.News("");
  EXPECT_EQ(executor_.RunAll(), 0);
  executor_.later[0]();
  EXPECT_EQ(executor_.RunAll(), 0) << "its time is up, and it is gone";
}

TEST_F(HeldPollsTest, News_AsksThoseOfItsName) {
  polls_.Hold("a", milliseconds(100), Poll("a"));
  polls_.Hold("b", milliseconds(100), Poll("b"));
  polls_.Hold("b", milliseconds(100), Poll("second b"));
  asked_.clear();
  polls_.News("c");
  EXPECT_EQ(executor_.RunAll(), 0);
  polls_.News("b");
  polls_.News("b");
  executor_.RunAll();
  EXPECT_THAT(asked_, ElementsAre("b", "second b")) << "once, for news that came before it was asked";
  EXPECT_THAT(answered_, ElementsAre());
  ready_ = true;
  polls_.News("");
  executor_.RunAll();
  EXPECT_THAT(answered_, ElementsAre("a", "b", "second b"));
}

TEST_F(HeldPollsTest, NewsWhileItIsAsked_AsksOnceMore) {
  while_asked_ = [this] {
    while_asked_ = nullptr;
    polls_.News("a");
    ready_ = true;  // but its answer was made before
  };
  polls_.Hold("a", milliseconds(100), [this, ask = Poll("a")](bool last) {
    const bool was_ready = ready_;
    return ask(last) && was_ready;
  });
  EXPECT_THAT(asked_, ElementsAre("a", "a"));
  polls_.News("a");
  EXPECT_EQ(executor_.RunAll(), 0) << "it is answered";
}

TEST_F(HeldPollsTest, TimeIsUp_IsAnsweredWhateverThereIs) {
  polls_.Hold("a", milliseconds(100), Poll("a"));
  executor_.later[0]();
  executor_.RunAll();
  EXPECT_THAT(answered_, ElementsAre("a"));
}

TEST_F(HeldPollsTest, Close_AnswersAllAndHoldsNoneAnyMore) {
  polls_.Hold("a", milliseconds(100), Poll("a"));
  polls_.Close();
  executor_.RunAll();
  EXPECT_THAT(answered_, ElementsAre("a"));
  polls_.Hold("b", milliseconds(100), Poll("b"));
  EXPECT_THAT(answered_, ElementsAre("a", "b"));
}

// Every poll is answered, and every word of news is heard after it was said.
TEST(HeldPollsStressTest, NewsFromManyThreads_IsNeverLost) {
  constexpr int kPolls = 2000;
  std::vector<std::atomic<int>> word(8), heard(8);
  std::atomic<int> answered = 0;
  const auto executor = ThreadExecutor("polls", 3);
  LongPolls polls(*executor);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = fmt::format("{}", t);
      for (int i = 0; i < kPolls / 8; ++i) {
        std::atomic<bool> done = false;
        polls.Hold(name, std::chrono::minutes(5), [&, i](bool) {
          if (word[t] <= i) return false;
          heard[t] = i + 1;
          ++answered;
          done = true;
          return true;
        });
        ++word[t];
        polls.News(name);
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!done && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
        ASSERT_TRUE(done) << name << " " << i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, kPolls);
}

}  // namespace
}  // namespace rivulet
