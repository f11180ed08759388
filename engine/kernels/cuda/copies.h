// Arguments of the kernels that only move elements (copies.cu).
#pragma once

#include "engine/kernels/cuda/lane_span.h"
#include "engine/kernels/cuda/walk.h"

namespace rivulet::gpu {

// "strided_copy_uintN_t": copies elements of N bits, by a walk over `to` and `from`.
struct StridedCopyArguments {
  LaneSpan<const void> from;
  LaneSpan<void> to;
  int64_t count;
  Walk<2> walk;
  Lanes lanes;
};

// "fill_uintN_t": sets every element to `bits`, or to *from if that is not null.
struct FillArguments {
  LaneSpan<const void> from;
  LaneSpan<void> to;
  int64_t count;
  uint64_t bits;
  Lanes lanes;
};

}  // namespace rivulet::gpu
