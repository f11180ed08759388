// Waits of a table: the remover of a waiter answers it, once, and no registration stays at the token.
#include "dataflow/resources/cancellable_wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace rivulet {
namespace {

// Whether a token holds a callback that holds `held`.
bool IsHeld(const std::shared_ptr<int>& held) { return held.use_count() > 1; }

TEST(CancellableWait, CancelledToken_GivesUpAtOnce) {
  const CancellationToken cancel = CancellationToken::Create();
  cancel.Cancel();
  int gave_up = 0;
  CancellableWait(cancel).Register([&] { ++gave_up; });
  EXPECT_EQ(gave_up, 1);
}

TEST(CancellableWait, CancelledLater_GivesUpThen) {
  const CancellationToken cancel = CancellationToken::Create();
  const CancellableWait wait(cancel);
  int gave_up = 0;
  wait.Register([&] {
    ++gave_up;
    wait.End();  // by the callback itself: it does not wait for itself
  });
  EXPECT_EQ(gave_up, 0);
  cancel.Cancel();
  EXPECT_EQ(gave_up, 1);
}

TEST(CancellableWait, Ended_NeverGivesUpAndIsForgotten) {
  for (const bool end_first : {false, true}) {
    const CancellationToken cancel = CancellationToken::Create();
    const CancellableWait wait(cancel);
    const auto held = std::make_shared<int>();
    int gave_up = 0;
    if (end_first) wait.End();
    wait.Register([&gave_up, held] { ++gave_up; });
    EXPECT_EQ(IsHeld(held), !end_first);
    wait.End();
    EXPECT_FALSE(IsHeld(held));
    cancel.Cancel();
    EXPECT_EQ(gave_up, 0);
  }
}

TEST(CancellableWait, WithoutAToken_IsNeverGivenUp) {
  const CancellableWait none, never{CancellationToken()};
  for (const CancellableWait& wait : {none, never}) {
    wait.Register([] { ADD_FAILURE(); });
    wait.End();
  }
}

// An event and a cancellation race for the waiter while it is registered: one of them answers, and afterwards the token
// holds nothing.
TEST(CancellableWait, EventAndCancellationAtOnce_AnswerOnce) {
  for (int round = 0; round < 2'000; ++round) {
    const CancellationToken cancel = CancellationToken::Create();
    const CancellableWait wait(cancel);
    const auto held = std::make_shared<int>();
    std::atomic<bool> taken{false};
    std::atomic<int> answers{0};
    std::thread event([&] {
      if (taken.exchange(true)) return;
      wait.End();
      ++answers;
    });
    std::thread cancelling([&] { cancel.Cancel(); });
    wait.Register([&, held] {
      if (taken.exchange(true)) return;
      wait.End();
      ++answers;
    });
    event.join();
    cancelling.join();
    EXPECT_EQ(answers, 1);
    EXPECT_FALSE(IsHeld(held));
  }
}

}  // namespace
}  // namespace rivulet
