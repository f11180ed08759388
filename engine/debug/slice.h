// Slices as NumPy writes them: "[0, 2:8:2, ..., -1, ::-1]".
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// The elements that `slice` picks, copied: an integer takes one of an axis and the axis with it, a range keeps the
// axis, axes that are not named stay whole. "" and "[]" pick everything. INVALID_ARGUMENT: no slice, a step of 0, more
// places than axes. OUT_OF_RANGE: an integer beyond its axis (a range may end beyond it).
StatusOr<Tensor> SliceOf(const TensorView& tensor, std::string_view slice);

}  // namespace rivulet
