// Inputs of a training step of many clients besides the program: each lane's batch, gathered from examples on the
// device, and its step count. So all steps have the same work, and can be captured as a graph and replayed without the
// host.
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// Progress of a lane. The programs' step count is separate, as GpuDraws::steps requires.
struct LaneProgress {
  uint64_t taken = 0;  // entries of its order used so far
};

// "gather_rows": feed[r] = examples[order[taken + r]] for `rows` rows of `row_words` words of 4 bytes.
struct GatherRowsArguments {
  LaneSpan<const uint32_t> examples;
  LaneSpan<const uint32_t> order;
  LaneSpan<const LaneProgress> progress;
  LaneSpan<uint32_t> feed;
  int64_t rows, row_words;
  Lanes lanes;
};

// "count_step": runs after a step of `examples` examples. sums[i] += value i × (1 if bit i of `plain` is set, else
// examples), in float64, for the `count` values of the step; taken += examples; the lane's entry of `steps` is
// incremented. Values are `value_stride` floats apart.
inline constexpr int kMostCounted = 64;
struct CountStepArguments {
  LaneSpan<const float> values;
  int64_t value_stride;
  LaneSpan<double> sums;
  LaneSpan<LaneProgress> progress;
  uint64_t* steps;  // by lane number
  uint64_t plain;
  int64_t examples;
  int32_t count;
  Lanes lanes;
};

// "fill_words": to[i] = from[i], or `word` if `from` is null.
struct FillWordsArguments {
  LaneSpan<uint32_t> to;
  LaneSpan<const uint32_t> from;  // null: none
  int64_t words;
  uint32_t word;
  Lanes lanes;
};

}  // namespace rivulet::gpu
