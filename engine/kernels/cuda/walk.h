// Walks over several tensors at once (engine/kernels/cpu/strided/strided.h), in the form for device code.
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/divider.h"

namespace rivulet::gpu {

template <int kOperands>
struct Walk {
  static constexpr int kMaxAxes = 8;
  int32_t axes = 1;
  Divider dims[kMaxAxes];
  int64_t strides[kOperands][kMaxAxes] = {};  // in elements
  int64_t offsets[kOperands] = {};

  // Offsets in each tensor of the elements at position `i`, in row-major order.
  RIVULET_HOST_DEVICE void At(uint32_t i, int64_t (&at)[kOperands]) const {
    for (int o = 0; o < kOperands; ++o) at[o] = offsets[o];
    for (int axis = axes - 1; axis > 0; --axis) {
      const uint32_t index = dims[axis].Split(i);
      for (int o = 0; o < kOperands; ++o) at[o] += index * strides[o][axis];
    }
    for (int o = 0; o < kOperands; ++o) at[o] += i * strides[o][0];
  }
};

}  // namespace rivulet::gpu
