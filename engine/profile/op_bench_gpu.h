// Benchmark of one op on a device.
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"
#include "engine/profile/op_bench.h"

namespace rivulet {

// Times `lanes` copies at once, all on the same values: flops, bytes and seconds are totals, outputs are those of one.
// UNIMPLEMENTED: the device has no kernel for the op or these attributes. INTERNAL: two lanes differ.
StatusOr<OpTiming> TimeOnGpu(const OpBenchGraph& bench, const std::shared_ptr<GpuDevice>& device, int lanes);

}  // namespace rivulet
