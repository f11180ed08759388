// Arguments of the kernels that only move elements (copies.cu).
#pragma once

#include "engine/kernels/cuda/lane_span.h"
#include "engine/kernels/cuda/walk.h"

namespace rivulet::gpu {

// "strided_copy_uintN_t": elements of N bits, by a walk over `to` and `from`.
struct StridedCopyArguments {
  LaneSpan<const void> from;
  LaneSpan<void> to;
  int64_t count;
  Walk<2> walk;
  Lanes lanes;
};

// "fill_uintN_t": every element is `bits`, or *from where that is not null.
struct FillArguments {
  LaneSpan<const void> from;
  LaneSpan<void> to;
  int64_t count;
  uint64_t bits;
  Lanes lanes;
};

}  // namespace rivulet::gpu
