// A device program with the interface of a host program, for sessions. Feeds and variables are in host memory and are
// copied to the device for each run; fetches and changed variables are copied back. Training in federated rounds keeps
// everything on the device instead (gpu_program.h).
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "engine/program/gpu_program.h"
#include "engine/program/program.h"

namespace rivulet {

// Its instances need no host arena, and allocate device memory when they are created: RESOURCE_EXHAUSTED names the
// purpose. Observers do not see its calls, which run asynchronously; `device` is shared.
std::shared_ptr<const Program> NewStagedProgram(std::shared_ptr<const GpuProgram> program,
                                                std::shared_ptr<GpuDevice> device);

}  // namespace rivulet
