// Conversion of version-1 stacks, which hold the values that a loop's gradient needs, to tensor lists.
#pragma once

#include "engine/base/status.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// Replaces a StackV2 by an empty list, which becomes an additional variable of the loops that push to it and pop from
// it. After a condition with a push or pop, the list is that of the branch taken. UNIMPLEMENTED: a stack with several
// pushes or pops, or without an identifiable loop.
Status RaiseStacks(proto::GraphDef& graph);

}  // namespace rivulet
