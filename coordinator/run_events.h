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

// Thread-safe; its lock is taken last.
class RunEvents {
 public:
  using Callback = std::function<void()>;
  // All must outlive it. `on_left` hears, without the lock, that a batch was called and that
  // there is another.
  RunEvents(std::string run_id, const CoordinatorObserver& observer, RunHistory& history, const RunClock& clock,
            std::function<void()> on_left);

  // An event of the run, and of one of its clients.
  EventRow Note(std::string level, std::string message, int64_t round) const;
  EventRow NoteOf(std::string client_id, std::string level, std::string message, int64_t round, TaskId task = {}) const;
  void Say(EventRow event);       // to the observer
  void Tell(EventRow event);      // a row too; an event without a row still reaches the observer
  void Later(Callback callback);  // after those that were queued before

  // After a minute without news the run says what it awaits.
  void Begin();                                        // it says so at once
  void Heard();                                        // news that are no event
  TimeMs quiet_until() const { return quiet_until_; }  // 0: nobody listens, or the run has not begun

  // Calls what is queued, unless another thread does. One batch only: a caller is not kept for what others go on
  // queueing, and the run's own thread takes care of what it leaves.
  void Drain() EXCLUDES(mutex_);
  bool HasWork() const;  // for Drain
  // From Hold to Release nothing is called. Callbacks of Release come before those that were queued meanwhile.
  void Hold();
  void Release(std::vector<Callback> first);
  // The observer's on_finished is the last callback; WaitUntilEnd returns when it was called.
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
  std::optional<size_t> held_from_ GUARDED_BY(mutex_);  // while held: so many were queued before
  bool ended_ GUARDED_BY(mutex_) = false;               // on_finished has returned
  Status result_ GUARDED_BY(mutex_);                    // once ended_
};

}  // namespace rivulet
