// Choice of a matrix product's algorithm: by type and sizes alone, with fixed thresholds, so that it is the same on
// every machine with the same instruction sets. The table in README.md lists the algorithms.
#pragma once

#include <cstdint>

#include "engine/kernels/cpu/product/matrix_product.h"
#include "engine/program/kernel.h"

namespace rivulet {

// Sums of at most so many terms use kPanel with one panel: a batch, for Aᵀ·B, or an embedding's few columns.
constexpr int64_t kSmallDepth = 32;

enum class ProductAlgorithm {
  kPortable,            // portable_product.h: the same bits on every CPU
  kPanel,               // small_matmul.h: register blocks over panels of B
  kDot,                 //   dots of rows of A and of B
  kDotOfFewColumns,     // the same, with A streamed once for all columns
  kTransposeThenPanel,  // kPanel after transposing B
  kSplit,               // matmul_split.h: the matrix unit, with factors in three parts of bfloat16
  kLibrary,             // dnnl_product.h, or Eigen if oneDNN has no fast implementation
  kEigen,
};

// For MatMul. T: float or double; integers use plain loops.
template <typename T>
ProductAlgorithm ChooseProduct(const MatrixProduct& product, const KernelPolicy& policy);

// Returns true if the algorithm is in small_matmul.h.
bool IsSmall(ProductAlgorithm algorithm);
// The algorithm of small_matmul.h for any sizes; at most one factor may be transposed.
ProductAlgorithm SmallAlgorithm(const MatrixProduct& product);

enum class BFloat16Algorithm {
  kTilesForward,        // tile_dense.h: a layer's outputs
  kTilesInputGradient,  //   its input's gradient
  kLibrary,             // dnnl_product.h, or float32 if oneDNN has no fast implementation
  kFloat32,             // in float32
};

// For MatMul in bfloat16; `fused`: with a bias and an activation.
BFloat16Algorithm ChooseBFloat16Product(const MatrixProduct& product, bool fused, const KernelPolicy& policy);

// The shape of many equal products (batch_product.h).
struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_k = 1;  // op(A)'s element (row, term) is at a[row * a_row + term * a_k]
  bool b_transposed = false;   // B is stored [n, k] instead of [k, n]
  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
  bool has_rows() const { return a_k == 1 && a_row == k; }     // A is row-major without gaps
  bool has_columns() const { return a_row == 1 && a_k == m; }  // or its transpose is row-major without gaps
};

enum class BatchAlgorithm { kLoop, kSingle, kPanel, kDot, kTransposeThenPanel, kLibrary };

// T: float, double, int32_t or int64_t. kLibrary: oneDNN, or ChooseOwnBatchProduct if that has no fast implementation.
template <typename T>
BatchAlgorithm ChooseBatchProduct(const ProductShape& shape, const KernelPolicy& policy);
BatchAlgorithm ChooseOwnBatchProduct(const ProductShape& shape);

// For a factor [k, n] of `products` products of `rows` rows each (step_product.h): whether to pack it once for all of
// them, and whether to split it for the matrix unit.
bool PaysToPackFactor(int64_t products);
bool PaysToSplitFactor(int64_t n, int64_t k, int64_t rows, int64_t products);

}  // namespace rivulet
