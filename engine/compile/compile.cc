#include "engine/compile/compile.h"

#include <utility>

#include "engine/base/vlog.h"
#include "engine/compile/lower_optimized.h"
#include "engine/program/concrete_graph.h"
#include "engine/program/instance.h"

namespace rivulet {
namespace {

// Compilations before a memory budget is given up.
constexpr int kBudgetAttempts = 8;

}  // namespace

StatusOr<LoweredGraph> LowerOptimized(const Graph& graph, const Signature& signature, const CompileOptions& options) {
  // Passes read this and make a separate graph, so that every attempt starts from it.
  RIVULET_ASSIGN_OR_RETURN(const ConcreteGraph source, ConcreteGraph::Build(graph, signature, options));
  const size_t budget = options.passes.memory_budget_bytes;
  CompileOptions adjusted = options;
  adjusted.passes.memory_budget_bytes = 0;  // first as it is: it may fit
  for (int attempt = 0;; ++attempt) {
    // Three stages in a loop. The passes need concrete shapes and return an ordinary graph, which is made concrete
    // again instead of being patched. So the code that handles user graphs also checks, infers and folds the results of
    // passes, and a pass that breaks a shape is detected here, not in a kernel.
    RIVULET_ASSIGN_OR_RETURN(OptimizedGraph optimized, OptimizeGraph(source, signature, adjusted));
    RIVULET_ASSIGN_OR_RETURN(const ConcreteGraph concrete, ConcreteGraph::Build(optimized.graph, signature, options));
    RIVULET_ASSIGN_OR_RETURN(LoweredProgram lowered, Lower(concrete, signature, options));
    const size_t arena_bytes = lowered.memory.arena_bytes;
    // The memory saved by recomputation is only known once offsets are planned. So each attempt asks the pass to save
    // the excess of the previous plan.
    if (budget > 0 && arena_bytes > budget) {
      // The pass counts live bytes; the plan also has gaps and scratch memory. So the pass must save that much more.
      const size_t excess = attempt == 0 ? 0 : arena_bytes - budget;
      const size_t wanted = attempt == 0 ? budget : adjusted.passes.memory_budget_bytes;
      if (attempt == kBudgetAttempts || wanted <= excess) {
        return ResourceExhausted(
            "the program needs {} bytes of memory at its peak, and the budget is {}; computing values again saves no "
            "more, so raise the budget or lower the batch size",
            arena_bytes, budget);
      }
      adjusted.passes.memory_budget_bytes = wanted - excess;
      continue;
    }
    RIVULET_VLOG(1, "compiled {} calls of {} nodes: arena {} bytes, constants {} bytes, {:.0f} FLOPs a run",
                 lowered.calls.size(), graph.nodes().size(), arena_bytes, lowered.memory.constant_bytes, lowered.flops);
    for (const Instruction& call : lowered.instructions)
      RIVULET_VLOG(2, "{} '{}': {}", call.op, call.node, call.implementation);
    std::vector<TensorSpec> fetch_specs;
    for (const Output& fetch : concrete.fetches()) fetch_specs.push_back(concrete.spec(concrete.value(fetch)));
    return LoweredGraph{std::move(lowered), std::move(fetch_specs), std::move(optimized)};
  }
}

StatusOr<std::shared_ptr<const Program>> CompileProgram(const Graph& graph, const Signature& signature,
                                                        const CompileOptions& options, OptimizedGraph* made_of) {
  if (options.kernels.device != Device::kCpu) {
    return Unimplemented("these programs run on the CPU; compile for a {} device with CompileForGpu",
                         Name(options.kernels.device));
  }
  RIVULET_ASSIGN_OR_RETURN(LoweredGraph lowered, LowerOptimized(graph, signature, options));
  if (made_of != nullptr) *made_of = std::move(lowered.made_of);
  return NewProgram(signature, std::move(lowered.fetch_specs), std::move(lowered.program));
}

}  // namespace rivulet
