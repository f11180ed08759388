// Trains clients' copies of the model: the plan's graphs over their data, from a base model to parts that lie in the
// trainer's memory. No bytes, no message, no hash. One per worker thread; shares compiled programs with the others
// through PassPrograms.
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
#include "federated/states/state_blob.h"
#include "federated/transport/coordinator_api.h"
#include "federated/weights/model.h"

namespace rivulet {

class PassPrograms;        // client/training/pass_programs.h
class StepMonitor;         // engine/profile/step_monitor.h
class TrainingCheckpoint;  // client/training/training_checkpoint.h

// What one lane works on. Everything must outlive the call, and the base the result's parts.
struct LaneTask {
  const Task* task = nullptr;
  std::string_view client_id;
  const Model* base = nullptr;
  const ExampleSource* examples = nullptr;
  std::string_view state = {};  // as a result gave it (federated/states/state_blob.h); "": its first values
  // What the plan has it read beside the base, in the order of FlatNames::broadcast (federated/weights/flat_vector.h).
  std::span<const AlignedBuffer* const> broadcasts = {};
  // What the caller keeps in the same state, behind the trainer's own: filled from it where it is not "". Where parts
  // are left (LeaveParts), it is what is to be kept when Train returns.
  std::span<const NamedState> beside = {};
  // Where a training of several steps goes on, and says how far it is; null: it begins anew. Of one lane by itself.
  TrainingCheckpoint* checkpoint = nullptr;
};

struct LocalResult {
  Status status;  // this lane's own end; the others' are not touched by it
  // The parts of the client's update, those that one has that declares this (PartSpec::only_where): runs in wire order,
  // in the trainer's memory until the next Train. A run may be a difference to the base model, where that lies.
  std::vector<PartView> parts;  // "delta"
  // What is told beside the parts: "examples", "steps", what passes report ("train_loss": the mean over the examples of
  // the last epoch), the numbers of the task, and what graphs declare.
  Scalars declared;
  std::string state;  // what the client keeps, after a training of a plan that has it keep something; else ""
  int64_t examples = 0, steps = 0;
  double train_loss = 0;
  double train_seconds = 0;  // a clock's, hence no part of what is declared
  int64_t lanes = 0;         // tasks that a device trained at once, this one among them; 0: on the host
  bool tf32 = false;         // with factors rounded to TF32
};

// What the loops of a plan may cost, whatever the plan says: iterations of all loops of one run of a program together,
// and how long that run's loops may go on. A plan comes from outside and may hold a loop whose condition is never
// false; a client must come back from any of its programs. How many of them it runs, and so how long it trains, is
// for whoever waits for it to bound.
struct LoopBudget {
  int64_t max_steps = 1'000'000;
  std::chrono::nanoseconds max_time = std::chrono::hours(1);
};

// Holds one model's worth of params and gradients, the plan's own vectors (slots), and the arena of its largest
// program. Not thread-safe.
class Trainer {
 public:
  // `monitor` may watch the steps; it must outlive the trainer.
  static StatusOr<std::unique_ptr<Trainer>> Create(std::shared_ptr<PassPrograms> programs,
                                                   StepMonitor* monitor = nullptr, LoopBudget loops = {});
  virtual ~Trainer() = default;
  // How many tasks of a kind, each of so many examples, Train takes at once; 1: one. Several share one base model and
  // version, their clients keep nothing and each takes one step, which nobody records at the moment.
  virtual int MostLanes(TaskKind kind, int64_t examples) = 0;
  // Whether one task of so many examples has room where it is to be trained, known before any of it is taken.
  // FAILED_PRECONDITION: how much it takes, and how much there is.
  virtual Status CheckRoom(TaskKind, int64_t /*examples*/) { return absl::OkStatus(); }
  // Whether tasks that are taken at once may be of any sizes, steps and states, up to as many as MostLanes says for the
  // largest.
  virtual bool TakesUnlikeTasks() const { return false; }
  // From the next Train on parts of a training may stay where they were trained (PartView::device_part), for a fold
  // that is asked of whoever holds them; no other is able to read them. True: they will, and all that the plan has
  // happen to an update on its way (client/training/update_pipeline.h) happens there.
  virtual bool LeaveParts(bool) { return false; }
  // A result per lane, in their order. Of several lanes, parts are made while they are read (MadePart), and time is
  // shared out evenly. The same (task's stream key, base version, ordinal; base model; data) gives the
  // same values, whichever trainer runs it. Calls EnterWorkerThread() on the calling thread.
  // INVALID_ARGUMENT: more lanes than there are for these tasks, or tasks that are not alike. Where something is wrong
  // with one of several lanes it is an error of all: run by itself, each says what. A result's status:
  // FAILED_PRECONDITION: no examples.
  // INVALID_ARGUMENT: a base model of another layout, other broadcasts than the plan's, or a record that cannot be
  // decoded (names file, record and byte). DATA_LOSS: a state that is damaged, or of another plan. INTERNAL /
  // INVALID_ARGUMENT: a kernel failed, naming its node. RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED: a loop of the plan.
  // CANCELLED. A value that is not a number is no error here: whoever folds refuses it.
  virtual StatusOr<std::vector<LocalResult>> Train(std::span<const LaneTask> lanes,
                                                   const CancellationToken& cancel = {}) = 0;
  // From now on `observer` (null: nobody) watches every program that Train runs: begin, the steps, end. The bits are
  // the same. It must outlive the next Train.
  virtual void Observe(RunObserver* observer) = 0;
};

}  // namespace rivulet
