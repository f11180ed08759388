// Clipping of each lane's update before it is added to the sums (fold.h): the norm over all its values in all runs of
// all parts, and the resulting factor. It matches federated/mechanisms/clip.cc except for the order in which squares
// are added, which depends on shapes alone. The norm's last bits may differ from the host's, and so may the last bit of
// a clipped value.
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

inline constexpr int64_t kSquaresBlockValues = 4096;
constexpr int64_t SquaresBlocks(int64_t count) { return (count + kSquaresBlockValues - 1) / kSquaresBlockValues; }

// "sum_squares": the sum of squares over the values of block b of a run (values[i], or values[i] − minus[i] as in
// fold.h), in float64, written to squares[b] of each lane.
struct SumSquaresArguments {
  LaneSpan<const float> values;
  const float* minus;  // null: nothing is subtracted
  LaneSpan<double> squares;
  int64_t count;
  Lanes lanes;
};

// "clip_factors": factors[lane] = min(1, norm / √Σ squares) over the lane's `blocks` blocks; 1 if that is NaN.
struct ClipFactorsArguments {
  LaneSpan<const double> squares;
  double* factors;  // by lane number
  int64_t blocks;
  double norm;
  Lanes lanes;
};

}  // namespace rivulet::gpu
