// One client's side of one task, over any CoordinatorApi: fetch plan and model, train, submit. A deployed client's loop
// (client/agent.h) and a simulation's workers do nothing else.
//
// Calls that fail because the coordinator cannot be reached (UNAVAILABLE, DEADLINE_EXCEEDED) are repeated with backoff
// until the stop signal: a fetch goes on at the offset reached, a submission at the offset the coordinator has staged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "client/artifact_cache.h"
#include "client/backoff.h"
#include "client/stop_signal.h"
#include "client/trainer.h"
#include "engine/data/dataset.h"
#include "engine/profile/step_monitor.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// A data set that a client has bound to a name; nothing a plan says opens another.
struct BoundData {
  std::string name = "train";
  std::shared_ptr<const Dataset> dataset;
  std::optional<std::span<const uint32_t>> indices;  // this client's share; nothing: all. Outlives the task.
  int64_t size() const { return indices.has_value() ? static_cast<int64_t>(indices->size()) : dataset->size(); }
};

struct TaskReport {
  enum class Kind {
    kAccepted,
    kDuplicate,  // had been submitted before
    kRefused,    // by the coordinator; `reason` is its sentence
    kFailed,     // could not be done here; the coordinator was told `reason`
    kGone,       // the coordinator no longer knows the task: too late
  };
  Kind kind = Kind::kAccepted;
  std::string reason;
  int64_t examples = 0, steps = 0, bytes_up = 0;
  double train_loss = 0, train_seconds = 0;
};
std::string_view Name(TaskReport::Kind kind);  // "accepted", "duplicate", "refused", "failed", "too late"

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
  StatusOr<PollReply> Poll(const Caller& caller, const Capabilities& capabilities);

  // Does `task`. Whatever makes it impossible here (data that cannot be decoded, a plan that cannot be used) is
  // reported to the coordinator and is a TaskReport; a Status is CANCELLED after Stop, or PERMISSION_DENIED or
  // UNAUTHENTICATED when the coordinator turned the client away.
  StatusOr<TaskReport> Run(const Caller& caller, const Task& task, const BoundData& data);

 private:
  StatusOr<TaskReport> Perform(const Caller& caller, const Task& task, const BoundData& data);
  StatusOr<LocalResult> FetchAndTrain(const Caller& caller, const Task& task, const BoundData& data);
  StatusOr<std::string> Fetch(const Caller& caller, const Digest& digest);
  StatusOr<SubmitResult> Submit(const Caller& caller, const Task& task, const std::string& update);
  // After `status` of a call: true when it was transient and the wait is over; false when it is the caller's to handle.
  bool Pause(const Status& status, Backoff& backoff);

  CoordinatorApi& api_;
  ArtifactCache& artifacts_;
  StopSignal& stop_;
  const TaskRunnerOptions options_;
  std::unique_ptr<Trainer> trainer_;  // of the plan with digest trainer_plan_
  Digest trainer_plan_;
};

}  // namespace rivulet
