// Thread that renews the lease of a client's task while it trains and uploads. A reply may say that the task is
// cancelled; the training then ends within a step.
//
//   Begin(task) ──→ Poll (working_on, want 0) … every so often ──→ End
//                     └→ cancelled, or the run is over: StopSignal::CancelTask
//
// Where tasks have steps, this thread also answers them beside the training. Its polls then wait at the coordinator for
// the next step, as long as a lease allows.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "client/calls/stop_signal.h"
#include "engine/base/mutex.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Steps of a client's tasks, answered beside a training. Thread-safe.
class StepWork {
 public:
  virtual ~StepWork() = default;
  // The tasks with these steps, each with the last step that has begun here.
  virtual std::vector<TaskProgress> InHand() const = 0;
  // Handles a reply. `beside`: during a training, whose lease is not renewed before this returns.
  virtual void Take(const Caller& caller, const PollReply& reply, bool beside) = 0;
  // Answers steps that need no reply.
  virtual void Answer(const Caller& caller, bool beside) = 0;
  // Whether an answer failed to be sent, and waits to be sent again.
  virtual bool HasUnsent() const = 0;
};

class Heartbeat {
 public:
  // Both must outlive this.
  Heartbeat(CoordinatorApi& api, StopSignal& stop) : api_(api), stop_(stop), thread_([this] { Run(); }) {}
  // Waits for a poll in flight.
  ~Heartbeat();

  // Starts polling for `task`: first after `wait_ms`, then as often as the coordinator says. `request` is the caller's
  // own poll, with its other tasks in hand. `steps` may be null, and must outlive this.
  void Begin(const PollRequest& request, const TaskId& task, int64_t wait_ms, StepWork* steps = nullptr);
  // A task in steps has begun: polls at once.
  void StepsBegan();
  // Stops polling: CancelTask is not called for this task after it has returned. Waits for the reply to a poll in
  // flight, which may be the end of the run; a coordinator sends that to each caller once. A poll that waits at the
  // coordinator is not waited for: its reply is given to `steps`, and the end of the run calls CancelTask.
  void End();
  // The end of the run, if a poll of this thread received it. The coordinator may be gone by then and not repeat it.
  std::optional<PollReply::Over> over() const;

 private:
  using Clock = std::chrono::steady_clock;
  void Run();
  static PollRequest RequestWithSteps(PollRequest request, std::span<const TaskProgress> steps,
                                      std::chrono::milliseconds wait);

  CoordinatorApi& api_;
  StopSignal& stop_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool leaving_ GUARDED_BY(mutex_) = false;
  PollRequest request_ GUARDED_BY(mutex_);  // its first task is the current one; no task: idle
  StepWork* steps_ GUARDED_BY(mutex_) = nullptr;
  int64_t begun_ GUARDED_BY(mutex_) = 0;    // counts Begin
  bool asking_ GUARDED_BY(mutex_) = false;  // a poll is in flight
  bool held_ GUARDED_BY(mutex_) = false;    // and may wait at the coordinator
  std::chrono::milliseconds wait_ GUARDED_BY(mutex_){0};
  Clock::time_point next_ GUARDED_BY(mutex_);
  std::optional<PollReply::Over> over_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace rivulet
