// Optimisation and lowering of a graph to calls, shared by the programs of every device.
#pragma once

#include <vector>

#include "engine/base/status.h"
#include "engine/compile/optimize.h"
#include "engine/graph/graph.h"
#include "engine/program/lowering.h"
#include "engine/program/program.h"

namespace rivulet {

struct LoweredGraph {
  LoweredProgram program;
  std::vector<TensorSpec> fetch_specs;
  OptimizedGraph made_of;
};

// Runs passes and lowering, repeatedly until the memory budget is met. Errors are those of CompileProgram.
StatusOr<LoweredGraph> LowerOptimized(const Graph& graph, const Signature& signature, const CompileOptions& options);

}  // namespace rivulet
