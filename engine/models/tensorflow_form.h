// Graphs in TensorFlow's ops alone, for its own readers.
#pragma once

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// A copy of `graph` in which Gelu, LayerNorm, ScaledDotProductAttention and LSTM, ops of our own, are built of
// TensorFlow's under their names; an LSTM becomes a While. Everything else is copied. UNIMPLEMENTED names a node whose
// op TensorFlow does not have and which is not built here, or a setting of such an op.
StatusOr<Graph> TensorFlowForm(const Graph& graph);

}  // namespace rivulet
