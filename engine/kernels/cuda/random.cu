// Philox4x32-10 (engine/base/philox.h), with the draws of the CPU's kernels: element i of a float tensor uses word i of
// the lane's stream at its step and op, of a double tensor words 2i and 2i + 1
// (engine/kernels/cpu/elementwise/random_blocks.h). Uniform numbers have the CPU's bits; normal ones are their
// quantiles by the device's logarithm, in double, and so may differ in a float's last place, once in many millions.
#include <cmath>

#include "engine/base/normal_quantile.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/random.h"
#include "engine/kernels/cuda/stream_device.h"

namespace rivulet::gpu {
namespace {

constexpr int kBlockBits = 24;  // bits of a stream's 48-bit index; the others count steps

// Block `block` of a tensor. Each further 2^24 blocks have a separate key.
__device__ uint4 BlockOf(const Stream& stream, uint64_t step, uint32_t op, uint64_t block) {
  uint2 key = make_uint2(stream.key[0], stream.key[1]);
  const uint64_t part = block >> kBlockBits;
  if (part != 0) {
    const uint4 words =
        Philox(key, make_uint4(static_cast<uint32_t>(part), static_cast<uint32_t>(part >> 32), 0, 0xFF000000u));
    key = make_uint2(words.x, words.y);
  }
  const uint64_t index = step << kBlockBits | (block & ((uint64_t{1} << kBlockBits) - 1));
  return Philox(key, make_uint4(static_cast<uint32_t>(index),
                                uint32_t{stream.ordinal} << 16 | static_cast<uint32_t>(index >> 32 & 0xFFFF),
                                stream.round, uint32_t{stream.purpose} << 24 | (op & 0xFFFFFF)));
}

struct DeviceLog {
  RIVULET_HOST_DEVICE double operator()(double x) const { return log(x); }
};
struct DeviceRoot {
  RIVULET_HOST_DEVICE double operator()(double x) const { return sqrt(x); }
};

// The probability below -2 deviations.
constexpr double kTail = 0.022750131948179207;

__device__ double Quantile(double p) {
  return math::NormalQuantileOf(p - 0.5, p < 0.5 ? p : 1.0 - p, DeviceLog(), DeviceRoot());
}

// A float uses one word, a double two. Open: in the middle of its cell, within (0, 1).
template <typename T>
struct Words;
template <>
struct Words<float> {
  static constexpr int kPerBlock = 4;
  __device__ static float Uniform(const uint32_t* words) { return static_cast<float>(words[0] >> 8) * 0x1p-24f; }
  __device__ static double Open(const uint32_t* words) { return (static_cast<double>(words[0]) + 0.5) * 0x1p-32; }
};
template <>
struct Words<double> {
  static constexpr int kPerBlock = 2;
  __device__ static uint64_t Whole(const uint32_t* words) { return uint64_t{words[1]} << 32 | words[0]; }
  __device__ static double Uniform(const uint32_t* words) { return static_cast<double>(Whole(words) >> 11) * 0x1p-53; }
  __device__ static double Open(const uint32_t* words) {
    return (static_cast<double>(Whole(words) >> 12) + 0.5) * 0x1p-52;
  }
};

template <typename T>
struct Uniform {
  __device__ T operator()(const uint32_t* words) const { return Words<T>::Uniform(words); }
};
template <typename T>
struct Normal {
  __device__ T operator()(const uint32_t* words) const { return static_cast<T>(Quantile(Words<T>::Open(words))); }
};
// Conditional on values within two deviations.
template <typename T>
struct TruncatedNormal {
  __device__ T operator()(const uint32_t* words) const {
    return static_cast<T>(Quantile(kTail + Words<T>::Open(words) * (1.0 - 2.0 * kTail)));
  }
};

template <typename T, typename Draw>
__device__ void Fill(const DrawArguments& a, Draw draw) {
  constexpr int kPerBlock = Words<T>::kPerBlock;
  const int lane = a.lanes.Number(blockIdx.z);
  T* y = static_cast<T*>(a.y.of(lane));
  for (int64_t block = FirstElement(); block * kPerBlock < a.count; block += ElementStride()) {
    const uint4 of = BlockOf(a.streams[lane], a.steps[lane], a.op, static_cast<uint64_t>(block));
    const uint32_t words[4] = {of.x, of.y, of.z, of.w};
    for (int i = 0; i < kPerBlock && block * kPerBlock + i < a.count; ++i)
      y[block * kPerBlock + i] = draw(words + i * (4 / kPerBlock));
  }
}

#define RIVULET_GPU_DRAW(name, Distribution, T)                                          \
  __global__ void Distribution##_##T(DrawArguments a) { Fill<T>(a, Distribution<T>()); } \
  RIVULET_GPU_KERNEL(name "_" #T, DrawArguments, Distribution##_##T,                     \
                     GridOver((a.count + Words<T>::kPerBlock - 1) / Words<T>::kPerBlock, a.lanes));
#define RIVULET_GPU_DRAWS(T)                   \
  RIVULET_GPU_DRAW("draw_uniform", Uniform, T) \
  RIVULET_GPU_DRAW("draw_normal", Normal, T)   \
  RIVULET_GPU_DRAW("draw_truncated_normal", TruncatedNormal, T)
RIVULET_GPU_DRAWS(float)
RIVULET_GPU_DRAWS(double)

}  // namespace
}  // namespace rivulet::gpu
