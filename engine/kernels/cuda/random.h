// Arguments of random numbers (random.cu).
#pragma once

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// A StreamKey (engine/base/philox.h) in the form for device code.
struct Stream {
  uint32_t key[2];
  uint16_t ordinal;
  uint32_t round;
  uint8_t purpose;
};

// "draw_uniform_T": [0, 1). "draw_normal_T", "draw_truncated_normal_T": mean 0 and deviation 1, the latter within two
// deviations.
struct DrawArguments {
  LaneSpan<void> y;
  int64_t count;
  const Stream* streams;  // by lane, like `steps`
  const uint64_t* steps;
  uint32_t op;  // position among the random ops of the model
  Lanes lanes;
};

}  // namespace rivulet::gpu
