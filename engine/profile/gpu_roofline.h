// Peak performance of a device, measured by our kernels (engine/kernels/cuda/roofline.cu): the reference of its
// profile.
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"
#include "engine/profile/roofline.h"

namespace rivulet {

// float32 multiply-adds without tensor cores, and a copy's bytes (read and written) for footprints from what caches
// hold to what only the memory does, as far as a quarter of what is available there. Some 0.2 s. Footprints of an
// emulated device are small, and its figures mean nothing. Errors of memory, and of kernels.
StatusOr<Roofline> MeasureGpuRoofline(GpuDevice& device);

}  // namespace rivulet
