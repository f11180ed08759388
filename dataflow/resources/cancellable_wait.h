// A wait that a cancellation may end: of a receive, a dequeue or a take that stands in its owner's table.
//
// The thread that takes the waiter out of the table, under the owner's lock, answers it: for an event, for the end of
// the owner, or for the cancellation. A token may call back at once, so the callback is registered without the owner's
// lock. The wait may have ended by then, so a callback that was registered too late is forgotten again.
//
//   waiter.wait = CancellableWait(cancel);   // then into the table, under the lock
//   wait.Register(give_up);                  // without the lock; give_up takes the waiter out, if it is still there
//   waiter.wait.End();                       // without the lock, by the thread that took it out, before it answers
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/program/cancellation.h"

namespace rivulet {

// Copies are the same wait. Thread-safe: End may come before Register, and while it runs.
class CancellableWait {
 public:
  CancellableWait() = default;  // never cancelled
  explicit CancellableWait(CancellationToken cancel) : state_(std::make_shared<State>(std::move(cancel))) {}

  // Once. `give_up` runs at most once: here when the token is cancelled already, else on the thread that cancels it. It
  // may still come a moment after End began on another thread, never after End has returned there. Nothing that holds
  // this wait need live on when Register returns.
  void Register(std::function<void()> give_up) const;
  // Waits for a `give_up` that runs on another thread.
  void End() const;

 private:
  struct State {
    explicit State(CancellationToken token) : cancel(std::move(token)) {}
    const CancellationToken cancel;
    Mutex mutex;
    bool ended GUARDED_BY(mutex) = false;
    uint64_t callback GUARDED_BY(mutex) = 0;
  };
  std::shared_ptr<State> state_;
};

}  // namespace rivulet
