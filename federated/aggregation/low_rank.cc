#include "federated/aggregation/low_rank.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace rivulet {
namespace {

// A matrix stored column by column.
struct ColumnMatrix {
  size_t rows = 0, columns = 0;
  std::vector<double> values;

  ColumnMatrix(size_t r, size_t c) : rows(r), columns(c), values(r * c) {}
  double& at(size_t row, size_t column) { return values[column * rows + row]; }
  double at(size_t row, size_t column) const { return values[column * rows + row]; }
  std::span<double> column(size_t c) { return std::span(values).subspan(c * rows, rows); }
  std::span<const double> column(size_t c) const { return std::span(values).subspan(c * rows, rows); }
};

double Dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

struct QrParts {
  ColumnMatrix q, r;  // [rows, p] and [p, columns], p = min(rows, columns)
};

// QR by Householder reflections (Golub and Van Loan, "Matrix computations", algorithm 5.2.1), with Q formed explicitly.
QrParts QrOf(const ColumnMatrix& matrix) {
  const size_t p = std::min(matrix.rows, matrix.columns);
  ColumnMatrix work = matrix;
  std::vector<std::vector<double>> reflections;
  const auto reflect = [](std::span<const double> v, size_t first, std::span<double> column) {
    const double along = 2 * Dot(v, column.subspan(first));
    for (size_t i = 0; i < v.size(); ++i) column[first + i] -= along * v[i];
  };
  for (size_t k = 0; k < p; ++k) {
    const std::span<double> column = work.column(k).subspan(k);
    std::vector<double> v(column.begin(), column.end());
    const double norm = std::sqrt(Dot(v, v));
    if (norm > 0) {
      v[0] += v[0] < 0 ? -norm : norm;
      const double length = std::sqrt(Dot(v, v));
      for (double& value : v) value /= length;
      for (size_t c = k; c < matrix.columns; ++c) reflect(v, k, work.column(c));
    }
    reflections.push_back(std::move(v));
  }
  QrParts parts{ColumnMatrix(matrix.rows, p), ColumnMatrix(p, matrix.columns)};
  for (size_t c = 0; c < matrix.columns; ++c)
    for (size_t row = 0; row < std::min(p, c + 1); ++row) parts.r.at(row, c) = work.at(row, c);
  for (size_t c = 0; c < p; ++c) {
    parts.q.at(c, c) = 1;
    for (size_t k = p; k-- > 0;) {
      // A column of zeros has no reflection.
      if (Dot(reflections[k], reflections[k]) > 0) reflect(reflections[k], k, parts.q.column(c));
    }
  }
  return parts;
}

struct SingularParts {
  ColumnMatrix u, v;
  std::vector<double> values;  // descending
};

// One-sided Jacobi (Hestenes 1958): rotates columns until any two are orthogonal. rows >= columns.
SingularParts JacobiOf(ColumnMatrix u) {
  const size_t n = u.columns;
  ColumnMatrix v(n, n);
  for (size_t i = 0; i < n; ++i) v.at(i, i) = 1;
  constexpr int kMostSweeps = 60;
  constexpr double kOrthogonal = 1e-13;
  const double noise = 1e-28 * Dot(u.values, u.values);  // squared norm of columns that hold only rounding errors
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < kMostSweeps; ++sweep) {
    rotated = false;
    for (size_t i = 0; i + 1 < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) {
        const double alpha = Dot(u.column(i), u.column(i)), beta = Dot(u.column(j), u.column(j));
        const double gamma = Dot(u.column(i), u.column(j));
        if (std::min(alpha, beta) <= noise || std::abs(gamma) <= kOrthogonal * std::sqrt(alpha * beta)) continue;
        rotated = true;
        const double zeta = (beta - alpha) / (2 * gamma);
        const double t = (zeta < 0 ? -1 : 1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
        for (ColumnMatrix* matrix : {&u, &v}) {
          const std::span<double> x = matrix->column(i), y = matrix->column(j);
          for (size_t row = 0; row < x.size(); ++row) {
            const double before = x[row];
            x[row] = c * before - s * y[row];
            y[row] = s * before + c * y[row];
          }
        }
      }
    }
  }
  std::vector<double> norms(n);
  for (size_t i = 0; i < n; ++i) norms[i] = std::sqrt(Dot(u.column(i), u.column(i)));
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return norms[a] > norms[b]; });
  SingularParts parts{ColumnMatrix(u.rows, n), ColumnMatrix(n, n), std::vector<double>(n)};
  for (size_t i = 0; i < n; ++i) {
    const double norm = parts.values[i] = norms[order[i]];
    for (size_t row = 0; row < u.rows; ++row) parts.u.at(row, i) = norm > 0 ? u.at(row, order[i]) / norm : 0;
    std::ranges::copy(v.column(order[i]), parts.v.column(i).begin());
  }
  return parts;
}

SingularParts SvdOf(const ColumnMatrix& matrix) {
  if (matrix.rows >= matrix.columns) return JacobiOf(matrix);
  ColumnMatrix turned(matrix.columns, matrix.rows);
  for (size_t row = 0; row < matrix.rows; ++row)
    for (size_t c = 0; c < matrix.columns; ++c) turned.at(c, row) = matrix.at(row, c);
  SingularParts parts = JacobiOf(std::move(turned));
  std::swap(parts.u, parts.v);
  return parts;
}

}  // namespace

void LowRankSum::Add(double weight, std::span<const float> a, std::span<const float> b) {
  const auto rows = static_cast<size_t>(rows_), columns = static_cast<size_t>(columns_), rank = a.size() / rows;
  for (size_t r = 0; r < rank; ++r) {
    for (size_t row = 0; row < rows; ++row) left_.push_back(weight * static_cast<double>(a[row * rank + r]));
    for (size_t column = 0; column < columns; ++column) right_.push_back(b[r * columns + column]);
  }
  rank_ += static_cast<int64_t>(rank);
}

LowRankSum::Factors LowRankSum::CutTo(int64_t rank) const {
  const auto stacked = static_cast<size_t>(rank_), rows = static_cast<size_t>(rows_);
  const auto columns = static_cast<size_t>(columns_), kept = static_cast<size_t>(rank);
  ColumnMatrix left(rows, stacked), right(columns, stacked);
  left.values = left_;
  right.values = right_;  // row r of the stacked B is column r here
  const QrParts l = QrOf(left), r = QrOf(right);
  ColumnMatrix core(l.r.rows, r.r.rows);
  for (size_t i = 0; i < core.rows; ++i)
    for (size_t j = 0; j < core.columns; ++j)
      for (size_t k = 0; k < stacked; ++k) core.at(i, j) += l.r.at(i, k) * r.r.at(j, k);
  const SingularParts svd = SvdOf(core);

  Factors factors{std::vector<double>(rows * kept), std::vector<double>(kept * columns)};
  double all = 0, dropped = 0;
  for (size_t s = 0; s < svd.values.size(); ++s) {
    const double square = svd.values[s] * svd.values[s];
    all += square;
    if (s >= kept) {
      dropped += square;
      continue;
    }
    const double half = std::sqrt(svd.values[s]);
    for (size_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (size_t i = 0; i < core.rows; ++i) sum += l.q.at(row, i) * svd.u.at(i, s);
      factors.a[row * kept + s] = half * sum;
    }
    for (size_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (size_t j = 0; j < core.columns; ++j) sum += r.q.at(column, j) * svd.v.at(j, s);
      factors.b[s * columns + column] = half * sum;
    }
  }
  factors.dropped_share = all > 0 ? dropped / all : 0;
  return factors;
}

}  // namespace rivulet
