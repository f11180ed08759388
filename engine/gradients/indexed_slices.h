// Sparse gradients. The gradient of rows chosen from a table equals the table's gradient, which is zero elsewhere. In
// the graph it is one node, UnsortedSegmentSum(values, indices, rows), so that consumers of a dense tensor (clipping,
// noise, a flat gradient) work unchanged. A consumer of the rows alone takes the node's inputs, and the node is never
// computed.
#pragma once

#include <optional>

#include "engine/graph/graph.h"

namespace rivulet {

struct IndexedSlices {
  Output values;  // [indices…, row…]
  Output
      indices;  // int32 or int64; values of an index that occurs several times are summed; negative indices are ignored
};

// Returns the rows that make up `gradient` if it is such a node over the first axis of a table; otherwise nullopt.
inline std::optional<IndexedSlices> AsIndexedSlices(Output gradient) {
  if (!gradient || gradient.node->type() != "UnsortedSegmentSum") return std::nullopt;
  return IndexedSlices{gradient.node->input(0), gradient.node->input(1)};
}

}  // namespace rivulet
