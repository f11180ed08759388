#include "engine/program/program.h"

#include <cxxabi.h>

#include <cstdlib>
#include <typeinfo>

#include "engine/base/vlog.h"
#include "engine/passes/optimize.h"
#include "engine/program/call_details.h"
#include "engine/program/instance.h"
#include "engine/program/lowering.h"

namespace rivulet {
namespace {

// Compilations before a memory budget is given up.
constexpr int kBudgetAttempts = 8;

class CompiledProgram final : public Program {
 public:
  CompiledProgram(Signature signature, std::vector<TensorSpec> fetch_specs, LoweredProgram lowered)
      : signature_(std::move(signature)), fetch_specs_(std::move(fetch_specs)), lowered_(std::move(lowered)) {}
  const Signature& signature() const override { return signature_; }
  std::span<const TensorSpec> fetch_specs() const override { return fetch_specs_; }
  const MemoryPlan& memory() const override { return lowered_.memory; }
  std::span<const Instruction> instructions() const override { return lowered_.instructions; }
  double flops() const override { return lowered_.flops; }
  StatusOr<std::unique_ptr<Instance>> Instantiate() const override { return NewInstance(shared_from_this(), lowered_); }
  const LoweredProgram& lowered() const { return lowered_; }

 private:
  Signature signature_;
  std::vector<TensorSpec> fetch_specs_;
  LoweredProgram lowered_;
};

std::string Demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string symbol = text == nullptr ? name : text;
  std::free(text);
  return symbol;
}

}  // namespace

std::vector<CallDetails> CallDetailsOf(const Program& program) {
  std::vector<CallDetails> details(program.instructions().size());
  const auto* compiled = dynamic_cast<const CompiledProgram*>(&program);
  if (compiled == nullptr) return details;
  for (size_t i = 0; i < details.size(); ++i) {
    const Call& call = compiled->lowered().calls[i];
    const Kernel& kernel = *call.kernel;
    details[i] = {Demangled(typeid(kernel).name()), static_cast<int64_t>(call.variable_bytes)};
  }
  return details;
}

StatusOr<std::shared_ptr<const Program>> Program::Compile(const Graph& graph, const Signature& signature,
                                                          const CompileOptions& options, OptimizedGraph* made_of) {
  if (options.kernels.device != Device::kCpu) {
    return Unimplemented("programs run on the CPU; there is no {} device here", Name(options.kernels.device));
  }
  const size_t budget = options.passes.memory_budget_bytes;
  CompileOptions adjusted = options;
  adjusted.passes.memory_budget_bytes = 0;  // first as it is: it may fit
  for (int attempt = 0;; ++attempt) {
    RIVULET_ASSIGN_OR_RETURN(OptimizedGraph optimized, OptimizeGraph(graph, signature, adjusted));
    RIVULET_ASSIGN_OR_RETURN(const ConcreteGraph concrete, ConcreteGraph::Build(optimized.graph, signature, options));
    RIVULET_ASSIGN_OR_RETURN(LoweredProgram lowered, Lower(concrete, signature, options));
    const size_t arena_bytes = lowered.memory.arena_bytes;
    if (budget > 0 && arena_bytes > budget) {
      // The pass counts what lives at once; the plan has gaps and scratch besides. It is told to save so much more.
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
    if (made_of != nullptr) *made_of = std::move(optimized);
    return std::shared_ptr<const Program>(
        std::make_shared<CompiledProgram>(signature, std::move(fetch_specs), std::move(lowered)));
  }
}

}  // namespace rivulet
