// Training of one task up to its update, as every kind of site does it: fetch the plan and base model, train on the
// task's data, encode the update. Agents then send the update (client/agent/task_runner.h); sites fold it where it is
// stored (client/site/site.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/calls/stop_signal.h"
#include "client/training/artifact_cache.h"
#include "client/training/example_accounts.h"
#include "client/training/trainer.h"
#include "client/training/trainer_factory.h"
#include "client/training/update_pipeline.h"
#include "engine/data/dataset.h"
#include "engine/profile/step_monitor.h"
#include "federated/states/state_store.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Data set that the client's configuration binds to a name. A plan cannot open another.
struct BoundData {
  std::string name = "train";
  std::shared_ptr<const Dataset> dataset;
  std::optional<std::span<const uint32_t>> indices;  // this client's share; nullopt: all. Outlives the task.
  std::vector<std::string> tags = {};                // that a selection may require
  int64_t size() const { return indices.has_value() ? static_cast<int64_t>(indices->size()) : dataset->size(); }
};
// The data set of that name; null: none.
const BoundData* FindBound(std::span<const BoundData> bound, std::string_view name);
std::string NamesOf(std::span<const BoundData> bound);  // "'train' and 'ward'"
// The data sets as a poll offers them.
std::vector<DatasetOffer> OffersOf(std::span<const BoundData> bound);

// Outcome of one task at this client.
struct TaskReport : TaskResult {
  enum class Kind {
    kAccepted,   // by the coordinator, or added to the site's own partial sum
    kDuplicate,  // had been submitted before
    kRefused,    // by the coordinator or the fold; `reason` is its message
    kFailed,     // could not be done here; `reason` was reported to the coordinator
    kGone,       // the coordinator no longer knows the task: too late
    kInSteps,    // trained; its words go through the steps of a secure sum, whose end has a separate report
  };
  Kind kind = Kind::kAccepted;
  std::string reason;
  bool resent = false;  // an update from disk was sent, without training
};
std::string_view Name(TaskReport::Kind kind);  // "accepted", "duplicate", "refused", "failed", "too late", "in steps"

// Calls `work` and traces the task twice: on the row of the calling thread, around its phases, and on its client's row.
StatusOr<TaskReport> TraceTask(Tracer* tracer, std::string_view client_id, const Task& task,
                               const std::function<StatusOr<TaskReport>()>& work);

// Traces a task that was trained together with others, on its client's row, from `begin` (ProfileNanos) to now.
void TraceTogether(Tracer& tracer, const Task& task, const LocalResult& result, const TaskReport& report,
                   int64_t begin);

// Trainer of one task after another; keeps plan, programs and memory between them. Not thread-safe: one per thread. The
// thread has called EnterWorkerThread().
class TaskTrainer {
 public:
  // Ways to fetch the blobs that a task names.
  struct Sources {
    ArtifactCache::FetchFn plan;
    BaseStore::Download base = {};  // of the plan's base
    std::function<StatusOr<std::shared_ptr<const Model>>(const BlobId& model, const Plan& plan)> model;
    // The bytes of any other input, at most `most_bytes`.
    std::function<StatusOr<std::string>(const BlobId& blob, int64_t most_bytes)> blob;
  };

  // All must outlive this. `states` null: plans whose clients keep state are refused. `memory_budget`: tasks with a
  // larger planned peak are refused before any memory is taken; 0: no limit. `trainers` null: trainers on the host.
  // `checkpoint` null: an interrupted training starts anew. `available_memory` bounds a plan's first task on the host
  // if there is no budget; null: no bound.
  TaskTrainer(ArtifactCache& artifacts, StopSignal& stop, Instruments instruments, ClientStateStore* states,
              int64_t memory_budget = 0, TrainerFactory trainers = nullptr, TrainingCheckpoint* checkpoint = nullptr,
              std::function<int64_t()> available_memory = nullptr)
      : artifacts_(artifacts),
        stop_(stop),
        instruments_(instruments),
        states_(states),
        memory_budget_(memory_budget),
        trainers_(std::move(trainers)),
        checkpoint_(checkpoint),
        available_memory_(std::move(available_memory)) {}

  // Charges a task of a plan that protects single examples, with these data, and gives the key of its draws and noise
  // (client/training/example_accounts.h). Without it only "seeded" noise is trained.
  using ExampleKeys = std::function<StatusOr<privacy::NoiseKey>(const Task& task, std::string_view client_id,
                                                                const Plan& plan, const ExampleData& data)>;
  void ProtectExamples(ExampleKeys keys) { example_keys_ = std::move(keys); }

  // Trains on the data set that the plan names. The parts have passed the update pipeline
  // (client/training/update_pipeline.h). They are in memory of this, of its trainer and of the base model until the
  // next call. The client's next state has been proposed when this returns, so no accepted update lacks its state. With
  // `leave`, parts may stay on the device (Trainer::LeaveParts). Errors are those of the sources, of the store and of
  // Trainer::Train; UNIMPLEMENTED: a task of another kind; FAILED_PRECONDITION: the plan needs another data set, a
  // store, or more memory.
  StatusOr<LocalResult> Train(const Task& task, std::string_view client_id, std::span<const BoundData> bound,
                              const Sources& sources, bool leave = false);
  const Plan& plan() const { return *plan_->plan; }  // of the last trained task
  // Call it before the next version arrives: the last task's parts are not read any more, and large memory of theirs
  // goes back to the system.
  void ReleaseResults() {
    if (trainer_ != nullptr) trainer_->ReleaseResults();
  }
  // From now on large memory of a task's steps goes back to the system before its update is made: in a process of one
  // client it would be idle. Each task then costs the clearing of its pages.
  void ReleaseStepsAlways() { releases_steps_ = true; }

  // Most tasks of this one's kind, plan and base, each of so many examples, that TrainTogether takes; 1: it takes none.
  // Known for the plan that was trained last: a plan's first task is trained alone.
  int MostLanes(const Task& task, int64_t examples) const;
  // Whether tasks that are trained together may differ in size.
  bool TakesUnlikeTasks() const { return trainer_ != nullptr && trainer_->TakesUnlikeTasks(); }
  // Trains several tasks. Their parts are made while they are read, or stay on the device (PartView), and have not
  // passed the update pipeline: Finish does that. The tasks must be of one kind, plan and base, at most MostLanes, and
  // of one size unless TakesUnlikeTasks; `data` in their order. An error may come from any of them; trained alone, each
  // returns its own.
  StatusOr<std::vector<LocalResult>> TrainTogether(std::span<const Task> tasks, std::span<const BoundData> data,
                                                   const Sources& sources);
  // Whether updates of tasks that were trained together are folded unchanged.
  bool transparent() const { return left_ || pipeline_->transparent(); }
  // How many updates of TrainTogether, at least 1, stay valid when Finish is called for one after the other.
  size_t MostTogether() const;
  // Call it before Finish of each of `which`, at most MostTogether(), in their order: does the shared work at once.
  void PrepareTogether(std::span<const LocalResult> results, std::span<const size_t> which);
  // Whether the last task, trained again, gives the same update.
  bool repeatable() const { return plan_->repeatable; }
  // Passes one update of TrainTogether, number `lane`, through the pipeline and proposes its state. Its parts are valid
  // for as many calls as MostTogether says. Errors are those of UpdatePipeline::Apply and of the store.
  Status Finish(const Task& task, std::string_view client_id, LocalResult& result, size_t lane);

 private:
  // FAILED_PRECONDITION: the task's planned memory is more than it may take.
  Status CheckMemory(TaskKind kind, int64_t examples) const;
  Status FetchBroadcasts(const Task& task, const Plan& plan, const Sources& sources);
  // The state that the client starts with; "": none.
  StatusOr<StateBlob> ReadStateOf(const Task& task, std::string_view client_id) const;
  StatusOr<std::unique_ptr<Trainer>> NewTrainer() const;
  // Gets the key for a plan that protects single examples.
  StatusOr<privacy::NoiseKey> BeginExamples(const Task& task, std::string_view client_id, const BoundData& data,
                                            const StateBlob& state) const;
  // Leaves parts on the device if `may` is true and the trainer allows it.
  void LeaveParts(bool may, TaskKind kind);
  // Passes an update through the pipeline.
  Status Encode(const Task& task, LocalResult& result, size_t lane);
  bool Keeps(const Task& task) const { return plan_->plan->keeps_state() && task.kind == TaskKind::kTrain; }
  bool Reads(const Task& task) const {
    return Keeps(task) || (plan_->plan->measures_state() && task.kind == TaskKind::kEvaluate);
  }

  ArtifactCache& artifacts_;
  StopSignal& stop_;
  const Instruments instruments_;
  ClientStateStore* const states_;
  const int64_t memory_budget_;
  const TrainerFactory trainers_;  // null: on the host
  TrainingCheckpoint* const checkpoint_;
  const std::function<int64_t()> available_memory_;
  ExampleKeys example_keys_;
  std::shared_ptr<const PlanArtifacts> plan_;
  std::unique_ptr<Trainer> trainer_;  // of plan_
  std::unique_ptr<UpdatePipeline> pipeline_;
  bool releases_steps_ = false;        // large memory of steps, after each task
  bool left_ = false;                  // the last parts are on the device, and need no pipeline
  std::shared_ptr<const Model> base_;  // the subtrahend of the last result's parts
  std::vector<std::shared_ptr<const AlignedBuffer>> broadcasts_;  // of the last task
};

}  // namespace rivulet
