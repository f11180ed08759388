// Products by cuBLASLt instead of Rivulet's kernels (engine/kernels/cuda_libraries), only for shapes in a table and
// with the table's algorithm. So the same product is computed in the same way in every run and for any number of lanes.
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/matmul.h"

namespace rivulet::gpu {

// The choice of cuBLASLt's algorithm for a product, numbered like CUBLASLT_ALGO_CONFIG_…. It never splits the depth.
struct LibraryAlgorithm {
  int32_t id, tile, stages, swizzling, custom, inner_shape, cluster_shape;
  bool operator==(const LibraryAlgorithm&) const = default;
};

// "library_product_float", "library_product_tf32": c = a · b with one matrix per lane.
struct LibraryProductArguments {
  ProductArguments product;
  LibraryAlgorithm algorithm;
};

// "library_candidates_float", "library_candidates_tf32": a query, not a kernel. Returns the algorithms that cuBLASLt
// suggests for `product` with `product.lanes.count` lanes, best first, of those that do not split the depth. `found`
// and `count` are in host memory.
struct LibraryCandidatesArguments {
  ProductArguments product;
  LibraryAlgorithm* found;
  int32_t most;
  int32_t* count;
};

// A matrix in cuBLASLt's form: column-major without gaps, used as it is or transposed.
struct LibraryMatrix {
  int64_t rows, columns;
  bool turned;
  int64_t lane_stride;  // elements
};
// It is column-major, so for row-major matrices it computes cᵀ = bᵀ · aᵀ.
struct LibraryMatrices {
  LibraryMatrix first, second, result;  // b, a and c
};
inline LibraryMatrices LibraryMatricesOf(const ProductArguments& p) {
  const bool turn_a = p.a_depth != 1, turn_b = p.b_depth == 1;
  const auto stride = [](size_t bytes) { return static_cast<int64_t>(bytes / sizeof(float)); };
  LibraryMatrices m{};
  m.first = {turn_b ? p.depth : p.columns, turn_b ? p.columns : p.depth, turn_b, stride(p.b.lane_stride)};
  m.second = {turn_a ? p.rows : p.depth, turn_a ? p.depth : p.rows, turn_a, stride(p.a.lane_stride)};
  m.result = {p.columns, p.rows, false, stride(p.c.lane_stride)};
  return m;
}

}  // namespace rivulet::gpu
