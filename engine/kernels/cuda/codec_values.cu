// Shared parts of codecs: the values of a part, their error feedback, and positions from counts.
#include "engine/kernels/cuda/codec.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/host_float.h"

namespace rivulet::gpu {
namespace {

constexpr int kThreads = 256;

__global__ void SendValues(SendValuesArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const float* const values = a.values.of(lane);
  float* const to = a.to.of(lane);
  float* const left_out = a.left_out.data == nullptr ? nullptr : a.left_out.of(lane);
  const double factor = a.factors == nullptr ? 1.0 : a.factors[lane];
  for (int64_t i = FirstElement(); i < a.padded; i += ElementStride()) {
    float value = 0;
    if (i < a.count) {
      value = a.minus == nullptr ? HostFloat(values[i]) : HostDifference(values[i], a.minus[i]);
      if (factor != 1.0) value = HostFloat(__dmul_rn(static_cast<double>(value), factor));
      if (left_out != nullptr) left_out[i] = value = HostSum(value, left_out[i]);
    }
    to[i] = value;
  }
}
RIVULET_GPU_KERNEL("send_values", SendValuesArguments, SendValues, GridOver(a.padded, a.lanes));

__global__ void LeaveOut(LeaveOutArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const float* const sent = a.sent.of(lane);
  float* const left_out = a.left_out.of(lane);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride())
    left_out[i] = HostDifference(left_out[i], sent[i]);
}
RIVULET_GPU_KERNEL("leave_out", LeaveOutArguments, LeaveOut, GridOver(a.count, a.lanes));

// A thread has adjacent blocks, and adds the counts of all earlier threads.
__global__ void CodecPlaces(CodecPlacesArguments a) {
  __shared__ int64_t sums[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  int64_t* const counts = a.counts.of(a.lanes.Number(blockIdx.z));
  const int64_t each = (a.blocks + kThreads - 1) / kThreads, begin = thread * each;
  const int64_t end = begin + each < a.blocks ? begin + each : a.blocks;
  int64_t sum = 0;
  for (int64_t b = begin; b < end; ++b) sum += counts[b];
  sums[thread] = sum;
  __syncthreads();
  int64_t place = 0;
  for (int before = 0; before < thread; ++before) place += sums[before];
  for (int64_t b = begin; b < end; ++b) {
    const int64_t count = counts[b];
    counts[b] = place;
    place += count;
  }
  if (thread == kThreads - 1) counts[a.blocks] = place;
}
RIVULET_GPU_KERNEL("codec_places", CodecPlacesArguments, CodecPlaces,
                   (Grid{1, 1, static_cast<uint32_t>(a.lanes.count), kThreads}));

}  // namespace
}  // namespace rivulet::gpu
