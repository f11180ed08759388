// One client's side of one task, over any CoordinatorApi: fetch plan and model, train, submit. A deployed client's loop
// (client/agent.h) does nothing else.
//
// Calls that fail because the coordinator cannot be reached (UNAVAILABLE, DEADLINE_EXCEEDED) are repeated with backoff
// until the stop signal: a fetch goes on at the offset reached, a submission where the bytes that the coordinator has
// staged begin to differ.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "client/artifact_cache.h"
#include "client/backoff.h"
#include "client/stop_signal.h"
#include "client/task_trainer.h"
#include "engine/profile/step_monitor.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

struct TaskRunnerOptions {
  BackoffOptions backoff;
  int64_t chunk_bytes = 256 * 1024;  // of an upload
  // Before the wait for the next try after `status`.
  std::function<void(const Status& status, int64_t wait_ms)> on_retry;
  Instruments instruments;  // spans of each task and its phases, and what its steps cost
};

// Not thread-safe: one per thread. The thread has called EnterWorkerThread().
class TaskRunner {
 public:
  // All must outlive the runner.
  TaskRunner(CoordinatorApi& api, ArtifactCache& artifacts, StopSignal& stop, TaskRunnerOptions options = {});

  // Poll, repeated while the coordinator cannot be reached. CANCELLED after Stop; else the coordinator's error.
  StatusOr<PollReply> Poll(const PollRequest& request);

  // Does `task`. Whatever makes it impossible here (data that cannot be decoded, a plan that cannot be used) is
  // reported to the coordinator and is a TaskReport; a Status is CANCELLED after Stop, or PERMISSION_DENIED or
  // UNAUTHENTICATED when the coordinator turned the client away.
  StatusOr<TaskReport> Run(const Caller& caller, const Task& task, const BoundData& data);

 private:
  StatusOr<TaskReport> Perform(const Caller& caller, const Task& task, const BoundData& data);
  StatusOr<std::string> Fetch(const Caller& caller, const BlobId& id);
  StatusOr<SubmitResult> Submit(const Caller& caller, const Submission& submission, const std::string& update);
  // After `status` of a call: true when it was transient and the wait is over; false when it is the caller's to handle.
  bool Pause(const Status& status, Backoff& backoff);

  CoordinatorApi& api_;
  ArtifactCache& artifacts_;
  StopSignal& stop_;
  const TaskRunnerOptions options_;
  TaskTrainer trainer_;
};

}  // namespace rivulet
