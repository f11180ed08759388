// Conversion of version-1 control flow in foreign graphs (tf.cond and tf.while_loop as TensorFlow 1 writes them) to
// functions.
#pragma once

#include "engine/base/status.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// Tensor arrays become tensor lists: TensorArrayV3 and the ops on it become TensorList ops, and the "flow" between them
// the list. Nothing changes in a graph without them. UNIMPLEMENTED: TensorArrayGradV3, an array whose maker cannot be
// told; each named.
Status RaiseTensorArrays(proto::GraphDef& graph);

// Each frame of Enter, Merge, Switch, NextIteration and Exit becomes a While, and all Merges of one tf.cond with the
// Switches before them become an If, nested ones included; their bodies join the graph's library. An Exit and a Merge
// stay as Identity, so what they give has its old name. What only a branch or a body needed leaves the graph. Runs
// after RaiseTensorArrays. INVALID_ARGUMENT, UNIMPLEMENTED: a frame without LoopCond, a loop variable that is not
// Enter, Merge, Switch and NextIteration, a Merge of tensors that no one predicate tells apart, a value that leaves a
// loop other than by an Exit; each with the node's name.
Status RaiseControlFlow(proto::GraphDef& graph);

}  // namespace rivulet
