// Arguments and list of reductions (reduction.cu).
#pragma once

#include "engine/kernels/cuda/lane_span.h"
#include "engine/kernels/cuda/walk.h"

namespace rivulet::gpu {

// "Sum_float" and so on: each team of a block reduces one chunk of a result. With more than one chunk, the carries are
// written to `partial` ([results, chunks], 8 bytes each), and "Sum_float_chunks" joins them in order.
struct ReductionArguments {
  LaneSpan<const void> x;
  LaneSpan<void> y;
  LaneSpan<uint64_t> partial;
  int32_t results, count;  // count: elements per result
  int32_t chunk, chunks;
  int32_t parts;       // threads per chunk
  int32_t neighbours;  // nonzero: results are adjacent in x
  Walk<2> kept;        // y, x
  Walk<1> reduced;     // x
  Lanes lanes;
};

// "ArgMax_float_int64_t": x as [outer, size, inner].
struct ArgArguments {
  LaneSpan<const void> x;
  LaneSpan<void> y;
  int32_t size;
  int32_t results;
  Divider inner;
  Lanes lanes;
};

}  // namespace rivulet::gpu

#define RIVULET_GPU_REDUCED_FLOATS(M, R) M(R, float) M(R, double)
#define RIVULET_GPU_REDUCED_SIGNED(M, R) RIVULET_GPU_REDUCED_FLOATS(M, R) M(R, int32_t) M(R, int64_t)
#define RIVULET_GPU_REDUCTIONS(M)     \
  RIVULET_GPU_REDUCED_SIGNED(M, Sum)  \
  RIVULET_GPU_REDUCED_SIGNED(M, Mean) \
  RIVULET_GPU_REDUCED_SIGNED(M, Max)  \
  RIVULET_GPU_REDUCED_SIGNED(M, Min)  \
  RIVULET_GPU_REDUCED_SIGNED(M, Prod) \
  RIVULET_GPU_REDUCED_FLOATS(M, EuclideanNorm)
// For all elements at once.
#define RIVULET_GPU_WHOLE_REDUCTIONS(M) RIVULET_GPU_REDUCED_FLOATS(M, L2Loss) RIVULET_GPU_REDUCED_FLOATS(M, AllFinite)
#define RIVULET_GPU_LOGIC_REDUCTIONS(M) M(All, bool) M(Any, bool)
