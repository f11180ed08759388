// Computation and storage of a block's tile of a product.
#pragma once

#include "engine/kernels/cuda/matmul.h"
#include "engine/kernels/cuda/product_tile.h"
#include "engine/kernels/cuda/tensor_tile.h"

namespace rivulet::gpu {

// A bias, then an activation, with the arithmetic of BiasAdd and Relu: a NaN stays NaN.
template <typename T>
__device__ inline T Finished(T sum, const T* bias, int column, int32_t activation) {
  if (bias != nullptr) sum = sum + bias[column];
  if (activation == kNoActivation) return sum;
  if (sum < T(0)) return T(0);
  return activation == kRelu6 && sum > T(6) ? T(6) : sum;
}

// Stores to c[rows, columns], whose rows are `c_row` elements apart. `Places` gives the positions of elements.
template <typename Places, int kRows, int kColumns, typename T>
__device__ void StoreTile(const T (&sums)[kRows][kColumns], int first_row, int first_column, int rows, int columns,
                          T* c, int64_t c_row, const Epilogue& epilogue, int lane) {
  const T* bias = epilogue.bias.data == nullptr ? nullptr : static_cast<const T*>(epilogue.bias.of(lane));
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int row = first_row + Places::row(i, j), column = first_column + Places::column(i, j);
      if (row < rows && column < columns)
        c[row * c_row + column] = Finished(sums[i][j], bias, column, epilogue.activation);
    }
  }
}

// Computes a block's tile of a product, or of chunk `chunk` of its depth (to the partial sums): by each thread's own
// multiplications, of any type, or by tensor cores.
template <bool kTensor, int kRows, int kColumns, typename A, typename B>
__device__ void ComputeTile(const A& a, const B& b, int row, int column, int rows, int columns, int whole_depth,
                            const DepthChunks& chunks, int chunk, typename A::Element* c, int64_t c_row,
                            Epilogue epilogue, int lane) {
  using T = typename A::Element;
  DepthRange depth = {0, whole_depth};
  if (chunks.count.divisor > 1) {
    depth = {chunk * chunks.depth, min(whole_depth, (chunk + 1) * chunks.depth)};
    c = static_cast<T*>(chunks.partial.of(lane)) + static_cast<int64_t>(chunk) * rows * columns;
    c_row = columns;
    epilogue = {};
  }
  T sums[kRows][kColumns];
  if constexpr (kTensor) {
    MultiplyTensorTile<kRows, kColumns>(a, b, row, column, depth, sums);
    StoreTile<TensorPlaces<kRows, kColumns>>(sums, row, column, rows, columns, c, c_row, epilogue, lane);
  } else {
    MultiplyTile<kRows, kColumns>(a, b, row, column, depth, sums);
    StoreTile<ThreadPlaces<kRows, kColumns>>(sums, row, column, rows, columns, c, c_row, epilogue, lane);
  }
}

}  // namespace rivulet::gpu
