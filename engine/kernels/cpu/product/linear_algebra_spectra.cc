// Eigenvalues of symmetric matrices and singular values, by Jacobi rotations, in float64 for any type.
//
// Not by Eigen: a run must not allocate, and the portable policy needs the same bits on every
// CPU (see linear_algebra_equations.cc). Jacobi is several times slower than Eigen's
// tridiagonal form from 64 rows on, and keeps small singular values to full relative accuracy.
// The matrices of models (covariances, whitening, spectral norms) are small. If a model spends
// its time here, add Eigen as a second, native kernel whose solver is part of the KernelState.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/math.h"
#include "engine/kernels/cpu/product/dense_matrix.h"
#include "engine/kernels/cpu/strided/function_kernel.h"

namespace rivulet {
namespace {

constexpr int kMostSweeps = 60;

// A rotation (cosine, sine) that makes the off-diagonal element of [[a, b], [b, d]] zero.
void Rotation(double a, double b, double d, double* cosine, double* sine) {
  const double slope = (d - a) / (2 * b);
  const double t = (slope >= 0 ? 1 : -1) / (std::abs(slope) + std::sqrt(slope * slope + 1));
  *cosine = 1 / std::sqrt(t * t + 1);
  *sine = t * *cosine;
}

// Jacobi rotations transform the symmetric `a` to its eigenvalues, and `v` to the eigenvectors, as columns.
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
        // Zero apart from rounding errors, which would prolong the sweeps.
        a(p, q) = a(q, p) = 0;
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
          // The lower triangle counts, as in LAPACK.
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

// Hestenes' one-sided rotations make the columns of `a` orthogonal; `v` accumulates them.
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

// Completes the first `known` orthonormal columns of the square `u`, with remainders of unit vectors.
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
  // Columns are made orthogonal, so a wide matrix is transposed.
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

RIVULET_MATRIX_KERNEL("SelfAdjointEigV2", PrepareEigh)
RIVULET_MATRIX_KERNEL("Svd", PrepareSvd)

}  // namespace
}  // namespace rivulet
