// Writer of the Update message (proto/federated/update.proto) from parts in the trainer's memory. It makes one
// allocation of the message's size; the generated class would hold the parts a second time.
#pragma once

#include <span>
#include <string>

#include "client/training/trainer.h"
#include "federated/aggregation/update.h"

namespace rivulet {

// An Update with `parts` (each as its codec made it, or its runs one after another) and `scalars` in order of their
// names. On the thread that trained, where a run is a difference.
std::string WriteUpdate(std::span<const PartView> parts, const Scalars& scalars);
// What a client uploads of a task that it has trained: a function of what it computed alone, so that the same task
// trained again gives the same bytes. `result` is as Trainer::Train gave it, and before the next Train.
inline std::string WriteUpdate(const LocalResult& result) { return WriteUpdate(result.parts, result.declared); }

}  // namespace rivulet
