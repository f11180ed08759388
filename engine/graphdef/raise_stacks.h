// Conversion of version-1 stacks, which hold the values that a loop's gradient needs, to tensor lists.
#pragma once

#include "engine/base/status.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// A StackV2 becomes an empty list, which the loops that push to it and pop from it carry as one more variable.
// Where a push or pop stands within a condition, the list leaves it as that branch made it or as it was.
// UNIMPLEMENTED: a stack with several pushes or pops, or one whose loop cannot be told.
Status RaiseStacks(proto::GraphDef& graph);

}  // namespace rivulet
