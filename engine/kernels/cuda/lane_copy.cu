// Copies bytes of every lane.
#include "engine/gpu/lane_copy.h"
#include "engine/kernels/cuda/device_code.h"

namespace rivulet::gpu {
namespace {

__global__ void LaneCopy(LaneCopyArguments a) {
  const auto lane = static_cast<size_t>(Lanes{a.lanes, a.ids}.Number(blockIdx.z));
  const std::byte* from = a.from + a.from_lane_stride * lane;
  std::byte* to = a.to + a.to_lane_stride * lane;
  // In units of 16 bytes if both addresses are multiples of that, as all planned memory is.
  const bool aligned = (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) % sizeof(uint4) == 0;
  const int64_t words = aligned ? static_cast<int64_t>(a.bytes / sizeof(uint4)) : 0;
  for (int64_t i = FirstElement(); i < words; i += ElementStride()) {
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  const auto bytes = static_cast<int64_t>(a.bytes);
  for (int64_t i = words * static_cast<int64_t>(sizeof(uint4)) + FirstElement(); i < bytes; i += ElementStride()) {
    to[i] = from[i];
  }
}
RIVULET_GPU_KERNEL("copy_lanes", LaneCopyArguments, LaneCopy,
                   GridOver(static_cast<int64_t>(a.bytes / sizeof(uint4)), Lanes{a.lanes, a.ids}));

}  // namespace
}  // namespace rivulet::gpu
