// Draws of a lane's stream on a device: Philox4x32-10 (engine/base/philox.h) and the numbers derived from its words
// (engine/base/draws.h), each by its position, so that no thread waits for earlier draws.
#pragma once

#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/random.h"

namespace rivulet::gpu {

__device__ inline uint4 Philox(uint2 key, uint4 counter) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * counter.x, p1 = uint64_t{0xCD9E8D57u} * counter.z;
    counter = make_uint4(static_cast<uint32_t>(p1 >> 32) ^ counter.y ^ key.x, static_cast<uint32_t>(p1),
                         static_cast<uint32_t>(p0 >> 32) ^ counter.w ^ key.y, static_cast<uint32_t>(p0));
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return counter;
}

// A client's draws for other purposes than its steps: the same stream, of another purpose.
struct PurposeStream {
  const Stream* streams;  // by lane, of any purpose
  uint32_t purpose;       // federated/random/streams.h
  uint32_t op;

  // Block `index` of the lane's stream: StreamKey::Block.
  __device__ uint4 Block(int lane, uint64_t index) const {
    const Stream& stream = streams[lane];
    return Philox(make_uint2(stream.key[0], stream.key[1]),
                  make_uint4(static_cast<uint32_t>(index),
                             uint32_t{stream.ordinal} << 16 | static_cast<uint32_t>(index >> 32 & 0xFFFF), stream.round,
                             purpose << 24 | (op & 0xFFFFFF)));
  }
  // The result of Draws::Word64 after `number` earlier calls.
  __device__ uint64_t Word64(int lane, uint64_t number) const {
    const uint4 words = Block(lane, number / 2);
    return number % 2 == 0 ? words.x | uint64_t{words.y} << 32 : words.z | uint64_t{words.w} << 32;
  }
  // The same for Draws::Uniform.
  __device__ double Uniform(int lane, uint64_t number) const { return UniformOf(Word64(lane, number)); }
  __device__ static double UniformOf(uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }
};

}  // namespace rivulet::gpu
