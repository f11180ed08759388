// Peak performance of a device, measured with Rivulet's kernels (engine/kernels/cuda/roofline.cu): the reference of its
// profile.
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"
#include "engine/profile/roofline.h"

namespace rivulet {

// Measures float32 multiply-adds without tensor cores, and the bytes of copies (read and written) for footprints from
// cache sizes up to a quarter of the available memory. Takes about 0.2 s. Footprints of an emulated device are small,
// and its figures are meaningless. Errors: memory allocation and kernels.
StatusOr<Roofline> MeasureGpuRoofline(GpuDevice& device);

}  // namespace rivulet
