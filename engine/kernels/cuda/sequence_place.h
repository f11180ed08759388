// Sequence and unit of a thread in a recurrent step, and their offsets.
#pragma once

#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/sequence_step.h"

namespace rivulet::gpu {

struct SequencePlace {
  int32_t sequence, unit;
  const SequenceStep& walk;
  int lane;

  __device__ SequencePlace(const SequenceStep& walk, int lane, int64_t element) : walk(walk), lane(lane) {
    uint32_t rest = static_cast<uint32_t>(element);
    unit = static_cast<int32_t>(walk.units.Split(rest));
    sequence = static_cast<int32_t>(rest);
  }
  // Returns true if the sequence has step t.
  __device__ bool Covers(int t) const {
    if (t < 0 || t >= walk.steps) return false;
    if (walk.lengths.data == nullptr) return true;
    const void* lengths = walk.lengths.of(lane);
    return t < (walk.wide_lengths != 0 ? static_cast<const int64_t*>(lengths)[sequence]
                                       : int64_t{static_cast<const int32_t*>(lengths)[sequence]});
  }
  __device__ int64_t InState() const { return int64_t{sequence} * walk.units.divisor + unit; }
  // Offset in rows `multiple` · units wide; the next multiple is `units` further.
  __device__ int64_t InRows(int t, int multiple = 1) const {
    const int64_t row = int64_t{t} * walk.time_stride + int64_t{sequence} * walk.batch_stride;
    return row * multiple * walk.units.divisor + unit;
  }
  // Offset in a product of all sequences at once.
  __device__ int64_t InProduct(int multiple) const { return int64_t{sequence} * multiple * walk.units.divisor + unit; }
};

template <typename T>
__device__ T OrZero(const LaneSpan<const void>& span, int lane, int64_t i) {
  return span.data == nullptr ? T(0) : static_cast<const T*>(span.of(lane))[i];
}

inline Grid GridOverStates(const SequenceStep& walk, const Lanes& lanes) {
  return GridOver(int64_t{walk.batch} * walk.units.divisor, lanes);
}

}  // namespace rivulet::gpu
