// Site that trains for any client of the run: a worker of a simulation inside the coordinator's process, or a machine
// that the coordinator admits as a site (GrpcServerOptions::admit_sites). It takes several tasks per poll, trains them,
// and folds each update into an open partial sum with one record a task. It submits that sum when the coordinator asks
// for it. No single update is copied or sent. The sums are integers, so the bits do not depend on which site folded an
// update.
//
//   Poll ─→ queue ─→ train ─→ Take into the gathering's partial sum ─→ Poll (folded) … SubmitInPlace | Submit
//
// Clients that take one step from one base model are trained several at a time where the plan allows it
// (client/training/lane_step.h); their updates are folded while they are made. A device trains clients of any sizes
// together and folds their updates there (client/training/device/gpu_trainer.h).
//
// In the coordinator's process, models and partial sums pass in place. Elsewhere they are fetched and sent, calls are
// repeated while the coordinator cannot be reached, and a heartbeat renews the leases of the tasks in hand.
//
// Where updates are summed in steps under masks, an update becomes words, and the site plays its client's half of the
// protocol, as a deployed client does (client/secure/secure_half.h). It answers a step when the coordinator gives it
// the task again with that step's input.
//
// Memory beside the trainer: one partial sum per open gathering (the tasks of one attempt), or the words of each
// task that waits for the sum's step. A refused update leaves no trace in a partial sum. The coordinator folds all of
// it, or none.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/calls/coordinator_calls.h"
#include "client/calls/heartbeat.h"
#include "client/calls/stop_signal.h"
#include "client/secure/secure_half.h"
#include "client/site/remote_client_state.h"
#include "client/training/artifact_cache.h"
#include "client/training/device/training_device.h"
#include "client/training/task_trainer.h"
#include "engine/profile/step_monitor.h"
#include "federated/aggregation/aggregation.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Data sets of the clients that a site trains for. Thread-safe.
class ClientData {
 public:
  virtual ~ClientData() = default;
  // NOT_FOUND: this site has no data of that name.
  virtual StatusOr<BoundData> Of(std::string_view client_id) const = 0;
};

// Hook that modifies an update before it is folded; simulated attackers use it. Thread-safe.
class UpdateAttack {
 public:
  // Trains a task and returns its delta in wire order; the training leaves no trace.
  using TrainFn = std::function<StatusOr<std::vector<float>>(const Task& task)>;
  virtual ~UpdateAttack() = default;
  // Whether the client attacks; other clients' updates are not passed to Change.
  virtual bool Changes(std::string_view client_id) const = 0;
  // `values` is the part "delta", in wire order.
  virtual Status Change(const Task& task, const TrainFn& train, std::vector<float>& values) const = 0;
};

// Identities of the clients that a site trains for, in secure sums. Thread-safe.
class ClientIdentities {
 public:
  virtual ~ClientIdentities() = default;
  virtual StatusOr<std::shared_ptr<const SecureMember>> Of(const std::string& client_id) = 0;
};

struct SiteOptions {
  std::string name;  // "worker 0"
  std::string run_id;
  std::string version;
  // Most tasks in hand. The requested number follows from the duration of recent ones: short tasks are requested by the
  // dozen, and a site never takes two long ones while another has none.
  int64_t most_tasks = 16;
  // Fewest tasks per request: as many as a device trains at once.
  int64_t least_tasks = 1;
  // Keeps its partial sum open until the coordinator asks for it. Otherwise it submits each update alone: with more
  // sites than processors, each open sum would only cost memory, 8 bytes a parameter.
  bool holds = true;
  CallOptions calls;
  int64_t hold_ms = 20'000;  // how long a poll may wait for its answer when there is nothing to do
  Instruments instruments;
  // State of the clients, shared by all sites of this process; must outlive the site. Null: state is stored at the
  // coordinator (client/site/remote_client_state.h).
  ClientStateStore* states = nullptr;
  const UpdateAttack* attack = nullptr;  // null: none; must outlive the site
  TrainingDevice device;                 // that trains the tasks
  // For plans that protect single examples; null: only "seeded" noise is trained. Thread-safe.
  TaskTrainer::ExampleKeys example_keys = nullptr;
  // Null: updates are aggregated into partial sums for any plan, as in a replay; must outlive the site.
  ClientIdentities* identities = nullptr;
};

// A site. One per thread. Not thread-safe, except for Stop of its StopSignal.
class Site {
 public:
  // All must outlive the site. Over a network each site needs its own `stop`, which also cancels a single task.
  Site(CoordinatorApi& api, const ClientData& data, ArtifactCache& artifacts, StopSignal& stop, SiteOptions options);

  // Works until the run is over: OK, also when the run failed. CANCELLED after Stop; open partial sums are then lost,
  // with their tasks. Otherwise the coordinator's error; PERMISSION_DENIED: it admits no such site, or has refused this
  // one's partial sum. Tasks that cannot be done are reported to the coordinator. Calls EnterWorkerThread() on the
  // calling thread.
  Status Run();

 private:
  using Clock = std::chrono::steady_clock;
  struct OpenPartial {
    std::unique_ptr<Aggregation> aggregation;
    int64_t base_version = 0;  // of all its tasks
    std::vector<TaskRecord> records;
    size_t told = 0;  // number of the records that were reported as folded
  };

  PollRequest Request() const;  // with all tasks in hand
  StatusOr<PollReply> Ask();
  Status Obey(const PollReply& reply);
  Status GiveUp(const TaskId& task, std::string_view reason);
  Status Forget(const TaskId& cancelled, const PollReply& reply);
  Status HandOverPartial(uint64_t gather);
  StatusOr<SubmitResult> Send(uint64_t gather, OpenPartial open);
  void BeginBeat(const TaskId& task);
  bool EndBeat();  // false: the task has ended
  StatusOr<std::shared_ptr<const Model>> ModelOf(const BlobId& id, const Plan& plan);
  // The next task of the queue, together with those that can be trained at the same time.
  std::vector<Task> NextTasks();
  Status Work(std::span<const Task> tasks);
  StatusOr<TaskReport> Work(const Task& task);
  // Secure sums. A step ends with its submission; a task whose half refuses has failed.
  bool SumsInSteps() const;  // for the plan that was trained last
  Status BeginSteps(const Task& task, const LocalResult& trained, TaskReport& report);
  Status AnswerStep(const Task& task);
  // Reports a task that ended without being aggregated to the coordinator, with a reason of `kind`. While the site is
  // being stopped: CANCELLED, without a report.
  StatusOr<TaskReport> Tell(TaskReport::Kind kind, TaskFailure failure, std::string_view reason,
                            TaskReport report = {});
  // False: nothing was aggregated, and each task must be done alone.
  StatusOr<bool> WorkTogether(std::span<const Task> tasks);
  // Aggregates the trained ones among `tasks`, given by their indices. Sets refusals in `reports`, one per task.
  Status FoldTogether(std::span<const Task> tasks, std::vector<LocalResult>& trained, std::span<const size_t> which,
                      OpenPartial& open, std::span<TaskReport> reports);
  TaskTrainer::Sources SourcesOf(const Task& task);
  // Adds the record of an aggregated update.
  void Record(const Task& task, LocalResult& trained, double norm, double fold_seconds, OpenPartial& open);
  StatusOr<LocalResult> Train(const Task& task, bool leave);
  StatusOr<LocalResult> TrainAndChange(const Task& task);
  // The values of an update's only part.
  StatusOr<std::vector<float>> DeltaOf(const Task& task, const LocalResult& result) const;
  bool Changes(const Task& task) const;
  StatusOr<OpenPartial*> Open(const Task& task);

  CoordinatorApi& api_;
  const ClientData& data_;
  ArtifactCache& artifacts_;
  StopSignal& stop_;
  const SiteOptions options_;
  const Caller caller_;
  CoordinatorCalls calls_;
  std::unique_ptr<Heartbeat> heartbeat_;  // of a remote coordinator, known from the first model; null: in this process
  RemoteClientState remote_states_;
  TaskTrainer trainer_;
  Digest base_digest_;
  std::shared_ptr<const Model> base_;  // the model of base_digest_
  std::vector<float> changed_;         // the last update changed by options_.attack
  FloatRun changed_run_;               // over all of it
  std::deque<Task> queue_;
  struct InSteps {
    std::unique_ptr<SecureHalf> half;
    int answered = 0;  // the last step
  };
  std::map<TaskId, InSteps> in_steps_;
  std::map<uint64_t, OpenPartial> open_;  // by Task::gather
  Clock::time_point asked_;
  bool told_ = false;       // the reason of the wait was logged
  int64_t beat_ms_ = 1000;  // heartbeat interval of a site with tasks
  int64_t done_ = 0;        // tasks since asked_
  int64_t want_ = 1;
};

}  // namespace rivulet
