// Matrix products with a small side, typical of training steps on small batches: weights are read once, in order, at
// the speed of memory. Each element of C is one sum over k in order (NN, TN), or a fixed number of partial sums (NT).
#pragma once

#include <cstddef>
#include <cstdint>

namespace rivulet {

// C[m,n] = op(A)·B with B[k,n] row-major and A's element (row, k) at a[row * a_row + k * a_k].
void PanelMatMul(const float* a, int64_t a_row, int64_t a_k, const float* b, float* c, int64_t m, int64_t n, int64_t k);

// A factor B[k,n] of many products, packed so that each of them streams it: panels of columns, the last padded; within
// a panel row by row. B's element (row, column) is at b[row * b_row + column * b_column].
constexpr int64_t kPackedColumns = 32;
inline int64_t PackedElements(int64_t n, int64_t k) {
  return (n + kPackedColumns - 1) / kPackedColumns * kPackedColumns * k;
}
void PackPanels(const float* b, int64_t b_row, int64_t b_column, float* packed, int64_t n, int64_t k);
// PanelMatMul with packed B, with the same bits.
void PackedMatMul(const float* a, int64_t a_row, int64_t a_k, const float* packed, float* c, int64_t m, int64_t n,
                  int64_t k);

// variable[m,n] = from - rate · op(A)·B, with the bits of storing PanelMatMul's product first. For small k. `from` is
// the variable itself or does not overlap it.
void PanelMatMulDescent(const float* a, int64_t a_row, int64_t a_k, const float* b, float rate, const float* from,
                        float* variable, int64_t m, int64_t n, int64_t k);

// C[m,n] = A[m,k]·B[n,k]ᵀ, both row-major.
void DotMatMul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k);
// The same for few rows of B: A is streamed once, and each of its rows meets all of B.
void DotMatMulOfFewColumns(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k);

// The gradients of a dense layer y = x·W and its update in one pass over the weights: dx[batch, in] = dy·fromᵀ and then
// W[in, out] = from - rate · xᵀ·dy, with the bits of DotMatMul followed by PanelMatMulDescent. `from` is W itself or
// does not overlap it.
void DenseBackwardDescent(const float* x, const float* dy, float rate, const float* from, float* weights, float* dx,
                          int64_t batch, int64_t in, int64_t out);

// to[columns, rows] = from[rows, columns]ᵀ.
void TransposeMatrix(const float* from, float* to, int64_t rows, int64_t columns);
void TransposeMatrix(const double* from, double* to, int64_t rows, int64_t columns);

}  // namespace rivulet
