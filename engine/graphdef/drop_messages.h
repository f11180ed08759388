// Removal of the message strings of Assert and Print nodes in foreign graphs.
#pragma once

#include "proto/graph/graph.pb.h"

namespace rivulet {

// An Assert and a Print lose those of their data that are constant strings, and the strings leave the graph where
// nobody else uses them: tensors have no strings here, and a failed Assert names its node.
void DropMessages(proto::GraphDef& graph);

}  // namespace rivulet
