// Where the ops of a library go while it is being loaded: kept apart until all of it is known to fit
// (engine/program/op_library.h).
#pragma once

#include <vector>

#include "engine/graph/op.h"

namespace rivulet::internal {

// Of the calling thread; null, as nearly always, means the registry.
std::vector<OpDef>*& CollectedOps();

}  // namespace rivulet::internal
