// Comparison of a training step on device and host, tensor by tensor, to find the op that differs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"

namespace rivulet {

// How far a tensor may be off: ‖device − host‖ by ‖host‖, both over all its values.
inline constexpr double kTensorTolerance = 1e-3;

// Runs a step of the pass over the first `batch_size` examples of the task, from its base model and without what its
// client keeps, once on either side, with every float tensor of it fetched: so nothing is fused, and each op stands by
// itself. INTERNAL: the first op, in the order of the graph, whose result differs by more than kTensorTolerance, or the
// variables that the step leaves; with the value that is farthest off. Other errors are those of compiling, running and
// decoding.
Status CheckStep(PassPrograms& programs, const std::shared_ptr<GpuDevice>& device, size_t pass, int64_t batch_size,
                 const LaneTask& lane);

}  // namespace rivulet
