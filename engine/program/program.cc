#include "engine/program/program.h"

#include "engine/passes/optimize.h"
#include "engine/program/instance.h"
#include "engine/program/lowering.h"

namespace rivulet {
namespace {

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

 private:
  Signature signature_;
  std::vector<TensorSpec> fetch_specs_;
  LoweredProgram lowered_;
};

}  // namespace

StatusOr<std::shared_ptr<const Program>> Program::Compile(const Graph& graph, const Signature& signature,
                                                          const CompileOptions& options) {
  if (options.kernels.device != Device::kCpu) {
    return Unimplemented("programs run on the CPU; there is no {} device here", Name(options.kernels.device));
  }
  RIVULET_ASSIGN_OR_RETURN(const OptimizedGraph optimized, OptimizeGraph(graph, signature, options));
  RIVULET_ASSIGN_OR_RETURN(const ConcreteGraph concrete, ConcreteGraph::Build(optimized.graph, signature, options));
  RIVULET_ASSIGN_OR_RETURN(LoweredProgram lowered, Lower(concrete, signature, options));
  std::vector<TensorSpec> fetch_specs;
  for (const Output& fetch : concrete.fetches()) fetch_specs.push_back(concrete.spec(concrete.value(fetch)));
  return std::shared_ptr<const Program>(
      std::make_shared<CompiledProgram>(signature, std::move(fetch_specs), std::move(lowered)));
}

}  // namespace rivulet
