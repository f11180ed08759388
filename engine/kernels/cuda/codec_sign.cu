// federated/codecs/sign.cc: the signs of all values, and the mean of their magnitudes.
#include "engine/kernels/cuda/codec.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/host_float.h"

namespace rivulet::gpu {
namespace {

constexpr int kThreads = 256, kTile = 4096;

// Magnitudes are added in wire order, as on the host: rounding depends on earlier values. The block's other threads
// load the next ones.
__global__ void SignScale(SignCodecArguments a) {
  __shared__ float tile[kTile];
  const int lane = a.lanes.Number(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x);
  const float* const values = a.values.of(lane);
  double sum = 0;
  for (int64_t begin = 0; begin < a.count; begin += kTile) {
    const int count = a.count - begin < kTile ? static_cast<int>(a.count - begin) : kTile;
    for (int i = thread; i < count; i += kThreads) {
      const float value = values[begin + i];
      tile[i] = IsFinite(value) ? fabsf(value) : NotANumber();
    }
    __syncthreads();
    if (thread == 0) {
      for (int i = 0; i < count; ++i) sum = __dadd_rn(sum, static_cast<double>(tile[i]));
    }
    __syncthreads();
  }
  if (thread == 0) *a.scale.of(lane) = NormalScale(HostFloat(__ddiv_rn(sum, static_cast<double>(a.count))));
}
RIVULET_GPU_KERNEL("sign_scale", SignCodecArguments, SignScale,
                   (Grid{1, 1, static_cast<uint32_t>(a.lanes.count), kThreads}));

__global__ void SignValues(SignCodecArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  float* const values = a.values.of(lane);
  const float scale = *a.scale.of(lane);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) values[i] = values[i] < 0 ? -scale : scale;
}
RIVULET_GPU_KERNEL("sign_values", SignCodecArguments, SignValues, GridOver(a.count, a.lanes));

}  // namespace
}  // namespace rivulet::gpu
