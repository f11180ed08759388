// Compilation of a program for a device (engine/program/gpu_program.h).
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/gpu_program.h"
#include "engine/program/program.h"

namespace rivulet {

// Like CompileProgram, with the same errors, but uses device kernels. Host kernels compute values that are known before
// a run. UNIMPLEMENTED names an op without a device kernel.
StatusOr<std::shared_ptr<const GpuProgram>> CompileForGpu(const Graph& graph, const Signature& signature,
                                                          const CompileOptions& options = {});

}  // namespace rivulet
