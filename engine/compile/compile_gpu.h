// Compilation of a program for a device (engine/program/gpu_program.h).
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/gpu_program.h"
#include "engine/program/program.h"

namespace rivulet {

// As CompileProgram, whose errors it has, with the kernels of devices. What is known before a run is computed by the
// host's. UNIMPLEMENTED: an op that devices have no kernel for, by name.
StatusOr<std::shared_ptr<const GpuProgram>> CompileForGpu(const Graph& graph, const Signature& signature,
                                                          const CompileOptions& options = {});

}  // namespace rivulet
