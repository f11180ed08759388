#include "engine/compile/compile_lanes.h"

#include <utility>

#include "engine/compile/optimize.h"
#include "engine/program/concrete_graph.h"
#include "engine/program/lowering.h"

namespace rivulet {

// The passes are those of a single run, so that lanes use its kernels and get its bits.
StatusOr<std::shared_ptr<const LaneProgram>> CompileLanes(const Graph& graph, const Signature& signature,
                                                          const CompileOptions& options) {
  if (options.kernels.device != Device::kCpu || options.passes.memory_budget_bytes > 0) {
    return Unimplemented("lanes are run on a CPU, and without a memory budget");
  }
  RIVULET_ASSIGN_OR_RETURN(const ConcreteGraph source, ConcreteGraph::Build(graph, signature, options));
  RIVULET_ASSIGN_OR_RETURN(const OptimizedGraph optimized, OptimizeGraph(source, signature, options));
  RIVULET_ASSIGN_OR_RETURN(const ConcreteGraph concrete, ConcreteGraph::Build(optimized.graph, signature, options));
  RIVULET_ASSIGN_OR_RETURN(LoweredProgram lowered, Lower(concrete, signature, options, LowerFor::kLanes));
  std::vector<TensorSpec> fetch_specs;
  for (const Output& fetch : concrete.fetches()) fetch_specs.push_back(concrete.spec(concrete.value(fetch)));
  return NewLaneProgram(signature, std::move(fetch_specs), std::move(lowered));
}

}  // namespace rivulet
