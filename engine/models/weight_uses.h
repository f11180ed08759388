// The products of a graph that a variable's value is the weight of, and the layout in which each sees it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

enum class ProductKind : uint8_t { kMatrix, kEinsum, kRows, kConvolution };
std::string_view Name(ProductKind kind);  // "matrix", "einsum", "rows", "convolution"

// The layout of a value that is reshaped, transposed and reshaped again.
struct WeightLayout {
  Shape before;               // ahead of the transposition
  std::vector<int64_t> perm;  // axis i of the result is axis perm[i] of `before`
  Shape after;                // at the product
  bool operator==(const WeightLayout&) const = default;

  Shape transposed() const;  // `before` by `perm`
};

// A product x · W for one W. The axes of W are of three kinds: batch (W has a matrix for each), in (summed over) and
// out (of the result).
struct WeightUse {
  Node* product = nullptr;
  int input = 0;  // of `product`, the weight
  ProductKind kind = ProductKind::kMatrix;
  WeightLayout layout;
  std::vector<int64_t> batch, in, out;  // axes of layout.after, each kind in the order of its labels

  int64_t Elements(const std::vector<int64_t>& axes) const;  // of layout.after, over these axes
};

struct WeightUses {
  std::vector<WeightUse> products;   // in the order of the graph
  const Node* recurrent = nullptr;   // a recurrent cell that takes the value whole, or null
  const Node* unfollowed = nullptr;  // another op that takes it, or null
  std::string_view why;              // of `unfollowed`: "is a convolution with groups"
};

// The uses of the variable behind `handle`, a VarHandleOp of the graph. Assignments and ops that ask for the shape
// alone are no uses.
WeightUses WeightUsesOf(const Graph& graph, Node* handle);

}  // namespace rivulet
