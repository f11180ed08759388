// One position of a walk over sequences, in the arguments of recurrent steps.
#pragma once

#include "engine/kernels/cuda/divider.h"
#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// The row of step t and sequence b is at t · time_stride + b · batch_stride.
struct SequenceStep {
  int32_t step, before;  // `before`: the previous step of the walk; outside [0, steps): none
  int32_t steps, batch;
  Divider units;
  int32_t time_stride, batch_stride;
  LaneSpan<const void> lengths;  // null: all sequences have all steps
  int32_t wide_lengths;
};

}  // namespace rivulet::gpu
