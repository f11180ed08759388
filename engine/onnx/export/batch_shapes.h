// Detection of the batch dimension in a graph's tensors, from shapes inferred for two batch sizes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet::onnx {

struct SymbolicDim {
  int64_t size = kUnknownDim;  // kUnknownDim if unknown
  std::string symbol;          // "N", "3*N"; empty: unknown
};

class BatchShapes {
 public:
  // Placeholders of which only the first size is unknown get the symbolic batch "N". If other sizes are unknown, or
  // shapes cannot be inferred, only the graph's own shapes are used.
  BatchShapes(const Graph& graph, const std::vector<const Node*>& placeholders, const std::vector<Output>& outputs);
  // Returns the dimensions; empty if the rank is unknown.
  std::vector<SymbolicDim> Of(Output tensor) const;

 private:
  std::map<std::pair<const Node*, int>, Shape> of_one_, of_other_;
};

}  // namespace rivulet::onnx
