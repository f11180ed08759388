// Programs of a plan's passes: begin, step (by batch size) and end of each. They are composed once, compiled on demand
// and shared by every trainer of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/training/buffer_table.h"
#include "engine/base/mutex.h"
#include "engine/graph/graph.h"
#include "engine/program/gpu_program.h"
#include "engine/program/lanes.h"
#include "engine/program/program.h"
#include "federated/plan/compose_step.h"
#include "federated/plan/plan.h"
#include "federated/tasks/task.h"

namespace rivulet {

// A step program is the pass's instances of the model and its loss, the gradients assigned to the variables
// "grads/<variable>", and after all of these the pass's step graph: one graph, so that a pass of the compiler may fuse
// an optimiser with the gradient it uses. Variables by name:
//
//   <variable>             its slice of the params buffer
//   base_params/<variable> its slice of the base model: of an instance over that
//                          (of segment base: under both names the base's own values)
//   state/NAME/<variable>  its slice of the client's state; likewise slots/0/<variable>, broadcast/NAME/<variable>
//   grads/<variable>       its slice of the grads buffer; trainable variables only
//   other_grads/<variable> the same of a second gradient (LocalPass::other_gradient_by)
//   params, slots/0, …     flat, as in federated/plan/README.md
//
// A step also runs the model's own updates (ModelDef::train_updates), after the gradients and before the pass's step.
// Thread-safe. Compiling happens under the lock: workers that want the same program wait instead of compiling it again.
class PassPrograms {
 public:
  explicit PassPrograms(std::shared_ptr<const Plan> plan);
  // Overrides the plan's compile options: for a debugger that shows every node.
  PassPrograms(std::shared_ptr<const Plan> plan, CompileOptions options);
  const Plan& plan() const { return *plan_; }
  const BufferTable& buffers() const { return buffers_; }

  // Programs of pass `pass` for tasks of `kind`. Null: the pass has no such graph. A step fetches the pass's scalars,
  // each a float32. The calling thread has called EnterWorkerThread(). INVALID_ARGUMENT: the plan's graphs use a
  // variable that is none of the above, or of another size. Other errors are CompileProgram's, with the program's
  // name.
  StatusOr<std::shared_ptr<const Program>> Begin(TaskKind kind, size_t pass);
  // With `from_base`, the params buffer starts as base_params. The only step of a task then reads the weights there,
  // and they are never copied.
  StatusOr<std::shared_ptr<const Program>> Step(TaskKind kind, size_t pass, int64_t batch_size, bool from_base = false);
  StatusOr<std::shared_ptr<const Program>> End(TaskKind kind, size_t pass);
  // The halves of a training step that protects single examples (federated/plan/example_noise.h). The first writes the
  // clipped sum over ExampleRows rows to the grads buffer; the second is the pass's step graph, which reads it there.
  StatusOr<std::shared_ptr<const Program>> ClippedSum();
  StatusOr<std::shared_ptr<const Program>> Rule();
  // The same for a device beside the host (engine/program/gpu_program.h); a step always from the params buffer.
  StatusOr<std::shared_ptr<const GpuProgram>> GpuBegin(TaskKind kind, size_t pass);
  StatusOr<std::shared_ptr<const GpuProgram>> GpuStep(TaskKind kind, size_t pass, int64_t batch_size);
  StatusOr<std::shared_ptr<const GpuProgram>> GpuEnd(TaskKind kind, size_t pass);
  // A step from the base model of several clients at once. Null: lanes cannot run it, or it cannot be compiled; Step
  // gives the error.
  std::shared_ptr<const LaneProgram> Lanes(TaskKind kind, size_t pass, int64_t batch_size);

  // The graph and signature that Step compiles, for tools that show them.
  struct StepGraph {
    Graph graph;
    Signature signature;
  };
  StatusOr<StepGraph> DescribeStep(TaskKind kind, size_t pass, int64_t batch_size);

 private:
  struct Compiled {
    std::shared_ptr<const Program> begin, end;
    std::shared_ptr<const GpuProgram> gpu_begin, gpu_end;
    std::shared_ptr<const Program> clipped_sum, rule;
    std::optional<ComposedStep> step;
    std::map<std::pair<int64_t, bool>, std::shared_ptr<const Program>> steps;  // by batch size, and from_base
    std::map<int64_t, std::shared_ptr<const GpuProgram>> gpu_steps;            // by batch size
    std::map<int64_t, std::shared_ptr<const LaneProgram>> lanes;               // by batch size; null: none
  };

  const LocalPass& PassOf(TaskKind kind, size_t pass) const { return plan_->program(kind)->passes[pass]; }
  // Compiles a begin or end graph.
  StatusOr<std::shared_ptr<const Program>> CompileFlat(const Graph& graph, std::string_view what) const;
  StatusOr<std::shared_ptr<const GpuProgram>> CompileFlatForGpu(const Graph& graph, std::string_view what) const;
  StatusOr<Signature> FlatSignature(const Graph& graph) const;
  // Called once per pass.
  Status Compose(TaskKind kind, size_t pass, Compiled& compiled) const;
  Status CheckScalars(TaskKind kind, size_t pass, const Signature& signature,
                      std::span<const TensorSpec> fetched) const;
  // With from_base: the params buffer begins as base_params.
  StatusOr<Signature> StepSignature(const LocalPass& pass, const ComposedStep& step, int64_t batch_size,
                                    bool from_base) const;
  // With `keep_gradients` another program reads them.
  StatusOr<std::vector<VariableBinding>> BindVariables(const Graph& graph, bool keep_gradients = false) const;

  const std::shared_ptr<const Plan> plan_;
  const CompileOptions options_;
  const BufferTable buffers_;
  Mutex mutex_;
  std::map<std::pair<TaskKind, size_t>, Compiled> compiled_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
