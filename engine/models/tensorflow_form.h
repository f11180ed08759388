// Conversion of graphs to TensorFlow's ops alone, so that TensorFlow can read them.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct TensorFlowGraph {
  Graph graph;
  std::vector<std::string> foreign;  // ops that TensorFlow lacks and that stand in it all the same, each once, sorted
};

// A copy of `graph` in which Gelu, LayerNorm, ScaledDotProductAttention and LSTM, ops of our own, are built of
// TensorFlow's under their names; an LSTM becomes a While. Everything else is copied, and so is an op whose setting has
// no such form.
StatusOr<TensorFlowGraph> TensorFlowForm(const Graph& graph);

}  // namespace rivulet
