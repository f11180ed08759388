// Conversion of graphs to TensorFlow's ops alone, so that TensorFlow can read them.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct TensorFlowGraph {
  Graph graph;
  std::vector<std::string> foreign;  // ops unknown to TensorFlow that remain in it, without duplicates, sorted
};

// Returns a copy of `graph` in which Rivulet's ops Gelu, LayerNorm, ScaledDotProductAttention and LSTM are composed of
// TensorFlow's ops, under the same names; an LSTM becomes a While. Other nodes are copied unchanged, also those of
// these ops with settings that cannot be converted.
StatusOr<TensorFlowGraph> TensorFlowForm(const Graph& graph);

}  // namespace rivulet
