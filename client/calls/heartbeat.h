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
  // Waits for a poll in flight.
  ~Heartbeat();

  // Starts polling for `task`: first after `wait_ms`, then as often as the coordinator says. `request` is the caller's
  // own poll, with its other tasks in hand.
  void Begin(const PollRequest& request, const TaskId& task, int64_t wait_ms);
  // Stops polling: CancelTask is not called after it has returned. Waits for the reply to a poll in flight, which may
  // be the end of the run; a coordinator sends that to each caller once.
  void End();
  // The end of the run, if a poll of this thread received it. The coordinator may be gone by then and not repeat it.
  std::optional<PollReply::Over> over() const;

 private:
  using Clock = std::chrono::steady_clock;
  void Run();

  CoordinatorApi& api_;
  StopSignal& stop_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool leaving_ GUARDED_BY(mutex_) = false;
  PollRequest request_ GUARDED_BY(mutex_);  // its first task is the current one; no task: idle
  bool asking_ GUARDED_BY(mutex_) = false;  // a poll is in flight
  std::chrono::milliseconds wait_ GUARDED_BY(mutex_){0};
  Clock::time_point next_ GUARDED_BY(mutex_);
  std::optional<PollReply::Over> over_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace rivulet
