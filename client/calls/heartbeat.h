// Thread that renews the lease of a client's task while it trains and uploads. A reply may say that the task is
// cancelled; the training then ends within a step.
//
//   Begin(task) ──→ Poll (working_on, want 0) … every so often ──→ End
//                     └→ cancelled, or the run is over: StopSignal::CancelTask
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "client/calls/stop_signal.h"
#include "engine/base/mutex.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

class Heartbeat {
 public:
  // Both must outlive this.
  Heartbeat(CoordinatorApi& api, StopSignal& stop) : api_(api), stop_(stop), thread_([this] { Run(); }) {}
  // Waits for a poll under way.
  ~Heartbeat();

  // From now on, `wait_ms` after now and then as often as the coordinator says. `request` is that of its own polls,
  // with what else is in its hands.
  void Begin(const PollRequest& request, const TaskId& task, int64_t wait_ms);
  // Nothing is said, and CancelTask not called, once this has returned. Waits for the answer to a poll under way: far
  // from the coordinator it may be the word that the run is over, which is said once to a caller.
  void End();
  // What a beat was told of the run: that it is over. Its coordinator counts on it, and may be gone.
  std::optional<PollReply::Over> over() const;

 private:
  using Clock = std::chrono::steady_clock;
  void Run();

  CoordinatorApi& api_;
  StopSignal& stop_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool leaving_ GUARDED_BY(mutex_) = false;
  PollRequest request_ GUARDED_BY(mutex_);  // names the task first; none: nothing is to be said
  bool asking_ GUARDED_BY(mutex_) = false;  // a poll is under way
  std::chrono::milliseconds wait_ GUARDED_BY(mutex_){0};
  Clock::time_point next_ GUARDED_BY(mutex_);
  std::optional<PollReply::Over> over_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace rivulet
