// Trains one client's copy of the model: the plan's graphs over its data, from a base model to an update. One per
// worker thread; shares compiled programs with the others through ProgramCache.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "engine/program/program.h"
#include "federated/plan/example_source.h"
#include "federated/plan/plan.h"
#include "federated/transport/coordinator_api.h"
#include "federated/weights/model.h"

namespace rivulet {

class StepMonitor;  // engine/profile/step_monitor.h

// Compiled programs of one plan, by batch size, compiled on demand. Thread-safe; shared by workers.
class ProgramCache;
std::shared_ptr<ProgramCache> NewProgramCache(std::shared_ptr<const Plan> plan);
// The same with programs compiled otherwise than the plan says: for a debugger that wants to see every node.
std::shared_ptr<ProgramCache> NewProgramCache(std::shared_ptr<const Plan> plan, CompileOptions options);

struct TrainingResult {
  std::string update;    // serialized Update message (part "delta", weight = examples), ready to Submit
  Digest update_digest;  // SHA-256 of it
  int64_t examples = 0;
  int64_t steps = 0;
  double train_loss = 0;  // mean over examples seen in the last epoch
  double train_seconds = 0;
};

// Holds one model's worth of params, gradients and update, the rule's slots, and the arena of its largest program. Not
// thread-safe.
class Trainer {
 public:
  // `monitor` may watch the steps; it must outlive the trainer.
  static StatusOr<std::unique_ptr<Trainer>> Create(std::shared_ptr<ProgramCache> programs,
                                                   StepMonitor* monitor = nullptr);
  virtual ~Trainer() = default;
  // The same (task's stream key, base version, ordinal; base model; data) gives the same bytes, whichever trainer runs
  // it; save for the scalar "train_seconds", which is the clock's. Calls EnterWorkerThread() on the calling thread.
  // FAILED_PRECONDITION: no examples. INVALID_ARGUMENT: a base model of another layout, or a record that cannot be
  // decoded. INTERNAL / INVALID_ARGUMENT: a kernel failed, naming its node. CANCELLED. A loss that is not a number is
  // no error here: the coordinator refuses the delta.
  virtual StatusOr<TrainingResult> Train(const Task& task, std::string_view client_id, const Model& base,
                                         const ExampleSource& examples, const CancellationToken& cancel = {}) = 0;
  // From now on `observer` (null: nobody) watches every program that Train runs: init, the steps, final. The bits are
  // the same. It must outlive the next Train.
  virtual void Observe(RunObserver* observer) = 0;
};

}  // namespace rivulet
