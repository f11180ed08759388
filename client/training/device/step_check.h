// Comparison of a training step on device and host, tensor by tensor, to find the op that differs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"

namespace rivulet {

// The tolerance of a tensor: ‖device − host‖ / ‖host‖, both over all its values.
inline constexpr double kTensorTolerance = 1e-3;

// Runs a step of the pass over the first `batch_size` examples of the task, from its base model and without the
// client's state, once on each side. It fetches every float tensor, so nothing is fused and each op is checked alone.
// INTERNAL: the first op in the graph's order with a result that differs by more than kTensorTolerance, or the
// variables after the step; with the value that differs most. Other errors are those of compiling, running and
// decoding.
Status CheckStep(PassPrograms& programs, const std::shared_ptr<GpuDevice>& device, size_t pass, int64_t batch_size,
                 const LaneTask& lane);

}  // namespace rivulet
