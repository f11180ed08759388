// Replacement of TensorFlow ops that are synonyms of other ops.
#pragma once

#include "proto/graph/graph.pb.h"

namespace rivulet {

// AccumulateNV2 becomes AddN, and BatchMatMulV3 of one type BatchMatMulV2.
void RaiseSynonyms(proto::GraphDef& graph);

}  // namespace rivulet
