#include "engine/base/math.h"
#include "engine/kernels/cuda/block_sums.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/host_float.h"
#include "engine/kernels/cuda/noise.h"
#include "engine/kernels/cuda/stream_device.h"

namespace rivulet::gpu {
namespace {

// Marsaglia's polar method.
struct Try {
  double x, y, square;
  __device__ bool good() const { return square < 1 && square != 0; }
  __device__ double Factor() const { return __dsqrt_rn(__ddiv_rn(__dmul_rn(-2.0, math::Log(square)), square)); }
};

__device__ inline Try TryOf(const NoiseArguments& a, int lane, int64_t number) {
  const uint4 words = PurposeStream{a.streams, a.purpose, a.op}.Block(lane, static_cast<uint64_t>(number));
  Try one;
  one.x = __dadd_rn(__dmul_rn(2.0, PurposeStream::UniformOf(words.x | uint64_t{words.y} << 32)), -1.0);
  one.y = __dadd_rn(__dmul_rn(2.0, PurposeStream::UniformOf(words.z | uint64_t{words.w} << 32)), -1.0);
  one.square = __dadd_rn(__dmul_rn(one.x, one.x), __dmul_rn(one.y, one.y));
  return one;
}

// Adds to the two values of the update that belong to the accepted try `place`, if they are in this range.
__device__ inline void AddTo(const NoiseArguments& a, float* values, int64_t place, const Try& one) {
  const int64_t at = 2 * place - a.first;
  if (at + 1 < 0 || at >= a.count) return;
  const double factor = one.Factor();
  const auto add = [&](int64_t i, double normal) {
    if (i < 0 || i >= a.count) return;
    values[i] = HostFloat(__dadd_rn(static_cast<double>(values[i]), __dmul_rn(a.deviation, normal)));
  };
  add(at, __dmul_rn(one.x, factor));
  add(at + 1, __dmul_rn(one.y, factor));
}

__global__ void NoiseCount(NoiseArguments a) {
  __shared__ int shared[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const bool good = TryOf(a, lane, int64_t{blockIdx.x} * kNoiseChunk + threadIdx.x).good();
  const int all = SumOfTeam(TeamOf(kBlockThreads, false), good ? 1 : 0, shared);
  if (threadIdx.x == 0) a.counts.of(lane)[blockIdx.x] = all;
}
static_assert(kNoiseChunk == kBlockThreads);
RIVULET_GPU_KERNEL("noise_count", NoiseArguments, NoiseCount,
                   (Grid{static_cast<uint32_t>(NoiseChunks(a.tries)), 1, static_cast<uint32_t>(a.lanes.count),
                         kBlockThreads}));

__global__ void NoiseAdd(NoiseArguments a) {
  __shared__ uint8_t good[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x);
  const Try one = TryOf(a, lane, int64_t{blockIdx.x} * kNoiseChunk + thread);
  good[thread] = one.good();
  __syncthreads();
  if (!one.good()) return;
  int64_t place = a.counts.of(lane)[blockIdx.x];
  for (int before = 0; before < thread; ++before) place += good[before];
  AddTo(a, a.values.of(lane), place, one);
}
RIVULET_GPU_KERNEL("noise_add", NoiseArguments, NoiseAdd,
                   (Grid{static_cast<uint32_t>(NoiseChunks(a.tries)), 1, static_cast<uint32_t>(a.lanes.count),
                         kBlockThreads}));

__global__ void NoiseRest(NoiseArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  int64_t place = a.counts.of(lane)[NoiseChunks(a.tries)];
  for (int64_t number = NoiseChunks(a.tries) * kNoiseChunk; 2 * place < a.first + a.count; ++number) {
    const Try one = TryOf(a, lane, number);
    if (one.good()) AddTo(a, a.values.of(lane), place++, one);
  }
}
RIVULET_GPU_KERNEL("noise_rest", NoiseArguments, NoiseRest, (Grid{1, 1, static_cast<uint32_t>(a.lanes.count), 1}));

}  // namespace
}  // namespace rivulet::gpu
