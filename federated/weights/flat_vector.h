// A vector with one value for each trainable element of a model. On the wire it is in wire order; programs read it in
// the order of the model's arena.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"
#include "federated/weights/layout.h"

namespace rivulet {

// Converts little-endian float32 `wire` to arena order, as long as a task's trained variables; padding and local
// variables are zero. INVALID_ARGUMENT: its length is not that of the trainable elements.
StatusOr<AlignedBuffer> FlatOfWire(const ModelLayout& layout, std::string_view wire);

}  // namespace rivulet
