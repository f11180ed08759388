// The products of a graph in which a variable's value is the weight, and its layout in each product.
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
  Shape before;               // before the transposition
  std::vector<int64_t> perm;  // axis i of the result is axis perm[i] of `before`
  Shape after;                // at the product
  bool operator==(const WeightLayout&) const = default;

  Shape transposed() const;  // `before`, transposed by `perm`
};

// A product x · W for one W. The axes of W are of three kinds: batch (W has a matrix for each), in (summed over) and
// out (of the result).
struct WeightUse {
  Node* product = nullptr;
  int input = 0;  // index of the weight among the inputs of `product`
  ProductKind kind = ProductKind::kMatrix;
  WeightLayout layout;
  std::vector<int64_t> batch, in, out;  // axes of layout.after, each kind in the order of its labels

  int64_t Elements(const std::vector<int64_t>& axes) const;  // product of the sizes of these axes of layout.after
};

struct WeightUses {
  std::vector<WeightUse> products;   // in the graph's order
  const Node* recurrent = nullptr;   // a recurrent cell that uses the whole value, or null
  const Node* unfollowed = nullptr;  // a different op that uses it, or null
  std::string_view why;              // reason for `unfollowed`: "is a convolution with groups"
};

// Returns the uses of the variable behind `handle`, a VarHandleOp of the graph. Assignments and ops that only read the
// shape are not uses.
WeightUses WeightUsesOf(const Graph& graph, Node* handle);

}  // namespace rivulet
