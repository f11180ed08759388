// Small products inside kernels that traverse sequences or compute attention. Each policy has one order of sums for all
// shapes, except for factors that the matrix unit multiplies (StepFactor).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/kernels/cpu/product/choose.h"
#include "engine/kernels/cpu/product/small_matmul.h"
#include "engine/kernels/cpu/product/split_factor.h"

namespace rivulet {

// C[m,n] = op(A)·B with B[k,n] row-major and A's element (row, k) at a[row * a_row + k * a_k]. Each element is summed
// over k in order; floats use the register blocks unless `portable`.
template <typename T>
void StepProduct(bool portable, const T* a, int64_t a_row, int64_t a_k, const T* b, T* c, int64_t m, int64_t n,
                 int64_t k) {
  if constexpr (std::is_same_v<T, float>) {
    if (!portable) {
      constexpr int64_t kRows = 24;  // rows that share one pass over B
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

// to[columns, rows] = the transposed block [rows, columns] of a matrix with rows of length `stride`.
template <typename T>
void TransposeBlock(const T* from, int64_t stride, T* to, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 64 / sizeof(T);  // a cache line in both directions
  for (int64_t row0 = 0; row0 < rows; row0 += kTile) {
    const int64_t row1 = std::min(rows, row0 + kTile);
    for (int64_t column0 = 0; column0 < columns; column0 += kTile) {
      const int64_t column1 = std::min(columns, column0 + kTile);
      for (int64_t column = column0; column < column1; ++column)
        for (int64_t row = row0; row < row1; ++row) to[column * rows + row] = from[row * stride + column];
    }
  }
}

// B[k, n] of many StepProducts, packed once for all of them.
template <typename T>
class StepFactor {
 public:
  // `rows` of A in each of `products` products. B's element (row, column) is at from[row * stride + column], or if
  // `turned` at from[column * stride + row].
  StepFactor(bool portable, bool turned, int64_t stride, int64_t n, int64_t k, int64_t rows, int64_t products)
      : portable_(portable),
        turned_(turned),
        packed_(std::is_same_v<T, float> && !portable && (turned || PaysToPackFactor(products))),
        split_(packed_ && PaysToSplitFactor(n, k, rows, products)),
        stride_(stride),
        n_(n),
        k_(k) {}

  // Elements of the memory for LayOut.
  int64_t elements() const {
    if (split_) return static_cast<int64_t>((SplitFactorBytes(n_, k_) + SplitRowsBytes(k_)) / sizeof(float));
    return packed_ ? PackedElements(n_, k_) : turned_ || stride_ != n_ ? n_ * k_ : 0;
  }

  // The factor for Times: in `memory`, or the original.
  struct LaidOut {
    const T* factor = nullptr;
    std::byte* rows = nullptr;  // memory for rows of A, if the factor is split
  };
  LaidOut LayOut(const T* from, T* memory) const {
    if constexpr (std::is_same_v<T, float>) {
      const int64_t row = turned_ ? 1 : stride_, column = turned_ ? stride_ : 1;
      std::byte* const bytes = reinterpret_cast<std::byte*>(memory);
      if (split_ && PackSplitFactor(from, row, column, n_, k_, bytes))
        return {memory, bytes + SplitFactorBytes(n_, k_)};
      if (packed_) {
        PackPanels(from, row, column, memory, n_, k_);
        return {memory};
      }
    }
    if (turned_) {
      TransposeBlock(from, stride_, memory, n_, k_);
    } else if (stride_ == n_) {
      return {from};
    } else {
      for (int64_t row = 0; row < k_; ++row) std::copy_n(from + row * stride_, n_, memory + row * n_);
    }
    return {memory};
  }

  // C[m, n] = A·B; A's element (row, k) is at a[row * a_row + k]. With the bits of StepProduct, except for a split
  // factor.
  void Times(const T* a, int64_t a_row, const LaidOut& b, T* c, int64_t m) const {
    if constexpr (std::is_same_v<T, float>) {
      if (b.rows != nullptr)
        return SplitFactorProduct(a, a_row, reinterpret_cast<const std::byte*>(b.factor), c, m, n_, k_, b.rows);
      if (packed_) return PackedMatMul(a, a_row, 1, b.factor, c, m, n_, k_);
    }
    StepProduct<T>(portable_, a, a_row, 1, b.factor, c, m, n_, k_);
  }

 private:
  bool portable_, turned_, packed_, split_;
  int64_t stride_, n_, k_;
};

}  // namespace rivulet
