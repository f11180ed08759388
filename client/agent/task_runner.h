// One client's side of one task, over any CoordinatorApi: fetch plan and model, train, submit. Calls are repeated while
// the coordinator cannot be reached (client/calls/coordinator_calls.h). Owned by the agent's loop
// (client/agent/agent.h).
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "client/agent/persisted_updates.h"
#include "client/agent/privacy_ledger.h"
#include "client/agent/receipt_keeper.h"
#include "client/agent/secure_tasks.h"
#include "client/calls/coordinator_calls.h"
#include "client/calls/stop_signal.h"
#include "client/training/artifact_cache.h"
#include "client/training/example_accounts.h"
#include "client/training/task_trainer.h"
#include "client/training/training_checkpoint.h"
#include "engine/profile/step_monitor.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

struct TaskRunnerOptions {
  CallOptions calls;
  Instruments instruments;                              // spans of each task and its phases, and the cost of its steps
  ClientStateStore* states = nullptr;                   // null: plans with client state are refused
  int64_t memory_budget = 0;                            // peak bytes of a task; 0: those of available_memory
  std::function<int64_t()> available_memory = nullptr;  // bytes available now; null: no bound
  PersistedUpdates* persisted = nullptr;                // null: updates are not written to disk
  TrainingCheckpoint* checkpoint = nullptr;             // null: an interrupted training starts anew
  PrivacyLedger* ledger = nullptr;                      // null: no budget of privacy
  ExampleAccounts* examples = nullptr;                  // null: plans that protect single examples are refused
  TrainerFactory trainers = nullptr;                    // null: on the host; checkpoints need the host
  SecureTasks* secure = nullptr;                        // null: plans with secure aggregation are refused
  ReceiptKeeper* receipts = nullptr;                    // null: none are asked for
};

// Runner of tasks. Not thread-safe: one per thread. The thread has called EnterWorkerThread().
class TaskRunner {
 public:
  // All must outlive the runner.
  TaskRunner(CoordinatorApi& api, ArtifactCache& artifacts, StopSignal& stop, TaskRunnerOptions options = {});

  // Poll, repeated while the coordinator cannot be reached. CANCELLED after Stop; else the coordinator's error.
  StatusOr<PollReply> Poll(const PollRequest& request) { return calls_.Poll(request); }

  // Does `task`. A failure of the task (data that cannot be decoded, a plan that cannot be used) is reported to the
  // coordinator and returned as a TaskReport. Errors: CANCELLED after Stop; PERMISSION_DENIED or UNAUTHENTICATED when
  // the coordinator rejects the client. A task of a secure sum returns as kInSteps once its words are made: SecureTasks
  // reports its end.
  StatusOr<TaskReport> Run(const Caller& caller, const Task& task, std::span<const BoundData> data);

  // The version that holds the task's update is durable.
  void CollectReceipt(const Caller& caller, const TaskId& task);
  // Of all updates that this process has sent and has no receipt of: before a task, and when the run is over. Each is
  // asked for once.
  void CollectReceipts(const Caller& caller);

  // Whether the last plan that was read sums updates under masks; nullopt: none was read.
  std::optional<bool> sums_securely() const { return sums_securely_; }

 private:
  StatusOr<TaskReport> Perform(const Caller& caller, const Task& task, std::span<const BoundData> data);
  // For a plan with secure aggregation: begins the task's steps, trains, and gives the steps the words of its update.
  StatusOr<TaskReport> TrainForSum(const Caller& caller, const Plan& plan, const Task& task,
                                   std::span<const BoundData> data, const TaskTrainer::Sources& sources);
  // An earlier result of this task; nullopt: there is none that may be sent.
  std::optional<FinishedWork> FindPersisted(const Caller& caller, const Task& task,
                                            const TaskTrainer::Sources& sources);
  // Checks before a training; charges before its update is sent. `sent_again`: the update may have been sent before. OK
  // without a ledger.
  enum class Ledger : uint8_t { kCheck, kCharge };
  Status AskLedger(Ledger what, const Task& task, const TaskTrainer::Sources& sources, bool sent_again = false);
  StatusOr<FinishedWork> TrainAndKeep(const Caller& caller, const Task& task, std::span<const BoundData> data,
                                      const TaskTrainer::Sources& sources);

  CoordinatorApi& api_;
  ArtifactCache& artifacts_;
  StopSignal& stop_;
  Tracer* const tracer_;
  ClientStateStore* const states_;
  PersistedUpdates* const persisted_;
  TrainingCheckpoint* const checkpoint_;
  SecureTasks* const secure_;
  PrivacyLedger* const ledger_;
  ReceiptKeeper* const receipts_;
  CoordinatorCalls calls_;
  TaskTrainer trainer_;
  TaskId lost_;  // the last task with a missing plan or model, and the number of successive times
  int times_lost_ = 0;
  std::optional<bool> sums_securely_;
};

}  // namespace rivulet
