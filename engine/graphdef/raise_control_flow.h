// Conversion of version-1 control flow in foreign graphs (tf.cond and tf.while_loop as TensorFlow 1 writes them) to
// functions.
#pragma once

#include "engine/base/status.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// Replaces tensor arrays by tensor lists. TensorArrayV3 and the ops on it become TensorList ops, and the "flow" between
// them becomes the list. Other graphs are unchanged. UNIMPLEMENTED, with the node's name: an array, or an array's
// gradient, whose creating node cannot be found, and uses that lists do not support.
Status RaiseTensorArrays(proto::GraphDef& graph);

// Replaces each frame of Enter, Merge, Switch, NextIteration and Exit by a While, and all Merges of one tf.cond with
// their Switches by an If, including nested ones. Bodies are added to the graph's library. Exits and Merges stay as
// Identity nodes, so their results keep their names. Nodes used only by a branch or body are removed. Runs after
// RaiseTensorArrays. INVALID_ARGUMENT, UNIMPLEMENTED, with the node's name: a frame without LoopCond, an incomplete
// loop variable (Enter, Merge, Switch and NextIteration), a Merge without a single distinguishing predicate, or a value
// that leaves a loop without an Exit.
Status RaiseControlFlow(proto::GraphDef& graph);

}  // namespace rivulet
