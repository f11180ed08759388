// Systems of equations and factorisations of square matrices, in float64 whatever the type: Gauss with partial
// pivoting, Cholesky, and Jacobi's rotations for eigenvalues and singular values.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/math.h"
#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/kernels/cpu/strided/function_kernel.h"

namespace rivulet {
namespace {

// The matrices of a batch: how many, and of which size.
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

// L and U in the place of `a`, its rows exchanged as `order` says. The sign of the permutation; 0 where it is singular.
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

// b becomes the solution of a triangle's equations, from the first row on or from the last.
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

// A matrix, and the order of its rows.
size_t FactorScratch(int64_t n, int64_t more) {
  return static_cast<size_t>(n * n + more) * sizeof(double) + static_cast<size_t>(n) * sizeof(int64_t);
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

// Of every column of `b`, by a matrix that Factor has factored.
void SolveFactored(const DenseMatrix& a, const int64_t* order, const DenseMatrix& b, double* column) {
  for (int64_t j = 0; j < b.columns; ++j) {
    for (int64_t i = 0; i < a.rows; ++i) column[i] = b(order[i], j);
    const DenseMatrix one{column, a.rows, 1};
    SolveTriangle(a, true, true, one);
    SolveTriangle(a, false, false, one);
    for (int64_t i = 0; i < a.rows; ++i) b(i, j) = column[i];
  }
}

void SetIdentity(const DenseMatrix& a) {
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) a(i, j) = i == j ? 1 : 0;
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

constexpr int kMostSweeps = 60;

// A rotation (cosine, sine) that makes the off-diagonal element of [[a, b], [b, d]] zero.
void Rotation(double a, double b, double d, double* cosine, double* sine) {
  const double slope = (d - a) / (2 * b);
  const double t = (slope >= 0 ? 1 : -1) / (std::abs(slope) + std::sqrt(slope * slope + 1));
  *cosine = 1 / std::sqrt(t * t + 1);
  *sine = t * *cosine;
}

// Jacobi's rotations turn the symmetric `a` into its eigenvalues, and `v` into the vectors, as columns.
void Diagonalize(const DenseMatrix& a, const DenseMatrix& v) {
  const int64_t n = a.rows;
  SetIdentity(v);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) (i == j ? all : off) += a(i, j) * a(i, j);
    if (off <= 1e-32 * (all + off)) return;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        if (a(p, q) == 0) continue;
        double cosine = 1, sine = 0;
        Rotation(a(p, p), a(p, q), a(q, q), &cosine, &sine);
        for (int64_t k = 0; k < n; ++k) {
          const double kp = a(k, p), kq = a(k, q);
          a(k, p) = cosine * kp - sine * kq;
          a(k, q) = sine * kp + cosine * kq;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double pk = a(p, k), qk = a(q, k);
          a(p, k) = cosine * pk - sine * qk;
          a(q, k) = sine * pk + cosine * qk;
          const double vp = v(k, p), vq = v(k, q);
          v(k, p) = cosine * vp - sine * vq;
          v(k, q) = sine * vp + cosine * vq;
        }
      }
  }
}

template <typename T>
StatusOr<Prepared> PrepareEigh(const NodeView& node, const KernelPolicy&) {
  const Matrices matrices(node.inputs[0].shape);
  const int64_t n = matrices.rows;
  const bool vectors = node.attr<bool>("compute_v");
  return MakeFunctionKernel(
      [=](const KernelContext& c) -> Status {
        const DenseMatrix a{As<double>(c.scratch), n, n}, v{a.data + n * n, n, n};
        int64_t* order = reinterpret_cast<int64_t*>(v.data + n * n);
        for (int64_t m = 0; m < matrices.count; ++m) {
          LoadMatrix(InputOf<T>(c, 0) + m * n * n, a);
          // The lower triangle is what counts, as in LAPACK.
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = i + 1; j < n; ++j) a(i, j) = a(j, i);
          Diagonalize(a, v);
          std::iota(order, order + n, int64_t{0});
          std::sort(order, order + n,
                    [&](int64_t i, int64_t j) { return a(i, i) < a(j, j) || (a(i, i) == a(j, j) && i < j); });
          for (int64_t j = 0; j < n; ++j) {
            OutputOf<T>(c, 0)[m * n + j] = static_cast<T>(a(order[j], order[j]));
            for (int64_t i = 0; vectors && i < n; ++i)
              OutputOf<T>(c, 1)[(m * n + i) * n + j] = static_cast<T>(v(i, order[j]));
          }
        }
        return absl::OkStatus();
      },
      FactorScratch(n, n * n));
}

// Hestenes' one-sided rotations make the columns of `a` orthogonal; `v` collects them.
void OrthogonalizeColumns(const DenseMatrix& a, const DenseMatrix& v) {
  const int64_t n = a.columns;
  SetIdentity(v);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool rotated = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        double pp = 0, pq = 0, qq = 0;
        for (int64_t k = 0; k < a.rows; ++k) {
          pp += a(k, p) * a(k, p);
          pq += a(k, p) * a(k, q);
          qq += a(k, q) * a(k, q);
        }
        if (pq == 0 || std::abs(pq) <= 1e-16 * std::sqrt(pp * qq)) continue;
        rotated = true;
        double cosine = 1, sine = 0;
        Rotation(pp, pq, qq, &cosine, &sine);
        const auto turn = [&](const DenseMatrix& x) {
          for (int64_t k = 0; k < x.rows; ++k) {
            const double kp = x(k, p), kq = x(k, q);
            x(k, p) = cosine * kp - sine * kq;
            x(k, q) = sine * kp + cosine * kq;
          }
        };
        turn(a);
        turn(v);
      }
    if (!rotated) return;
  }
}

// Completes the first `known` orthonormal columns of the square `u`: each further one is what is left of a unit vector.
void CompleteColumns(const DenseMatrix& u, int64_t known) {
  const int64_t n = u.rows;
  for (int64_t j = known, unit = 0; j < n && unit < n; ++unit) {
    for (int64_t i = 0; i < n; ++i) u(i, j) = i == unit ? 1 : 0;
    for (int twice = 0; twice < 2; ++twice)
      for (int64_t k = 0; k < j; ++k) {
        double dot = 0;
        for (int64_t i = 0; i < n; ++i) dot += u(i, k) * u(i, j);
        for (int64_t i = 0; i < n; ++i) u(i, j) -= dot * u(i, k);
      }
    double norm = 0;
    for (int64_t i = 0; i < n; ++i) norm += u(i, j) * u(i, j);
    if (norm < 1e-4) continue;
    for (int64_t i = 0; i < n; ++i) u(i, j) /= std::sqrt(norm);
    ++j;
  }
}

template <typename T>
StatusOr<Prepared> PrepareSvd(const NodeView& node, const KernelPolicy&) {
  const Matrices matrices(node.inputs[0].shape);
  // Columns are made orthogonal, so the matrix stands upright.
  const bool flat = matrices.rows < matrices.columns;
  const int64_t tall = std::max(matrices.rows, matrices.columns), thin = std::min(matrices.rows, matrices.columns);
  const bool vectors = node.attr<bool>("compute_uv"), full = node.attr<bool>("full_matrices");
  const size_t doubles = static_cast<size_t>(tall * thin + thin * thin + tall * tall + 2 * thin);
  return MakeFunctionKernel(
      [=](const KernelContext& c) -> Status {
        const DenseMatrix a{As<double>(c.scratch), tall, thin}, v{a.data + tall * thin, thin, thin};
        const DenseMatrix u{v.data + thin * thin, tall, tall};
        double* sizes = u.data + tall * tall;
        int64_t* order = reinterpret_cast<int64_t*>(sizes + thin);
        for (int64_t m = 0; m < matrices.count; ++m) {
          LoadMatrix(InputOf<T>(c, 0) + m * matrices.size(), a, flat);
          OrthogonalizeColumns(a, v);
          for (int64_t j = 0; j < thin; ++j) {
            double square = 0;
            for (int64_t i = 0; i < tall; ++i) square += a(i, j) * a(i, j);
            sizes[j] = std::sqrt(square);
          }
          std::iota(order, order + thin, int64_t{0});
          const auto size = [&](int64_t j) { return sizes[j]; };
          std::sort(order, order + thin,
                    [&](int64_t i, int64_t j) { return size(i) > size(j) || (size(i) == size(j) && i < j); });
          int64_t known = 0;
          for (int64_t j = 0; j < thin; ++j) {
            const int64_t from = order[j];
            OutputOf<T>(c, 0)[m * thin + j] = static_cast<T>(size(from));
            if (size(from) <= 1e-14 * size(order[0])) continue;
            for (int64_t i = 0; i < tall; ++i) u(i, j) = a(i, from) / size(from);
            known = j + 1;
          }
          if (!vectors) continue;
          CompleteColumns(u, known);
          T *left = OutputOf<T>(c, 1), *right = OutputOf<T>(c, 2);
          T *tall_out = flat ? right : left, *thin_out = flat ? left : right;
          const int64_t width = full ? tall : thin;
          for (int64_t i = 0; i < tall; ++i)
            for (int64_t j = 0; j < width; ++j) tall_out[(m * tall + i) * width + j] = static_cast<T>(u(i, j));
          for (int64_t i = 0; i < thin; ++i)
            for (int64_t j = 0; j < thin; ++j) thin_out[(m * thin + i) * thin + j] = static_cast<T>(v(i, order[j]));
        }
        return absl::OkStatus();
      },
      doubles * sizeof(double));
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

#define RIVULET_MATRIX_KERNEL(name, prepare)                 \
  RIVULET_KERNEL(name, Device::kCpu, float, prepare<float>); \
  RIVULET_KERNEL(name, Device::kCpu, double, prepare<double>);
RIVULET_MATRIX_KERNEL("Cholesky", PrepareCholesky)
RIVULET_MATRIX_KERNEL("MatrixDeterminant", PrepareDeterminant)
RIVULET_MATRIX_KERNEL("LogMatrixDeterminant", PrepareDeterminant)
RIVULET_MATRIX_KERNEL("MatrixInverse", PrepareInverse)
RIVULET_MATRIX_KERNEL("MatrixSolve", PrepareSolve)
RIVULET_MATRIX_KERNEL("MatrixTriangularSolve", PrepareSolve)
RIVULET_MATRIX_KERNEL("Lu", PrepareLu)
RIVULET_MATRIX_KERNEL("SelfAdjointEigV2", PrepareEigh)
RIVULET_MATRIX_KERNEL("Svd", PrepareSvd)

}  // namespace
}  // namespace rivulet
