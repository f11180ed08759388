// Replacement of TensorFlow ops that are synonyms of other ops.
#pragma once

#include "proto/graph/graph.pb.h"

namespace rivulet {

// AccumulateNV2 becomes AddN, BatchMatMulV3 of one type BatchMatMulV2, and VariableShape the Shape of what a new node
// "<name>/Read" reads. Queues and gradient accumulators that are handed on by reference (FIFOQueue,
// ConditionalAccumulator, …), and the ops on them, become their resource forms.
void RaiseSynonyms(proto::GraphDef& graph);

}  // namespace rivulet
