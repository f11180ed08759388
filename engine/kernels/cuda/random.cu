// Philox4x32-10 (engine/base/philox.h), with the draws of the CPU's kernels: element i of a float tensor takes word i
// of the lane's stream at its step and op, of a double tensor words 2i and 2i + 1 (engine/kernels/cpu/random_blocks.h).
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/random.h"

namespace rivulet::gpu {
namespace {

constexpr int kBlockBits = 24;  // of a stream's 48-bit index; the others count steps

__device__ uint4 Philox(uint2 key, uint4 counter) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * counter.x, p1 = uint64_t{0xCD9E8D57u} * counter.z;
    counter = make_uint4(static_cast<uint32_t>(p1 >> 32) ^ counter.y ^ key.x, static_cast<uint32_t>(p1),
                         static_cast<uint32_t>(p0 >> 32) ^ counter.w ^ key.y, static_cast<uint32_t>(p0));
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return counter;
}

// Block `block` of a tensor. Each further 2^24 of them have a key of their own.
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

__global__ void UniformFloat(UniformArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  float* y = static_cast<float*>(a.y.of(lane));
  for (int64_t block = FirstElement(); block * 4 < a.count; block += ElementStride()) {
    const uint4 of = BlockOf(a.streams[lane], a.steps[lane], a.op, static_cast<uint64_t>(block));
    const uint32_t words[4] = {of.x, of.y, of.z, of.w};
    for (int i = 0; i < 4 && block * 4 + i < a.count; ++i)
      y[block * 4 + i] = static_cast<float>(words[i] >> 8) * 0x1p-24f;
  }
}
RIVULET_GPU_KERNEL("uniform_float", UniformArguments, UniformFloat, GridOver((a.count + 3) / 4, a.lanes));

__global__ void UniformDouble(UniformArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  double* y = static_cast<double*>(a.y.of(lane));
  for (int64_t block = FirstElement(); block * 2 < a.count; block += ElementStride()) {
    const uint4 of = BlockOf(a.streams[lane], a.steps[lane], a.op, static_cast<uint64_t>(block));
    const uint64_t words[2] = {uint64_t{of.y} << 32 | of.x, uint64_t{of.w} << 32 | of.z};
    for (int i = 0; i < 2 && block * 2 + i < a.count; ++i)
      y[block * 2 + i] = static_cast<double>(words[i] >> 11) * 0x1p-53;
  }
}
RIVULET_GPU_KERNEL("uniform_double", UniformArguments, UniformDouble, GridOver((a.count + 1) / 2, a.lanes));

}  // namespace
}  // namespace rivulet::gpu
