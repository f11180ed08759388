// Writes the Update message (proto/federated/update.proto) around parts that lie where they were trained: one
// allocation of the message's size, where the generated class would hold the parts a second time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "client/trainer.h"
#include "federated/aggregation/update.h"

namespace rivulet {

// An Update with `parts` (each kF32, its runs one after another) of `weight`, and `scalars` in order of their names. On
// the thread that trained, where a run is a difference.
std::string WriteUpdate(std::string_view task_id, std::span<const LocalResult::Part> parts, int64_t weight,
                        const Scalars& scalars);
// What a client uploads of a task that it has trained: its examples are the weight, and the scalar "train_seconds"
// comes along. `result` is as Trainer::Train gave it, and before the next Train.
std::string WriteUpdate(std::string_view task_id, const LocalResult& result);

}  // namespace rivulet
