// Ranges that StridedSlice selects from each axis, resolved from begin, end, strides and its five masks, as TensorFlow
// defines them. Shared by the shape functions and kernels of StridedSlice and StridedSliceGrad.
#pragma once

#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/attr.h"

namespace rivulet {

struct StridedSliceGeometry {
  // Per axis of the input: first element, step, and number of selected elements (unknown if the axis is).
  std::vector<int64_t> begin, stride, size;
  Shape output;  // with new axes inserted and shrunk ones removed
};

// `input` has known rank. INVALID_ARGUMENT: different lengths, more entries than axes, a stride of 0, several ellipses,
// or an index out of range for a shrunk axis.
StatusOr<StridedSliceGeometry> ResolveStridedSlice(const AttrMap& attrs, const Shape& input,
                                                   std::span<const int64_t> begin, std::span<const int64_t> end,
                                                   std::span<const int64_t> strides);

}  // namespace rivulet
