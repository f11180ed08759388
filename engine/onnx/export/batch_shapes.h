// Detection of the batch dimension in a graph's tensors, from shapes inferred for two batch sizes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet::onnx {

struct SymbolicDim {
  int64_t size = kUnknownDim;  // where it is known
  std::string symbol;          // "N", "3*N"; empty: unknown
};

class BatchShapes {
 public:
  // Placeholders whose first size alone is unknown get the symbolic batch "N"; where others have unknown sizes, or
  // shapes cannot be inferred, only what the graph says is known.
  BatchShapes(const Graph& graph, const std::vector<const Node*>& placeholders, const std::vector<Output>& outputs);
  // Empty where the rank is unknown.
  std::vector<SymbolicDim> Of(Output tensor) const;

 private:
  std::map<std::pair<const Node*, int>, Shape> of_one_, of_other_;
};

}  // namespace rivulet::onnx
