// Trainer of clients' copies of the model. It runs the plan's graphs over their data, from a base model to the parts of
// an update in the trainer's memory. It reads and writes no messages. Each worker thread has its own trainer; compiled
// programs are shared through PassPrograms.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/program.h"
#include "federated/aggregation/update.h"
#include "federated/plan/example_source.h"
#include "federated/plan/plan.h"
#include "federated/privacy/noise_key.h"
#include "federated/states/state_blob.h"
#include "federated/tasks/task_result.h"
#include "federated/transport/coordinator_api.h"
#include "federated/weights/model.h"

namespace rivulet {

class PassPrograms;        // client/training/pass_programs.h
class StepMonitor;         // engine/profile/step_monitor.h
class TrainingCheckpoint;  // client/training/training_checkpoint.h

// Inputs of one lane. Everything must outlive the call, and the base model the result's parts.
struct LaneTask {
  const Task* task = nullptr;
  std::string_view client_id;
  const Model* base = nullptr;
  const ExampleSource* examples = nullptr;
  std::string_view state = {};  // LocalResult::state of an earlier task (federated/states/state_blob.h); "": none yet
  // Vectors that the plan reads beside the base, in the order of FlatNames::broadcast
  // (federated/weights/flat_vector.h).
  std::span<const AlignedBuffer* const> broadcasts = {};
  // The caller's own vectors in the same state, after the trainer's. Train fills them from `state` unless that is "".
  // If parts are left (LeaveParts), Train also writes their next values here.
  std::span<const NamedState> beside = {};
  // Resumes the training, and records its progress; null: it starts anew. For a single lane only.
  TrainingCheckpoint* checkpoint = nullptr;
  // The task's own key (client/training/example_steps.h), of a plan that protects single examples.
  const privacy::NoiseKey* example_key = nullptr;
};

struct LocalResult : TaskResult {
  Status status;  // of this lane; the other lanes' results do not depend on it
  // Parts of the client's update, without those that its declared scalars exclude (PartSpec::only_where). Runs in wire
  // order, in the trainer's memory until the next Train. A run may be a difference to the base model's memory.
  std::vector<PartView> parts;  // "delta"
  // Scalars beside the parts: "examples", "steps", the passes' scalars ("train_loss": the mean over the examples of the
  // last epoch), the task's numbers, and the scalars that graphs declare.
  Scalars declared;
  std::string state;  // the client's next state, after a training of a plan with state; else ""
};

// Bound on the loops in one run of a program: iterations of all loops together, and their time. A plan is untrusted and
// may hold a loop that never ends; a client must return from any of its programs. The number of runs, and so the length
// of a training, is bounded by the caller.
struct LoopBudget {
  int64_t max_steps = 1'000'000;
  std::chrono::nanoseconds max_time = std::chrono::hours(1);
};

// A trainer. Memory: one model's params and gradients, the plan's own vectors (slots), and the arena of its largest
// program. Not thread-safe.
class Trainer {
 public:
  // `monitor` may watch the steps; it must outlive the trainer.
  static StatusOr<std::unique_ptr<Trainer>> Create(std::shared_ptr<PassPrograms> programs,
                                                   StepMonitor* monitor = nullptr, LoopBudget loops = {});
  virtual ~Trainer() = default;
  // Most tasks of `kind`, each of `examples` examples, that one Train takes; at least 1. On the host, several must
  // share one base model and version, keep no state and take one step each, and no monitor may record.
  virtual int MostLanes(TaskKind kind, int64_t examples) = 0;
  // Checks the memory for one task of so many examples before any of it is allocated. FAILED_PRECONDITION: too little,
  // with both amounts.
  virtual Status CheckRoom(TaskKind, int64_t /*examples*/) { return absl::OkStatus(); }
  // Whether the tasks of one Train may differ in size, steps and state. MostLanes of the largest then bounds them.
  virtual bool TakesUnlikeTasks() const { return false; }
  // Allows the next Trains to leave parts on the device (PartView::device_part), where only a fold on that device reads
  // them. Returns true if they will: the update pipeline (client/training/update_pipeline.h) then runs there too.
  virtual bool LeaveParts(bool) { return false; }
  // Trains one task per lane; results in their order. With several lanes on the host, parts are made while they are
  // read (MadePart), and the time is divided evenly. The same (task's stream key, base version, ordinal; base model;
  // data) gives the same values in every trainer. Calls EnterWorkerThread() on the calling thread. INVALID_ARGUMENT:
  // more lanes than MostLanes, or tasks that differ where they must not. An error of one lane may be an error of all;
  // trained alone, each lane returns its own. A result's status: FAILED_PRECONDITION: no examples. INVALID_ARGUMENT: a
  // base model of another layout, other broadcasts than the plan's, or a record that cannot be decoded (names file,
  // record and byte). DATA_LOSS: a state that is damaged, or of another plan. INTERNAL / INVALID_ARGUMENT: a kernel
  // failed, naming its node. RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED: a loop of the plan. CANCELLED. A value that is not
  // a number is no error here: the fold refuses it.
  virtual StatusOr<std::vector<LocalResult>> Train(std::span<const LaneTask> lanes,
                                                   const CancellationToken& cancel = {}) = 0;
  // Returns large memory that only a task's steps need to the system, until the next task. The last results stay.
  virtual void ReleaseSteps() {}
  // The same for memory of the last results, which are not read any more.
  virtual void ReleaseResults() {}
  // Sets the observer (null: none) of every program that Train runs: begin, the steps, end. The bits are the same. It
  // must outlive the next Train.
  virtual void Observe(RunObserver* observer) = 0;
};

}  // namespace rivulet
