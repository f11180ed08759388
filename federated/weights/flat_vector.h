// A value for each trainable element of a model: as a vector travels, in wire order, and as programs read it, where the
// model's arena has that element.
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
