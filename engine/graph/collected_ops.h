// Staging area for the ops of a library during loading. They are registered only once all of them are known to fit
// (engine/program/op_library.h).
#pragma once

#include <vector>

#include "engine/graph/op.h"

namespace rivulet::internal {

// Of the calling thread; null, as nearly always, means the registry.
std::vector<OpDef>*& CollectedOps();

}  // namespace rivulet::internal
