// Systems of equations and factorisations of square matrices, in float64 for any type: Gauss with partial pivoting and
// Cholesky; and the cross product.
//
// Not by Eigen, for three reasons. Eigen's decompositions own their matrices and permutations, and so allocate in every
// run, which kernels must not. Their order of sums depends on the vectors that Eigen was compiled for, so the portable
// policy would need this code in addition. And elimination by rows is as fast as Eigen's up to matrices of 256 rows,
// which are larger than those in losses and whitening.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/math.h"
#include "engine/kernels/cpu/product/dense_matrix.h"
#include "engine/kernels/cpu/strided/function_kernel.h"

namespace rivulet {
namespace {

// Computes L and U in place of `a`, with its rows permuted by `order`. Returns the permutation's sign; 0 if singular.
int Factor(const DenseMatrix& a, int64_t* order) {
  const int64_t n = a.rows;
  int sign = 1;
  bool singular = false;
  std::iota(order, order + n, int64_t{0});
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
    if (!(std::abs(a(pivot, k)) > 0)) {
      singular = true;
      continue;
    }
    if (pivot != k) {
      for (int64_t j = 0; j < n; ++j) std::swap(a(k, j), a(pivot, j));
      std::swap(order[k], order[pivot]);
      sign = -sign;
    }
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = a(i, k) /= a(k, k);
      for (int64_t j = k + 1; j < n; ++j) a(i, j) -= factor * a(k, j);
    }
  }
  return singular ? 0 : sign;
}

// Replaces b by the solution of triangular equations, from the first row on or from the last.
void SolveTriangle(const DenseMatrix& a, bool lower, bool unit, const DenseMatrix& b) {
  const int64_t n = a.rows;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = lower ? step : n - 1 - step;
    for (int64_t column = 0; column < b.columns; ++column) {
      double value = b(i, column);
      for (int64_t j = lower ? 0 : i + 1; lower ? j < i : j < n; ++j) value -= a(i, j) * b(j, column);
      b(i, column) = unit ? value : value / a(i, i);
    }
  }
}

Status Singular(int64_t matrix) { return InvalidArgument("matrix {} of the batch is singular", matrix); }

template <typename T>
StatusOr<Prepared> PrepareCholesky(const NodeView& node, const KernelPolicy&) {
  const Matrices matrices(node.inputs[0].shape);
  const int64_t n = matrices.rows;
  return MakeFunctionKernel(
      [=](const KernelContext& c) -> Status {
        const DenseMatrix a{As<double>(c.scratch), n, n};
        for (int64_t m = 0; m < matrices.count; ++m) {
          LoadMatrix(InputOf<T>(c, 0) + m * n * n, a);
          for (int64_t j = 0; j < n; ++j) {
            for (int64_t i = 0; i < j; ++i) a(i, j) = 0;
            for (int64_t i = j; i < n; ++i) {
              double value = a(i, j);
              for (int64_t k = 0; k < j; ++k) value -= a(i, k) * a(j, k);
              if (i == j && !(value > 0)) return InvalidArgument("matrix {} of the batch is not positive definite", m);
              a(i, j) = i == j ? std::sqrt(value) : value / a(j, j);
            }
          }
          StoreMatrix(a, OutputOf<T>(c, 0) + m * n * n);
        }
        return absl::OkStatus();
      },
      static_cast<size_t>(n * n) * sizeof(double));
}

template <typename T>
StatusOr<Prepared> PrepareDeterminant(const NodeView& node, const KernelPolicy&) {
  const Matrices matrices(node.inputs[0].shape);
  const int64_t n = matrices.rows;
  const bool log = node.outputs.size() == 2;
  return MakeFunctionKernel(
      [=](const KernelContext& c) -> Status {
        const DenseMatrix a{As<double>(c.scratch), n, n};
        int64_t* order = reinterpret_cast<int64_t*>(a.data + n * n);
        for (int64_t m = 0; m < matrices.count; ++m) {
          LoadMatrix(InputOf<T>(c, 0) + m * n * n, a);
          double sign = Factor(a, order), product = sign, sum = 0;
          for (int64_t i = 0; i < n; ++i) {
            product *= a(i, i);
            sum += math::Log(std::abs(a(i, i)));
            if (a(i, i) < 0) sign = -sign;
          }
          OutputOf<T>(c, 0)[m] = static_cast<T>(log ? sign : product);
          if (log) OutputOf<T>(c, 1)[m] = static_cast<T>(sum);
        }
        return absl::OkStatus();
      },
      FactorScratch(n, 0));
}

// Solves for every column of `b`, with a matrix that Factor has factored.
void SolveFactored(const DenseMatrix& a, const int64_t* order, const DenseMatrix& b, double* column) {
  for (int64_t j = 0; j < b.columns; ++j) {
    for (int64_t i = 0; i < a.rows; ++i) column[i] = b(order[i], j);
    const DenseMatrix one{column, a.rows, 1};
    SolveTriangle(a, true, true, one);
    SolveTriangle(a, false, false, one);
    for (int64_t i = 0; i < a.rows; ++i) b(i, j) = column[i];
  }
}

template <typename T>
StatusOr<Prepared> PrepareInverse(const NodeView& node, const KernelPolicy&) {
  const Matrices matrices(node.inputs[0].shape);
  const int64_t n = matrices.rows;
  const bool adjoint = node.attr<bool>("adjoint");
  return MakeFunctionKernel(
      [=](const KernelContext& c) -> Status {
        const DenseMatrix a{As<double>(c.scratch), n, n}, b{a.data + n * n, n, n};
        double* column = b.data + n * n;
        int64_t* order = reinterpret_cast<int64_t*>(column + n);
        for (int64_t m = 0; m < matrices.count; ++m) {
          LoadMatrix(InputOf<T>(c, 0) + m * n * n, a, adjoint);
          if (Factor(a, order) == 0) return Singular(m);
          SetIdentity(b);
          SolveFactored(a, order, b, column);
          StoreMatrix(b, OutputOf<T>(c, 0) + m * n * n);
        }
        return absl::OkStatus();
      },
      FactorScratch(n, n * n + n));
}

template <typename T>
StatusOr<Prepared> PrepareSolve(const NodeView& node, const KernelPolicy&) {
  const Matrices matrices(node.inputs[0].shape), rhs(node.inputs[1].shape);
  const int64_t n = matrices.rows, columns = rhs.columns;
  const bool adjoint = node.attr<bool>("adjoint"), triangular = node.node.type() == "MatrixTriangularSolve";
  const bool lower = triangular && node.attr<bool>("lower");
  return MakeFunctionKernel(
      [=](const KernelContext& c) -> Status {
        const DenseMatrix a{As<double>(c.scratch), n, n}, b{a.data + n * n, n, columns};
        double* column = b.data + n * columns;
        int64_t* order = reinterpret_cast<int64_t*>(column + n);
        for (int64_t m = 0; m < matrices.count; ++m) {
          LoadMatrix(InputOf<T>(c, 0) + m * n * n, a, adjoint);
          LoadMatrix(InputOf<T>(c, 1) + m * n * columns, b);
          if (triangular) {
            for (int64_t i = 0; i < n; ++i)
              if (a(i, i) == 0) return Singular(m);
            SolveTriangle(a, lower != adjoint, false, b);
          } else {
            if (Factor(a, order) == 0) return Singular(m);
            SolveFactored(a, order, b, column);
          }
          StoreMatrix(b, OutputOf<T>(c, 0) + m * n * columns);
        }
        return absl::OkStatus();
      },
      FactorScratch(n, n * columns + n));
}

template <typename T>
StatusOr<Prepared> PrepareLu(const NodeView& node, const KernelPolicy&) {
  const Matrices matrices(node.inputs[0].shape);
  const int64_t n = matrices.rows;
  const bool wide = node.outputs[1].dtype == DType::kInt64;
  return MakeFunctionKernel(
      [=](const KernelContext& c) -> Status {
        const DenseMatrix a{As<double>(c.scratch), n, n};
        int64_t* order = reinterpret_cast<int64_t*>(a.data + n * n);
        for (int64_t m = 0; m < matrices.count; ++m) {
          LoadMatrix(InputOf<T>(c, 0) + m * n * n, a);
          if (Factor(a, order) == 0) return Singular(m);
          StoreMatrix(a, OutputOf<T>(c, 0) + m * n * n);
          for (int64_t i = 0; i < n; ++i) {
            if (wide)
              OutputOf<int64_t>(c, 1)[m * n + i] = order[i];
            else
              OutputOf<int32_t>(c, 1)[m * n + i] = static_cast<int32_t>(order[i]);
          }
        }
        return absl::OkStatus();
      },
      FactorScratch(n, 0));
}

template <typename T>
StatusOr<Prepared> PrepareCross(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.outputs[0].shape.elements() / 3;
  return MakeFunctionKernel([count](const KernelContext& c) -> Status {
    for (int64_t i = 0; i < count; ++i) {
      const T *a = InputOf<T>(c, 0) + 3 * i, *b = InputOf<T>(c, 1) + 3 * i;
      T* out = OutputOf<T>(c, 0) + 3 * i;
      for (int k = 0; k < 3; ++k) out[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
    }
    return absl::OkStatus();
  });
}
RIVULET_KERNEL("Cross", Device::kCpu, float, PrepareCross<float>);
RIVULET_KERNEL("Cross", Device::kCpu, double, PrepareCross<double>);
RIVULET_KERNEL("Cross", Device::kCpu, int32_t, PrepareCross<int32_t>);
RIVULET_KERNEL("Cross", Device::kCpu, int64_t, PrepareCross<int64_t>);

RIVULET_MATRIX_KERNEL("Cholesky", PrepareCholesky)
RIVULET_MATRIX_KERNEL("MatrixDeterminant", PrepareDeterminant)
RIVULET_MATRIX_KERNEL("LogMatrixDeterminant", PrepareDeterminant)
RIVULET_MATRIX_KERNEL("MatrixInverse", PrepareInverse)
RIVULET_MATRIX_KERNEL("MatrixSolve", PrepareSolve)
RIVULET_MATRIX_KERNEL("MatrixTriangularSolve", PrepareSolve)
RIVULET_MATRIX_KERNEL("Lu", PrepareLu)

}  // namespace
}  // namespace rivulet
