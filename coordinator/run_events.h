// Notifications of a run's observer, and its events as rows. Callbacks are queued under any lock and called without
// one, one at a time and in the order in which they were queued.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/run_clock.h"
#include "coordinator/run_history.h"
#include "engine/base/mutex.h"

namespace rivulet {

// Queue of callbacks. Thread-safe; its lock is taken last.
class RunEvents {
 public:
  using Callback = std::function<void()>;
  // All arguments must outlive it. `on_left` is called, without the lock, when a batch was called and another
  // waits.
  RunEvents(std::string run_id, const CoordinatorObserver& observer, RunHistory& history, const RunClock& clock,
            std::function<void()> on_left);

  // Makes an event of the run, and one of a client.
  EventRow Note(std::string level, std::string message, int64_t round) const;
  EventRow NoteOf(std::string client_id, std::string level, std::string message, int64_t round, TaskId task = {}) const;
  void Say(EventRow event);       // to the observer
  void Tell(EventRow event);      // writes a row too; if that fails, the event still reaches the observer
  void Later(Callback callback);  // after those queued before

  // After Begin, the run reports the reason of its wait after each minute without news.
  void Begin();                                        // the first report is made at once
  void Heard();                                        // news without an event
  TimeMs quiet_until() const { return quiet_until_; }  // 0: there is no listener, or the run has not begun

  // Calls the queued callbacks, unless another thread does. One batch only, so a caller never waits for callbacks that
  // others keep queueing; the run's own thread calls the rest.
  void Drain() EXCLUDES(mutex_);
  bool HasWork() const;  // for Drain
  // From Hold to Release no callback runs. Callbacks of Release precede those that were queued meanwhile.
  void Hold();
  void Release(std::vector<Callback> first);
  // Queues the observer's on_finished as the last callback; WaitUntilEnd returns after it was called.
  void End(Status result);
  Status WaitUntilEnd() EXCLUDES(mutex_);

 private:
  const std::string run_id_;
  const CoordinatorObserver& observer_;
  RunHistory& history_;
  const RunClock& clock_;
  const std::function<void()> on_left_;
  std::atomic<TimeMs> quiet_until_ = 0;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Callback> callbacks_ GUARDED_BY(mutex_);
  bool draining_ GUARDED_BY(mutex_) = false;
  std::optional<size_t> held_from_ GUARDED_BY(mutex_);  // while held: the number of callbacks queued before
  bool ended_ GUARDED_BY(mutex_) = false;               // on_finished has returned
  Status result_ GUARDED_BY(mutex_);                    // once ended_
};

}  // namespace rivulet
