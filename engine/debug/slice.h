// Slices in NumPy's notation: "[0, 2:8:2, ..., -1, ::-1]".
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Returns a copy of the elements selected by `slice`. An integer selects one index and removes its axis; a range keeps
// its axis; omitted axes are complete. "" and "[]" select all. INVALID_ARGUMENT: not a slice, a step of 0, more entries
// than axes. OUT_OF_RANGE: an integer beyond its axis (a range may end beyond it).
StatusOr<Tensor> SliceOf(const TensorView& tensor, std::string_view slice);

}  // namespace rivulet
