// Shared parts of the adapters of recurrent layers: the walk over their sequences.
#pragma once

#include "engine/gpu/lane_copy.h"
#include "engine/kernels/cpu/recurrent/recurrent.h"
#include "engine/kernels/cuda/launch.h"
#include "engine/kernels/cuda/sequence_step.h"

namespace rivulet::gpu {

struct Sequences {
  SequenceWalk walk;
  SequenceStep step{};
  int lengths = -1;  // index of the input with lengths

  // `rows` are input or output rows, `multiple` · units wide. UNIMPLEMENTED: a clip, no steps, or (for layers with
  // gates) activations of gates and candidates other than the usual ones.
  static StatusOr<Sequences> Of(const NodeView& node, const Shape& rows, int64_t multiple, size_t lengths);

  // Position `s` of the walk; the position before the first has step -1.
  SequenceStep At(const GpuContext& context, int64_t s) const;
  // The step at position `s`, -1 if the walk has none.
  int32_t StepAt(int64_t s) const { return s < 0 || s >= walk.steps ? -1 : static_cast<int32_t>(walk.Step(s)); }
};

// UNIMPLEMENTED: an activation other than `usual`, by name.
Status CheckActivation(const NodeView& node, const char* attribute, std::string_view usual);

// An input that may be omitted.
inline LaneSpan<const void> Optional(const GpuContext& c, size_t i, bool given) {
  return given ? SpanOf<const void>(c.inputs[i]) : LaneSpan<const void>{};
}

inline Status PutCopy(const GpuContext& c, const GpuOperand& from, const GpuOperand& to, size_t bytes) {
  return c.stream->Launch(kLaneCopyKernel, LaneCopyArguments{to.data, to.lane_stride, from.data, from.lane_stride,
                                                             bytes, c.lanes.count, c.lanes.ids});
}

}  // namespace rivulet::gpu
