// A site that speaks for whichever of the run's names has a task: a worker of a simulation, in its coordinator's
// process, or a machine of a federation that admits such (GrpcServerOptions::admit_sites). It takes several tasks at a
// time, trains them, and folds each into a partial that it keeps open, with a record a task; what it holds it hands
// over when the coordinator asks. No update is copied or sent. Which bits come out cannot depend on who folded what:
// the sums are integers.
//
//   Poll ─→ queue ─→ train ─→ Take into the open partial of the task's gathering ─→ Poll (held) … SubmitInPlace |
//   Submit
//
// Tasks of clients who take one step from one base model are trained several at a time, where the plan allows it
// (client/training/lane_step.h), and their updates are folded while they are made. On a device beside the host clients
// of any sizes are (client/training/device/gpu_trainer.h), and their updates are folded there.
//
// Where the coordinator can, models and partials go to and fro in place. Otherwise they are fetched and sent, a
// coordinator that cannot be reached is waited for, and a heartbeat keeps the leases of what is in hand alive.
//
// Memory beside the trainer: one partial per gathering (the tasks of one attempt) that is open. An update that is
// refused leaves no trace in it. All of a partial is folded by the coordinator, or none.
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
#include "client/site/remote_client_state.h"
#include "client/training/artifact_cache.h"
#include "client/training/device/training_device.h"
#include "client/training/task_trainer.h"
#include "engine/profile/step_monitor.h"
#include "federated/aggregation/aggregation.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// The data of the names a site serves. Thread-safe.
class ClientData {
 public:
  virtual ~ClientData() = default;
  // NOT_FOUND: this site has no data of that name.
  virtual StatusOr<BoundData> Of(std::string_view client_id) const = 0;
};

// What becomes of an update between its training and its folding: those who mean ill, in a simulation. Thread-safe.
class UpdateAttack {
 public:
  // What the training of a task changes the model by, in wire order; nothing of it is kept or told.
  using TrainFn = std::function<StatusOr<std::vector<float>>(const Task& task)>;
  virtual ~UpdateAttack() = default;
  // Whose updates are changed; those of others are never seen.
  virtual bool Changes(std::string_view client_id) const = 0;
  // `values` is the part "delta", in wire order.
  virtual Status Change(const Task& task, const TrainFn& train, std::vector<float>& values) const = 0;
};

struct SiteOptions {
  std::string name;  // "worker 0"
  std::string run_id;
  std::string version;
  // Tasks in hand at a time at most. How many it asks for follows from how long its last ones took: those of some
  // milliseconds come by the dozen, and of those of seconds one site never takes two while another has none.
  int64_t most_tasks = 16;
  // So many it asks for at least: what a device trains at once.
  int64_t least_tasks = 1;
  // Keeps its partial open until it is asked for it. Otherwise it hands each update over by itself: more sites than
  // processors would only keep more memory, each a partial of 8 bytes a parameter.
  bool holds = true;
  CallOptions calls;
  int64_t hold_ms = 20'000;  // how long a poll may wait for its answer when there is nothing to do
  Instruments instruments;
  // What its names keep from task to task, of all sites of this process; must outlive the site. Null: it lies with the
  // coordinator (client/site/remote_client_state.h).
  ClientStateStore* states = nullptr;
  const UpdateAttack* attack = nullptr;  // null: none; must outlive the site
  TrainingDevice device;                 // where it trains
};

// One thread's. Not thread-safe, but for Stop of the signal that it was given.
class Site {
 public:
  // All must outlive the site. Over a network `stop` is this site's alone: it also ends a single task.
  Site(CoordinatorApi& api, const ClientData& data, ArtifactCache& artifacts, StopSignal& stop, SiteOptions options);

  // Works until the run is over: OK, also when it failed. CANCELLED after Stop; what is held then is lost, and its
  // tasks with it. Otherwise the coordinator's error; PERMISSION_DENIED: it admits no such site, or no longer this one,
  // whose partial it refused. Tasks that cannot be done are told to the coordinator. Calls EnterWorkerThread() on the
  // calling thread.
  Status Run();

 private:
  using Clock = std::chrono::steady_clock;
  struct OpenPartial {
    std::unique_ptr<Aggregation> aggregation;
    int64_t base_version = 0;  // of all its tasks
    std::vector<TaskRecord> records;
    size_t told = 0;  // of the records: said to be held
  };

  PollRequest Request() const;  // with what is in hand
  StatusOr<PollReply> Ask();
  Status Obey(const PollReply& reply);
  Status GiveUp(const TaskId& task, std::string_view reason);
  Status Forget(const TaskId& cancelled, const PollReply& reply);
  Status HandOverPartial(uint64_t gather);
  StatusOr<SubmitResult> Send(uint64_t gather, OpenPartial open);
  void BeginBeat(const TaskId& task);
  bool EndBeat();  // false: the task is dead
  StatusOr<std::shared_ptr<const Model>> ModelOf(const BlobId& id, const Plan& plan);
  // The next task of the queue, and with it those that can be trained at the same time.
  std::vector<Task> NextTasks();
  Status Work(std::span<const Task> tasks);
  StatusOr<TaskReport> Work(const Task& task);
  // A task that ended otherwise than in the partial: told to the coordinator, with a reason of `kind`. CANCELLED, and
  // nothing said, when the site is being stopped.
  StatusOr<TaskReport> Tell(TaskReport::Kind kind, TaskFailure failure, std::string_view reason,
                            TaskReport report = {});
  // False: nothing was folded, and each is to be worked on by itself.
  StatusOr<bool> WorkTogether(std::span<const Task> tasks);
  // Those of `tasks` that were trained, by their positions. Says in `reports`, one a task, which were refused.
  Status FoldTogether(std::span<const Task> tasks, std::vector<LocalResult>& trained, std::span<const size_t> which,
                      OpenPartial& open, std::span<TaskReport> reports);
  TaskTrainer::Sources SourcesOf(const Task& task);
  // Of an update that was folded.
  void Record(const Task& task, LocalResult& trained, double norm, double fold_seconds, OpenPartial& open);
  StatusOr<LocalResult> Train(const Task& task, bool leave);
  StatusOr<LocalResult> TrainAndChange(const Task& task);
  // The values of the one part that an update has.
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
  std::unique_ptr<Heartbeat> heartbeat_;  // of a coordinator elsewhere, as the first model told; null: in this process
  RemoteClientState remote_states_;
  TaskTrainer trainer_;
  Digest base_digest_;
  std::shared_ptr<const Model> base_;  // of base_digest_
  std::vector<float> changed_;         // the last update that options_.attack had
  FloatRun changed_run_;               // all of it
  std::deque<Task> queue_;
  std::map<uint64_t, OpenPartial> open_;  // by Task::gather
  Clock::time_point asked_;
  bool told_ = false;       // what is awaited
  int64_t beat_ms_ = 1000;  // how often who has a task is to say so
  int64_t done_ = 0;        // tasks since asked_
  int64_t want_ = 1;
};

}  // namespace rivulet
