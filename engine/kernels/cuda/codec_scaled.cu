// Values as integer multiples of a scale per block, with stochastic rounding: federated/codecs/int4.cc, int8.cc,
// qsgd.cc and elias.cc, whose values are qsgd's.
#include "engine/kernels/cuda/block_sums.h"
#include "engine/kernels/cuda/codec.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/host_float.h"
#include "engine/kernels/cuda/stream_device.h"

namespace rivulet::gpu {
namespace {

// QsgdNorm of federated/codecs/qsgd.h: adds squares in order.
__device__ inline float NormOf(const float* values, int count) {
  double square = 0;
  for (int i = 0; i < count; ++i) {
    const double value = static_cast<double>(values[i]);
    square = __dadd_rn(square, __dmul_rn(value, value));
  }
  if (!(square < INFINITY)) return NotANumber();
  const double norm = __dsqrt_rn(square);
  const float rounded = HostFloat(norm);
  return NormalScale(static_cast<double>(rounded) < norm ? NextAbove(rounded) : rounded);
}

// BlockScale of federated/codecs/block_scale.h, from the bits of the largest magnitude.
__device__ inline float ScaleOf(int32_t largest_bits, double levels) {
  const float largest = __int_as_float(largest_bits);
  if (!IsFinite(largest)) return NotANumber();
  const float scale = HostFloat(__ddiv_rn(static_cast<double>(largest), levels));
  const bool below = __dmul_rn(static_cast<double>(scale), levels) < static_cast<double>(largest);
  return NormalScale(below ? NextAbove(scale) : scale);
}

struct Larger {
  __device__ int32_t operator()(int32_t a, int32_t b) const { return a > b ? a : b; }
};

// A block of threads processes as many values.
__global__ void CodecScales(ScaledCodecArguments a) {
  __shared__ float values[kBlockThreads];
  __shared__ int32_t magnitudes[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t i = int64_t{blockIdx.x} * kBlockThreads + thread;
  const float value = i < a.count ? a.values.of(lane)[i] : 0.0f;
  const Team team = TeamOf(a.block, /*results_are_neighbours=*/false);
  const int64_t left = a.count - (i - team.part);
  const int count = left < a.block ? static_cast<int>(left) : a.block;  // number of values in the thread's block
  float scale = 0;
  if (a.by_norm) {
    values[thread] = value;
    __syncthreads();
    if (team.part == 0 && count > 0) scale = NormOf(values + thread, count);
  } else {
    const int32_t largest = JoinTeam(team, __float_as_int(value) & kMagnitude, magnitudes, Larger());
    scale = ScaleOf(largest, static_cast<double>(a.levels));
  }
  if (team.part != 0 || count <= 0) return;
  a.scales.of(lane)[i / a.block] = scale;
  a.counts.of(lane)[i / a.block] = scale > 0 ? count : 0;
}
RIVULET_GPU_KERNEL("codec_scales", ScaledCodecArguments, CodecScales,
                   (Grid{static_cast<uint32_t>((a.count + kBlockThreads - 1) / kBlockThreads), 1,
                         static_cast<uint32_t>(a.lanes.count), kBlockThreads}));

__global__ void CodecLevels(ScaledCodecArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const PurposeStream stream = {a.streams, a.purpose, a.op};
  float* const values = a.values.of(lane);
  const double levels = static_cast<double>(a.levels);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    const int64_t block = i / a.block;
    const float scale = a.scales.of(lane)[block];
    double level = 0;
    if (scale > 0) {
      const uint64_t number = static_cast<uint64_t>(a.counts.of(lane)[block] + i % a.block);
      const double value = static_cast<double>(values[i]), over = static_cast<double>(scale);
      const double exact = a.by_norm ? __ddiv_rn(__dmul_rn(levels, value), over) : __ddiv_rn(value, over);
      level = floor(__dadd_rn(exact, stream.Uniform(lane, number)));
    }
    level += 0.0;  // converts -0 to 0, as in integers
    values[i] = a.by_norm ? HostFloat(__ddiv_rn(__dmul_rn(static_cast<double>(scale), level), levels))
                          : HostProduct(scale, static_cast<float>(level));
  }
}
RIVULET_GPU_KERNEL("codec_levels", ScaledCodecArguments, CodecLevels, GridOver(a.count, a.lanes));

}  // namespace
}  // namespace rivulet::gpu
