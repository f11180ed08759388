// Converts floats of every lane to 16 bits and back.
#include "engine/gpu/lane_cast.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/float16_device.h"

namespace rivulet::gpu {
namespace {

template <typename Narrow>
__device__ void Widen(const LaneCastArguments& a) {
  const auto lane = static_cast<size_t>(Lanes{a.lanes, a.ids}.Number(blockIdx.z));
  const Narrow* from = reinterpret_cast<const Narrow*>(a.from + a.from_lane_stride * lane);
  float* to = reinterpret_cast<float*>(a.to + a.to_lane_stride * lane);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) to[i] = from[i].value();
}

template <typename Narrow>
__device__ void NarrowTo(const LaneCastArguments& a) {
  const auto lane = static_cast<size_t>(Lanes{a.lanes, a.ids}.Number(blockIdx.z));
  const float* from = reinterpret_cast<const float*>(a.from + a.from_lane_stride * lane);
  Narrow* to = reinterpret_cast<Narrow*>(a.to + a.to_lane_stride * lane);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    // The comparison is false for NaN.
    to[i] = Narrow::Of(from[i] > a.largest ? a.largest : from[i]);
  }
}

#define RIVULET_LANE_CAST(name, Function, Narrow)                    \
  __global__ void name(LaneCastArguments a) { Function<Narrow>(a); } \
  RIVULET_GPU_KERNEL(#name, LaneCastArguments, name, GridOver(a.count, Lanes{a.lanes, a.ids}))
RIVULET_LANE_CAST(widen_bfloat16, Widen, Bfloat16);
RIVULET_LANE_CAST(widen_float16, Widen, Float16);
RIVULET_LANE_CAST(narrow_bfloat16, NarrowTo, Bfloat16);
RIVULET_LANE_CAST(narrow_float16, NarrowTo, Float16);

}  // namespace
}  // namespace rivulet::gpu
