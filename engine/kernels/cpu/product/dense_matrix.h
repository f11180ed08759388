// Matrices of a batch in float64, for factorisations: views of a kernel's scratch memory.
#pragma once

#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {

// The matrices of a batch: their number and size.
struct Matrices {
  int64_t count = 1, rows = 0, columns = 0;
  explicit Matrices(const Shape& shape) {
    const int rank = shape.rank();
    for (int axis = 0; axis < rank - 2; ++axis) count *= shape.dim(axis);
    rows = shape.dim(rank - 2);
    columns = shape.dim(rank - 1);
  }
  int64_t size() const { return rows * columns; }
};

// Row-major, in double.
struct DenseMatrix {
  double* data = nullptr;
  int64_t rows = 0, columns = 0;
  double& operator()(int64_t i, int64_t j) const { return data[i * columns + j]; }
};

template <typename T>
void LoadMatrix(const T* from, const DenseMatrix& to, bool transposed = false) {
  for (int64_t i = 0; i < to.rows; ++i)
    for (int64_t j = 0; j < to.columns; ++j)
      to(i, j) = static_cast<double>(transposed ? from[j * to.rows + i] : from[i * to.columns + j]);
}
template <typename T>
void StoreMatrix(const DenseMatrix& from, T* to) {
  for (int64_t i = 0; i < from.rows * from.columns; ++i) to[i] = static_cast<T>(from.data[i]);
}
inline void SetIdentity(const DenseMatrix& a) {
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) a(i, j) = i == j ? 1 : 0;
}

// Scratch for a matrix, and the order of its rows.
inline size_t FactorScratch(int64_t n, int64_t more) {
  return static_cast<size_t>(n * n + more) * sizeof(double) + static_cast<size_t>(n) * sizeof(int64_t);
}

// Registers `prepare` for both types.
#define RIVULET_MATRIX_KERNEL(name, prepare)                 \
  RIVULET_KERNEL(name, Device::kCpu, float, prepare<float>); \
  RIVULET_KERNEL(name, Device::kCpu, double, prepare<double>);

}  // namespace rivulet
