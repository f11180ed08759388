// Normal numbers of each lane's own stream, added to its values: the host's Draws::Normal (engine/base/draws.h), to the
// bit. There two numbers are drawn in the square and rejected outside of the circle, so how many have been drawn before
// a value is not known from its place. But each try takes one block of four words, whatever comes of it: tries are
// counted first, chunk by chunk ("noise_count", then codec.h's "codec_places"), and then each that is good knows which
// two values are its own ("noise_add"). Where fewer were good than are wanted, one thread goes on ("noise_rest").
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
  int64_t first, count;      // of the update's values these are
  int64_t tries;             // whole chunks
  double deviation;
  const Stream* streams;  // by lane, of any purpose
  uint32_t purpose, op;
  Lanes lanes;
};

}  // namespace rivulet::gpu
