// The small products inside kernels that walk sequences and attend: one kind of sum per policy, whatever the shape.
#pragma once

#include <algorithm>
#include <type_traits>

#include "engine/kernels/cpu/small_matmul.h"

namespace rivulet {

// C[m,n] = op(A)·B with B[k,n] row-major and A's element (row, k) at a[row * a_row + k * a_k]. Each element is summed
// over k in order; floats go to the register blocks unless `portable`.
template <typename T>
void StepProduct(bool portable, const T* a, int64_t a_row, int64_t a_k, const T* b, T* c, int64_t m, int64_t n,
                 int64_t k) {
  if constexpr (std::is_same_v<T, float>) {
    if (!portable) {
      constexpr int64_t kRows = 24;  // B streams by, used by that many rows
      for (int64_t row = 0; row < m; row += kRows)
        PanelMatMul(a + row * a_row, a_row, a_k, b, c + row * n, std::min(kRows, m - row), n, k);
      return;
    }
  }
  for (int64_t row = 0; row < m; ++row, c += n) {
    std::fill_n(c, n, T{0});
    for (int64_t term = 0; term < k; ++term) {
      const T x = a[row * a_row + term * a_k];
      const T* line = b + term * n;
      for (int64_t column = 0; column < n; ++column) c[column] += x * line[column];
    }
  }
}

// to[columns, rows] = the block [rows, columns] of a matrix whose rows are `stride` long, transposed.
template <typename T>
void TransposeBlock(const T* from, int64_t stride, T* to, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 64 / sizeof(T);  // a cache line each way
  for (int64_t row0 = 0; row0 < rows; row0 += kTile) {
    const int64_t row1 = std::min(rows, row0 + kTile);
    for (int64_t column0 = 0; column0 < columns; column0 += kTile) {
      const int64_t column1 = std::min(columns, column0 + kTile);
      for (int64_t column = column0; column < column1; ++column)
        for (int64_t row = row0; row < row1; ++row) to[column * rows + row] = from[row * stride + column];
    }
  }
}

}  // namespace rivulet
