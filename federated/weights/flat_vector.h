// A vector with one value for each trainable element of a model. On the wire it is in wire order; programs read it in
// the order of the model's arena.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"
#include "federated/weights/layout.h"

namespace rivulet {

// As long as what a task trains, padding and local variables zero. `wire`: little-endian float32. INVALID_ARGUMENT: it
// is not as long as the trainable elements.
StatusOr<AlignedBuffer> FlatOfWire(const ModelLayout& layout, std::string_view wire);

}  // namespace rivulet
