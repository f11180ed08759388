#include "engine/compile/compile.h"

#include <utility>

#include "engine/compile/lower_optimized.h"
#include "engine/program/instance.h"

namespace rivulet {

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
