// What every site does with a task before its update goes anywhere: plan and base model come here, and the task's data
// is trained on. Whether the update is then sent (client/agent/task_runner.h) or folded where it lies
// (client/site/site.h) is no matter of this file.
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
#include "client/training/trainer.h"
#include "client/training/trainer_factory.h"
#include "client/training/update_pipeline.h"
#include "engine/data/dataset.h"
#include "engine/profile/step_monitor.h"
#include "federated/states/state_store.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// A data set that a client has bound to a name; nothing a plan says opens another.
struct BoundData {
  std::string name = "train";
  std::shared_ptr<const Dataset> dataset;
  std::optional<std::span<const uint32_t>> indices;  // this client's share; nothing: all. Outlives the task.
  std::vector<std::string> tags = {};                // that whoever selects may ask for
  int64_t size() const { return indices.has_value() ? static_cast<int64_t>(indices->size()) : dataset->size(); }
};
// Of that name; null: none.
const BoundData* FindBound(std::span<const BoundData> bound, std::string_view name);
std::string NamesOf(std::span<const BoundData> bound);  // "'train' and 'ward'"
// What a poll says of them.
std::vector<DatasetOffer> OffersOf(std::span<const BoundData> bound);

struct TaskReport {
  enum class Kind {
    kAccepted,   // or, by a site that folds, taken into its partial
    kDuplicate,  // had been submitted before
    kRefused,    // by whoever folds; `reason` is its sentence
    kFailed,     // could not be done here; the coordinator was told `reason`
    kGone,       // the coordinator no longer knows the task: too late
  };
  Kind kind = Kind::kAccepted;
  std::string reason;
  bool resent = false;  // what had been finished before was sent, without training
  int64_t examples = 0, steps = 0, bytes_up = 0;
  double train_loss = 0, train_seconds = 0;
};
std::string_view Name(TaskReport::Kind kind);  // "accepted", "duplicate", "refused", "failed", "too late"

// Calls `work`. With a tracer the task is seen twice: on the row of the thread that works, around its phases, and on
// the row of its client.
StatusOr<TaskReport> TraceTask(Tracer* tracer, std::string_view client_id, const Task& task,
                               const std::function<StatusOr<TaskReport>()>& work);

// The row of its client of a task that was done together with others, from `begin` (ProfileNanos) to now. `report` says
// how it ended.
void TraceTogether(Tracer& tracer, const Task& task, const LocalResult& result, const TaskReport& report,
                   int64_t begin);

// Not thread-safe: one per thread. The thread has called EnterWorkerThread().
class TaskTrainer {
 public:
  // How what a task names comes here.
  struct Sources {
    ArtifactCache::FetchFn plan;
    std::function<StatusOr<std::shared_ptr<const Model>>(const BlobId& model, const Plan& plan)> model;
    std::function<StatusOr<std::string>(const BlobId& blob)> blob;  // the bytes of any other input
  };

  // All must outlive this. `states` null: plans that have clients keep something from task to task are refused.
  // `memory_budget`: tasks that are planned to take more bytes are refused before any of it is taken; 0: none are.
  // `checkpoint` null: a training that is interrupted begins anew. `available_memory`, where no budget is given: what a
  // plan's first task on the host may take, asked before any of it is taken; null: nobody asks.
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

  // On that of `bound` which the plan names. The parts are as they are to be folded or sent
  // (client/training/update_pipeline.h), in memory of this, of its trainer and of the base model until the next call;
  // what the client is to keep is proposed when this returns, so that no accepted update lacks its state. Errors are
  // those of the sources, of the store and of Trainer::Train; UNIMPLEMENTED: a task of another kind;
  // FAILED_PRECONDITION: the plan wants another data set, a store, or more memory. With `leave` its parts may be left
  // where they were trained, for whoever folds them there (Trainer::LeaveParts).
  StatusOr<LocalResult> Train(const Task& task, std::string_view client_id, std::span<const BoundData> bound,
                              const Sources& sources, bool leave = false);
  const Plan& plan() const { return *plan_->plan; }  // of the last task that was trained

  // How many tasks of this one's kind, plan and base, each of so many examples, TrainTogether takes; 1: none. Of the
  // plan that was trained last: a first task is trained by itself.
  int MostLanes(const Task& task, int64_t examples) const;
  // Whether tasks that are trained together may be of unlike sizes.
  bool TakesUnlikeTasks() const { return trainer_ != nullptr && trainer_->TakesUnlikeTasks(); }
  // A result for each, as Train's, but that their parts are made while they are read, or are held where only a fold
  // reaches them (PartView), and that what is to happen to an update has not happened yet: Finish does it. All must be
  // of one kind, plan and base, of one size unless unlike tasks are taken, and no more than MostLanes says; `data` in
  // their order. An error is of any of them: trained by itself, each says what.
  StatusOr<std::vector<LocalResult>> TrainTogether(std::span<const Task> tasks, std::span<const BoundData> data,
                                                   const Sources& sources);
  // Whether the updates of tasks that were trained together are folded as they were left, and so together too.
  bool transparent() const { return left_ || pipeline_->transparent(); }
  // Whether the last task, trained once more, gives the same update.
  bool repeatable() const { return pipeline_->repeatable(); }
  // What Train does after training, to one of those that were trained together, number `lane` of them. Its parts are
  // valid until the next call. Errors are those of UpdatePipeline::Apply and of the store.
  Status Finish(const Task& task, std::string_view client_id, LocalResult& result, size_t lane);

 private:
  // FAILED_PRECONDITION: what the task is planned to take is more than it may.
  Status CheckMemory(TaskKind kind, int64_t examples) const;
  Status FetchBroadcasts(const Task& task, const Plan& plan, const Sources& sources);
  // What its client keeps and begins with; "" where there is none.
  StatusOr<StateBlob> ReadStateOf(const Task& task, std::string_view client_id) const;
  StatusOr<std::unique_ptr<Trainer>> NewTrainer() const;
  // Parts stay where they are trained, where they may and can.
  void LeaveParts(bool may, TaskKind kind);
  // What happens to an update on its way.
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
  std::shared_ptr<const PlanArtifacts> plan_;
  std::unique_ptr<Trainer> trainer_;  // of plan_
  std::unique_ptr<UpdatePipeline> pipeline_;
  bool left_ = false;                  // the last parts are where they were trained, and want no pipeline
  std::shared_ptr<const Model> base_;  // what the last result's parts are differences to
  std::vector<std::shared_ptr<const AlignedBuffer>> broadcasts_;  // of the last task
};

}  // namespace rivulet
