// Writer of the Update message (proto/federated/update.proto) from parts in the trainer's memory. It makes one
// allocation of the message's size; the generated class would hold the parts a second time.
#pragma once

#include <span>
#include <string>

#include "client/training/trainer.h"
#include "federated/aggregation/update.h"

namespace rivulet {

// An Update with `parts` (each encoded by its codec, or its runs one after another) and `scalars` in order of their
// names. Call it on the training thread if a run is a difference.
std::string WriteUpdate(std::span<const PartView> parts, const Scalars& scalars);
// A trained task's upload: a function of its results alone, so that training the task again gives the same bytes.
// `result` is from Trainer::Train, and valid until the next Train.
inline std::string WriteUpdate(const LocalResult& result) { return WriteUpdate(result.parts, result.declared); }

}  // namespace rivulet
