// Loads of an update's values for the kernels of fold.h.
#pragma once

#include "engine/kernels/cuda/device_code.h"

namespace rivulet::gpu {

inline constexpr int32_t kMagnitude = 0x7FFFFFFF, kLeastNormal = 0x00800000;

// Returns 0 for subnormal numbers, as arithmetic on the host's training threads does.
__device__ inline float Flushed(float value) {
  return (__float_as_int(value) & kMagnitude) < kLeastNormal ? 0.0f : value;
}

__device__ inline float Difference(float value, float minus) {
  return Flushed(__fsub_rn(Flushed(value), Flushed(minus)));
}

}  // namespace rivulet::gpu
