// How far each lane's update is clipped before it is folded (fold.h): the norm of all its values, over all runs of all
// its parts, and the factor that follows from it. What federated/mechanisms/clip.cc does for one update after the
// other, but that squares are added in another order, which shapes alone say: the norm's last bits may differ from the
// host's, and so the last bit of a value that is clipped by it.
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

inline constexpr int64_t kSquaresBlockValues = 4096;
constexpr int64_t SquaresBlocks(int64_t count) { return (count + kSquaresBlockValues - 1) / kSquaresBlockValues; }

// "sum_squares": the sum over the values of block b of a run, values[i] or values[i] − minus[i] as a fold takes them,
// in float64 into squares[b] of each lane.
struct SumSquaresArguments {
  LaneSpan<const float> values;
  const float* minus;  // null: none
  LaneSpan<double> squares;
  int64_t count;
  Lanes lanes;
};

// "clip_factors": factors[lane] = min(1, norm / √Σ squares) over the lane's `blocks` blocks; 1 where that is no number.
struct ClipFactorsArguments {
  LaneSpan<const double> squares;
  double* factors;  // by the lane's number
  int64_t blocks;
  double norm;
  Lanes lanes;
};

}  // namespace rivulet::gpu
