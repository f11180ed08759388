// Arguments of random numbers (random.cu).
#pragma once

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// A StreamKey (engine/base/philox.h) as device code reads it.
struct Stream {
  uint32_t key[2];
  uint16_t ordinal;
  uint32_t round;
  uint8_t purpose;
};

// "uniform_float", "uniform_double": [0, 1).
struct UniformArguments {
  LaneSpan<void> y;
  int64_t count;
  const Stream* streams;  // by lane, as `steps`
  const uint64_t* steps;
  uint32_t op;  // position among the random ops of the model
  Lanes lanes;
};

}  // namespace rivulet::gpu
