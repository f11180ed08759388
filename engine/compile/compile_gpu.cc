#include "engine/compile/compile_gpu.h"

#include <utility>

#include "engine/compile/lower_optimized.h"

namespace rivulet {

StatusOr<std::shared_ptr<const GpuProgram>> CompileForGpu(const Graph& graph, const Signature& signature,
                                                          const CompileOptions& options) {
  CompileOptions for_gpu = options;
  for_gpu.kernels.device = Device::kCuda;
  RIVULET_ASSIGN_OR_RETURN(LoweredGraph lowered, LowerOptimized(graph, signature, for_gpu));
  return NewGpuProgram(signature, std::move(lowered.fetch_specs), std::move(lowered.program));
}

}  // namespace rivulet
