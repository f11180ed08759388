// How a block stores its tile of a product.
#pragma once

#include "engine/kernels/cuda/matmul.h"
#include "engine/kernels/cuda/product_tile.h"

namespace rivulet::gpu {

// A bias, then an activation: BiasAdd's and Relu's own arithmetic, a NaN stays NaN.
template <typename T>
__device__ inline T Finished(T sum, const T* bias, int column, int32_t activation) {
  if (bias != nullptr) sum = sum + bias[column];
  if (activation == kNoActivation) return sum;
  if (sum < T(0)) return T(0);
  return activation == kRelu6 && sum > T(6) ? T(6) : sum;
}

// c[rows, columns], its rows `c_row` elements apart.
template <int kRows, int kColumns, typename T>
__device__ void StoreTile(const T (&sums)[kRows][kColumns], int first_row, int first_column, int rows, int columns,
                          T* c, int64_t c_row, const Epilogue& epilogue, int lane) {
  const T* bias = epilogue.bias.data == nullptr ? nullptr : static_cast<const T*>(epilogue.bias.of(lane));
  const int thread_row = static_cast<int>(threadIdx.x) / 16, thread_column = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = first_row + PlaceOf<kRows>(thread_row, i);
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int column = first_column + PlaceOf<kColumns>(thread_column, j);
      if (column < columns) c[row * c_row + column] = Finished(sums[i][j], bias, column, epilogue.activation);
    }
  }
}

}  // namespace rivulet::gpu
