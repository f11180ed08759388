// A wait that a cancellation may end: of a receive, a dequeue or a take that is in its owner's table.
//
// The thread that removes the waiter from the table, under the owner's lock, answers it: after an event, at the end of
// the owner, or after a cancellation. A token may call back at once, so the callback is registered without the owner's
// lock. The wait may have ended by then; in that case the callback is unregistered again.
//
//   waiter.wait = CancellableWait(cancel); // then into the table, under the lock
//   wait.Register(give_up); // without the lock; give_up removes the waiter, if it is still there
//   waiter.wait.End(); // without the lock, by the thread that removed it, before it answers
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/program/cancellation.h"

namespace rivulet {

// Copies share one wait. Thread-safe: End may be called before or during Register.
class CancellableWait {
 public:
  CancellableWait() = default;  // never cancelled
  explicit CancellableWait(CancellationToken cancel) : state_(std::make_shared<State>(std::move(cancel))) {}

  // Call once. `give_up` runs at most once: here if the token is already cancelled, else on the thread that cancels it.
  // It may still start just after End began on another thread, but never after End has returned. The owner of this wait
  // need not live until Register returns.
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
