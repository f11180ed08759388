// The three programs of a plan's local training: init, step (by batch size) and final. Composed once, compiled on
// demand and shared by every trainer of the process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "engine/base/mutex.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"
#include "federated/plan/example_source.h"
#include "federated/plan/plan.h"

namespace rivulet {

// What a trainer binds, in this order; slots/0, slots/1, … follow.
enum TrainingBuffer : int {
  kParamsBuffer = 0,
  kGradsBuffer,
  kBaseParamsBuffer,
  kUpdateBuffer,
  kScalarsBuffer,  // "round", then "scalars/0", "scalars/1", …, each at kScalarStride bytes after the one before
  kFirstSlotBuffer
};
inline constexpr size_t kScalarStride = 64;

// The step program is the model's graph, its gradients assigned to the variables "grads/<variable>", and after all of
// these the plan's step graph: one graph, so that a pass may fuse an optimiser with the gradient it uses. Variables by
// name:
//
//   <variable>             its slice of the params buffer
//   grads/<variable>       its slice of the grads buffer; trainable variables only
//   params, base_params, grads, slots/<i>, update/delta, shared, base_shared, update/shared_delta
//                          flat, as federated/plan/README.md says
//   round, scalars/<i>     numbers of the task
//
// A step also runs the model's own updates (ModelDef::train_updates), after the gradients and before the plan's step.
// Thread-safe. Compiling happens under the lock: workers that want the same program wait instead of compiling it again.
class ProgramCache {
 public:
  explicit ProgramCache(std::shared_ptr<const Plan> plan)
      : plan_(std::move(plan)), options_(plan_->compile_options()) {}
  ProgramCache(std::shared_ptr<const Plan> plan, CompileOptions options)
      : plan_(std::move(plan)), options_(std::move(options)) {}
  const Plan& plan() const { return *plan_; }

  // The calling thread has called EnterWorkerThread(). INVALID_ARGUMENT: the plan's graphs use a variable that is none
  // of the above, or of another size. Else CompileProgram's errors, each saying which program it was.
  StatusOr<std::shared_ptr<const Program>> Init();
  StatusOr<std::shared_ptr<const Program>> Step(int64_t batch_size);  // fetches the training loss, a float32 scalar
  StatusOr<std::shared_ptr<const Program>> Final();

  // What Step compiles, for tools that show it.
  struct StepGraph {
    Graph graph;
    Signature signature;
  };
  StatusOr<StepGraph> DescribeStep(int64_t batch_size);

  // Of a TrainingBuffer. Params and base params are whole arenas; grads and slots mirror the trainable segment, update
  // the trainable and shared ones: each begins where its segment begins in the arena, at 0.
  size_t buffer_bytes(int buffer) const;
  int buffers() const { return kFirstSlotBuffer + plan_->slots(); }

 private:
  StatusOr<std::shared_ptr<const Program>> CompileLocal(const Graph& graph, std::string_view what);
  StatusOr<Graph> ComposeStep() const;
  StatusOr<Signature> StepSignature(const Graph& graph, int64_t batch_size) const;
  StatusOr<std::vector<VariableBinding>> BindVariables(const Graph& graph) const;

  const std::shared_ptr<const Plan> plan_;
  const CompileOptions options_;
  Mutex mutex_;
  std::shared_ptr<const Program> init_ GUARDED_BY(mutex_), final_ GUARDED_BY(mutex_);
  std::optional<Graph> step_graph_ GUARDED_BY(mutex_);
  std::map<int64_t, std::shared_ptr<const Program>> steps_ GUARDED_BY(mutex_);  // by batch size
};

}  // namespace rivulet
