// Deployed client: one name, its bound data sets, and the loop poll, fetch, train, submit until the run ends. It may
// die and restart at any moment. Its task is leased to its name, and training it again gives the same update.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/agent/persisted_updates.h"
#include "client/agent/task_runner.h"
#include "client/calls/backoff.h"
#include "client/calls/heartbeat.h"
#include "client/calls/send_submission.h"
#include "client/calls/stop_signal.h"
#include "client/training/artifact_cache.h"
#include "client/training/training_checkpoint.h"
#include "engine/profile/step_monitor.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Callbacks for logs and progress, called from the agent's thread.
struct AgentObserver {
  std::function<void(const Awaited& awaited, int64_t wait_ms)> on_wait;
  std::function<void(const Task& task)> on_task;
  std::function<void(const Task& task, const TaskReport& report)> on_report;
  std::function<void(const TaskOutcome& outcome)> on_outcome;           // of an earlier task
  std::function<void(const Status& status, int64_t wait_ms)> on_retry;  // the coordinator cannot be reached
  std::function<void(const PollReply::Over& over)> on_over;
};

struct AgentOptions {
  std::string client_id;
  std::string certificate_serial;
  std::string version;  // of this software, for the coordinator's log
  std::vector<BoundData> data;
  BackoffOptions backoff;
  int64_t chunk_bytes = kSubmissionChunkBytes;
  int64_t max_upload_rate = 0;  // in bytes per second; 0: no limit
  AgentObserver observer;
  Instruments instruments;
  int64_t memory_budget = 0;  // peak bytes of a task, and of any download; 0: those of available_memory, and of a plan
                              // kMaxPlanBytes
  std::function<int64_t()> available_memory = nullptr;  // bytes available now; null: no bound
  // Called before each poll. Returns the reason why no task is wanted now, for on_wait; "", or null: one is wanted. The
  // coordinator skips a client that does not poll.
  std::function<std::string()> unwilling;
  int64_t hold_ms = 20'000;                     // how long the coordinator may delay its reply while there is no task
  std::function<void(int64_t ms)> sleep;        // null: the wall clock
  std::shared_ptr<ArtifactCache> artifacts;     // null: its own; agents in one process may share
  std::shared_ptr<ClientStateStore> states;     // null: plans with client state are refused
  std::shared_ptr<PersistedUpdates> persisted;  // null: updates are not written to disk
  std::shared_ptr<TrainingCheckpoint> checkpoint;  // null: an interrupted training starts anew
  std::shared_ptr<PrivacyLedger> ledger;           // null: no budget of privacy
  std::shared_ptr<ExampleAccounts> examples;       // null: plans that protect single examples are refused
  TrainerFactory trainers = nullptr;               // null: on the host; checkpoints need the host
  // Null: plans with secure aggregation are refused.
  std::shared_ptr<const SecureIdentity> secure;
  std::shared_ptr<ReceiptKeeper> receipts;  // null: none are asked for
};

class Agent {
 public:
  // `api` must outlive the agent.
  Agent(CoordinatorApi& api, AgentOptions options);

  // Works until the coordinator says that the run is over: OK. CANCELLED after Stop. Any other error is permanent: the
  // coordinator has rejected this client. Calls EnterWorkerThread() on the calling thread.
  Status Run();

  // Ends a wait at once, and a training before its next kernel. May be called from another thread.
  void Stop() { stop_.Stop(); }

 private:
  void TellOver(const PollReply::Over& over, const std::string& run_id);
  // Sends words that are too long to be sent while the lease of their task is not renewed.
  void SendWords(SecureTasks& secure, Heartbeat& heartbeat, const PollRequest& request, int64_t beat_ms);
  void Settle(const TaskOutcome& outcome, const std::string& run_id);

  CoordinatorApi& api_;
  const AgentOptions options_;
  std::shared_ptr<ArtifactCache> artifacts_;
  StopSignal stop_;
  const uint64_t session_;
  TaskId settled_;  // the last durable task
};

}  // namespace rivulet
