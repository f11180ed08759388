// Aggregation of several lanes' values into sums of integers on the device, with the same integers as
// federated/aggregation/fixed_point.h. A value's addend is weight × value, exact in float64, rounded once to an
// integer. Integers add up to the same sum in any order, so the kernel may process all lanes at once.
//
// Values are read once. For each lane the kernel also counts the nonzero values and those of them that contributed 0,
// and notes the first value that is NaN, infinite or beyond the bound. It computes the sum of squares in an order that
// depends on the shape alone, so the last bits may differ from the host's but not between runs. An invalid value adds
// nothing; the others of its lane are added, and the same kernel with `sign` -1 subtracts them again, to the bit.
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// Counters of a lane, or of one lane in one block.
struct FoldTally {
  double squares;
  int64_t nonzeros, lost;
  int64_t first_bad;  // by wire index; INT64_MAX: none
};

inline constexpr int64_t kFoldBlockValues = 4096;
constexpr int64_t FoldBlocks(int64_t count) { return (count + kFoldBlockValues - 1) / kFoldBlockValues; }

// "fold_values_64" and "fold_values_32", for sums with wrap-around: sums[i] += sign × Σ over lanes of round(value i ×
// the lane's scale); value i is values[i], or values[i] − minus[i] rounded once to float32. Subnormal float32 numbers
// count as zero, as on the host's training threads. Before it is checked and added, a value is multiplied by its lane's
// factor, in float64 and rounded once (clip.h), and passes through the codec. `scales` and `tallies` are indexed by
// position in the call: the tally of lane z in block b is tallies[z × tally_stride + b].
enum class FoldCodec : int32_t { kFloat32, kFloat16, kBFloat16 };
template <typename Sum>
struct FoldValuesArguments {
  LaneSpan<const float> values;
  const float* minus;  // null: nothing is subtracted
  Sum* sums;
  const double* scales;
  const double* factors;  // by lane number; null: 1
  FoldTally* tallies;     // null: none
  int64_t tally_stride;
  int64_t count;
  int64_t first;       // wire index of value 0
  int32_t bound_bits;  // of the largest accepted magnitude
  int32_t sign;
  FoldCodec codec;
  Lanes lanes;
};

// "fold_tallies": joins lane z's tallies of all blocks, in order, into totals[z].
struct FoldTalliesArguments {
  const FoldTally* tallies;
  FoldTally* totals;
  int64_t blocks;
  int32_t lanes;
};

}  // namespace rivulet::gpu
