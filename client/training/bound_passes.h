// Passes of a plan as one trainer runs them: each program has its own instance, and all share one arena and one set of
// feeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "client/training/pass_programs.h"
#include "engine/base/status.h"
#include "federated/plan/plan_input.h"
#include "federated/tasks/task.h"

namespace rivulet {

struct BoundProgram {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Instance> instance;
  std::vector<TensorView> feeds;
};

struct BoundPass {
  TaskKind kind;
  size_t index;                                                             // among the passes of its program
  const LocalPass* pass;                                                    // of the plan
  std::unique_ptr<BoundProgram> begin, end;                                 // null: nothing to do
  std::map<std::pair<int64_t, bool>, std::unique_ptr<BoundProgram>> steps;  // by batch size, and whether from the base
  std::vector<float> values;                                                // of the pass's scalars, in the last step
  std::vector<TensorView> fetches;                                          // places of these values
};

// Bound programs of all passes. Memory: one arena for all, since one runs at a time, and feeds of the largest batch so
// far. Not thread-safe; its thread has called EnterWorkerThread(). Errors are those of PassPrograms, and of memory.
class BoundPasses {
 public:
  explicit BoundPasses(PassPrograms& programs) : programs_(programs), plan_(programs.plan()) {}
  BoundPasses(const BoundPasses&) = delete;

  // Binds the begin and end programs of every pass. Called first, once.
  Status Initialise();
  // The passes of tasks of this kind; null: the plan has none.
  std::vector<BoundPass>* Find(TaskKind kind);
  // The pass's step for a batch of that size; valid as long as this.
  StatusOr<BoundProgram*> Step(BoundPass& pass, int64_t batch_size, bool from_base = false);
  // The step for a batch of the pass's own input, with the batch fed, and its number of examples. INVALID_ARGUMENT: the
  // model cannot take the batch. RESOURCE_EXHAUSTED: the plan's input gives too many batch sizes.
  StatusOr<std::pair<BoundProgram*, int64_t>> Feed(BoundPass& pass, Element& batch);
  // The halves of a training step that protects single examples (PassPrograms); the last feed of the first says which
  // rows are examples.
  struct ExampleStep {
    BoundProgram* sum;
    BoundProgram* rule;
  };
  StatusOr<ExampleStep> ByExample();
  // The arena of the next run; binding a program may move it.
  std::byte* arena() { return arena_.data(); }

 private:
  StatusOr<std::unique_ptr<BoundProgram>> Bind(StatusOr<std::shared_ptr<const Program>> program);
  Status GrowFeed(size_t feed, size_t bytes);

  PassPrograms& programs_;
  const Plan& plan_;
  std::map<TaskKind, std::vector<BoundPass>> passes_;
  std::unique_ptr<BoundProgram> clipped_sum_, rule_;
  std::vector<AlignedBuffer> feeds_;  // of the largest batch so far; smaller ones use their front
  AlignedBuffer arena_;               // of the largest program
};

}  // namespace rivulet
