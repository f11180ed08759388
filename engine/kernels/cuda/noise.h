// Normal numbers of each lane's stream, added to its values: the host's Draws::Normal (engine/base/draws.h), to the
// bit. The polar method draws two numbers in the square and rejects those outside of the circle, so a value's position
// does not determine the number of earlier draws. But each try takes exactly one block of four words. Accepted tries
// are counted first, chunk by chunk ("noise_count", then codec.h's "codec_places"). Then each accepted try computes the
// positions of its two values ("noise_add"). If there were too few, one thread continues ("noise_rest").
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/lane_span.h"
#include "engine/kernels/cuda/random.h"

namespace rivulet::gpu {

inline constexpr int64_t kNoiseChunk = 256;
constexpr int64_t NoiseChunks(int64_t tries) { return (tries + kNoiseChunk - 1) / kNoiseChunk; }

struct NoiseArguments {
  LaneSpan<float> values;
  LaneSpan<int64_t> counts;  // NoiseChunks(tries) + 1
  int64_t first, count;      // position of these values in the update
  int64_t tries;             // a multiple of the chunk size
  double deviation;
  const Stream* streams;  // by lane, of any purpose
  uint32_t purpose, op;
  Lanes lanes;
};

}  // namespace rivulet::gpu
