// Replacement of TensorFlow ops that are synonyms of other ops.
#pragma once

#include "proto/graph/graph.pb.h"

namespace rivulet {

// AccumulateNV2 becomes AddN, BatchMatMulV3 of one type becomes BatchMatMulV2, and VariableShape becomes the Shape of a
// new read "<name>/Read". Queues and gradient accumulators that are passed by reference (FIFOQueue,
// ConditionalAccumulator, …), and the ops on them, become their resource forms.
void RaiseSynonyms(proto::GraphDef& graph);

}  // namespace rivulet
