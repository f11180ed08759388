// One buffer is used while the next is filled, and never a third, for any timing of the two threads.
#include "rpc/double_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <semaphore>
#include <thread>
#include <vector>

namespace rivulet {
namespace {

const auto kNobodyListens = [] {};

TEST(OneAheadTest, FirstThing_IsUsedAtOnceAndTheNextIsMadeBesideIt) {
  DoubleBuffer<int> line;
  const auto step = line.Offer(1, true);
  EXPECT_EQ(step.use, 1);
  EXPECT_TRUE(step.make);
}

TEST(OneAheadTest, ThingThatIsMadeMeanwhile_LiesThereAndItsMakerRestsUntilItIsTaken) {
  DoubleBuffer<int> line;
  line.Offer(1, true);
  const auto made = line.Offer(2, true);
  EXPECT_FALSE(made.use);
  EXPECT_FALSE(made.make);
  const auto next = line.Next(true, kNobodyListens);
  EXPECT_EQ(next.use, 2);
  EXPECT_TRUE(next.make);
}

TEST(OneAheadTest, NothingLiesThere_TheUserRestsUntilTheNextOffer) {
  DoubleBuffer<int> line;
  line.Offer(1, true);
  int rested = 0;
  const auto next = line.Next(true, [&] { ++rested; });
  EXPECT_FALSE(next.use);
  EXPECT_FALSE(next.make) << "its maker works already";
  EXPECT_EQ(rested, 1);
  EXPECT_EQ(line.Offer(2, true).use, 2);
}

TEST(OneAheadTest, MakerThatIsNotToWorkAhead_IsBegunWhenTheUserHasNothingLeft) {
  DoubleBuffer<int> line;
  const auto first = line.Offer(1, false);
  EXPECT_EQ(first.use, 1);
  EXPECT_FALSE(first.make);
  const auto rest = line.Next(false, kNobodyListens);
  EXPECT_FALSE(rest.use);
  EXPECT_TRUE(rest.make);
  EXPECT_EQ(line.Offer(2, true).use, 2);
  line.Offer(3, true);
  const auto third = line.Next(false, kNobodyListens);
  EXPECT_EQ(third.use, 3);
  EXPECT_FALSE(third.make);
  EXPECT_TRUE(line.Next(false, kNobodyListens).make);
}

TEST(OneAheadDeathTest, MakerThatGoesOnUnasked_EndsTheProcess) {
  DoubleBuffer<int> line;
  line.Offer(1, true);
  line.Offer(2, true);
  EXPECT_DEATH(line.Offer(3, true), "a second thing is made ahead");
}

// Each side is begun by the other alone, on a thread of its own; nothing is lost, doubled or overtaken, and at most two
// are there at any time.
TEST(OneAheadStressTest, TwoThreads_PassEachOtherAllOfThemInOrder) {
  constexpr int kThings = 20'000;
  DoubleBuffer<int> line;
  std::counting_semaphore<> make{1}, use{0};
  std::vector<int> used;
  std::atomic<int> begun = 0, ended = 0, in_hand = -1;  // the last is the user's, whoever has begun it
  int most = 0;
  std::thread maker([&] {
    for (int i = 0; i < kThings; ++i) {
      make.acquire();
      most = std::max(most, ++begun - ended);
      const auto step = line.Offer(i, i % 3 != 0);
      if (step.use) {
        in_hand = *step.use;
        use.release();
      }
      if (step.make) make.release();
    }
  });
  while (used.size() < kThings) {
    use.acquire();
    for (bool more = true; more;) {
      used.push_back(in_hand);
      ++ended;
      const auto step = line.Next(used.size() % 2 == 0, kNobodyListens);
      if (step.use) in_hand = *step.use;
      if (step.make) make.release();
      more = step.use.has_value();
    }
  }
  maker.join();
  for (int i = 0; i < kThings; ++i) ASSERT_EQ(used[static_cast<size_t>(i)], i);
  EXPECT_LE(most, 2);
}

}  // namespace
}  // namespace rivulet
