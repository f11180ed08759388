// Arguments of gathers by index and their gradients (gather.cu).
#pragma once

#include "engine/kernels/cuda/divider.h"
#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// "gather_uintN_t": params as [batch, outer, size, inner], indices as [batch, indices].
struct GatherArguments {
  LaneSpan<const void> params, indices;
  LaneSpan<void> out;
  int64_t count;  // of `out`
  int64_t size;
  Divider outer, index_count, inner;
  int32_t wide;  // nonzero: indices are int64, else int32
  Lanes lanes;
};

// "segment_sum_T": data as [ids, inner], out as [segments, inner].
struct SegmentSumArguments {
  LaneSpan<const void> data, ids;
  LaneSpan<void> out;
  int64_t count;  // of `out`
  int32_t id_count;
  Divider inner;
  int32_t wide;
  Lanes lanes;
};

// "one_hot_uintN_t": indices as [outer, inner], out as [outer, depth, inner].
struct OneHotArguments {
  LaneSpan<const void> indices, on, off;
  LaneSpan<void> out;
  int64_t count;  // of `out`
  Divider depth, inner;
  int32_t wide;
  Lanes lanes;
};

}  // namespace rivulet::gpu
