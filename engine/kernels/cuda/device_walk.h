// Conversion of the host's strided walks to the device's.
#pragma once

#include "engine/kernels/cpu/strided/strided.h"
#include "engine/kernels/cuda/walk.h"

namespace rivulet::gpu {

// UNIMPLEMENTED: more axes than the device's walks have.
template <int kOperands>
StatusOr<Walk<kOperands>> DeviceWalk(const StridedWalk<kOperands>& host) {
  if (host.axes > Walk<kOperands>::kMaxAxes)
    return Unimplemented("more than {} axes that differ in layout, on a GPU", Walk<kOperands>::kMaxAxes);
  Walk<kOperands> walk;
  walk.axes = host.axes;
  for (size_t axis = 0; axis < static_cast<size_t>(host.axes); ++axis) {
    walk.dims[axis] = Divider::Of(host.dims[axis]);
    for (size_t o = 0; o < kOperands; ++o) walk.strides[o][axis] = host.strides[o][axis];
  }
  for (size_t o = 0; o < kOperands; ++o) walk.offsets[o] = host.offsets[o];
  return walk;
}

}  // namespace rivulet::gpu
