// Staging area for the ops of a library during loading. They are registered only once all of them have passed the
// checks (engine/program/op_library.h).
#pragma once

#include <vector>

#include "engine/graph/op.h"

namespace rivulet::internal {

// For the calling thread; null, as almost always, means the registry.
std::vector<OpDef>*& CollectedOps();

}  // namespace rivulet::internal
