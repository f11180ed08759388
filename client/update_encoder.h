// Writes the Update message (proto/federated/update.proto) around a delta that is gathered straight from the arena: one
// allocation of the message's size, where the generated class would hold the delta a second time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "federated/aggregation/update.h"

namespace rivulet {

// A run of float32 values in wire order.
using FloatSpan = std::span<const float>;

// An Update with one part "delta" (kF32, the runs one after another, `weight`) and `scalars` in order of their names.
std::string EncodeUpdate(std::string_view task_id, std::span<const FloatSpan> delta, int64_t weight,
                         const Scalars& scalars);

}  // namespace rivulet
