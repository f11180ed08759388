#include "engine/kernels/cpu/small_matmul.h"

#include <algorithm>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/small_matmul.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/tail-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Rows of C kept in registers at once, two vectors each: 24 of 32 registers with AVX-512, 12 of 16 elsewhere.
#if HWY_TARGET <= HWY_AVX3
constexpr int kRows = 12;
#else
constexpr int kRows = 6;
#endif
// Rows of B per pass over C's columns, so that they come from the second-level cache.
constexpr int64_t kPanel = 64;

// C[R, columns of `vectors` vectors] (+)= A[R, k0..k1) · B[k0..k1), those columns; the last vector has `tail` columns
// when kTail.
template <int R, int kVectors, bool kTail>
HWY_INLINE void Block(const float* HWY_RESTRICT a, int64_t a_row, int64_t a_k, const float* HWY_RESTRICT b,
                      float* HWY_RESTRICT c, int64_t n, int64_t k_count, int64_t k_left, bool add, size_t tail) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V sum[R][kVectors];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      const float* at = c + r * n + static_cast<size_t>(v) * lanes;
      if (!add) {
        sum[r][v] = hn::Zero(d);
      } else if (kTail && v == kVectors - 1) {
        sum[r][v] = LoadTail(d, at, tail);
      } else {
        sum[r][v] = hn::LoadU(d, at);
      }
    }
  }
  const auto multiply = [&](int64_t k, const float* HWY_RESTRICT row) HWY_ATTR {
    V columns[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const float* at = row + static_cast<size_t>(v) * lanes;
      columns[v] = kTail && v == kVectors - 1 ? LoadTail(d, at, tail) : hn::LoadU(d, at);
    }
    for (int r = 0; r < R; ++r) {
      const V x = hn::Set(d, a[r * a_row + k * a_k]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(x, columns[v], sum[r][v]);
    }
  };
  if (k_left > 0) {  // the next panel's rows on their way
    for (int64_t k = 0; k < k_count; ++k) {
      const float* row = b + k * n;
      hwy::Prefetch(row + std::min(kPanel, k_left) * n);
      if (kVectors > 1) hwy::Prefetch(row + std::min(kPanel, k_left) * n + lanes);
      multiply(k, row);
    }
  } else {
    for (int64_t k = 0; k < k_count; ++k) multiply(k, b + k * n);
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* at = c + r * n + static_cast<size_t>(v) * lanes;
      if (kTail && v == kVectors - 1) {
        StoreTail(sum[r][v], d, at, tail);
      } else {
        hn::StoreU(sum[r][v], d, at);
      }
    }
  }
}

template <int R>
void Rows(const float* HWY_RESTRICT a, int64_t a_row, int64_t a_k, const float* HWY_RESTRICT b, float* HWY_RESTRICT c,
          int64_t n, int64_t k_count, int64_t k_left, bool add, int64_t column, int64_t columns) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  const float* at_b = b + column;
  float* at_c = c + column;
  if (columns == 2 * lanes) {
    Block<R, 2, false>(a, a_row, a_k, at_b, at_c, n, k_count, k_left, add, 0);
  } else if (columns > lanes) {
    Block<R, 2, true>(a, a_row, a_k, at_b, at_c, n, k_count, k_left, add, static_cast<size_t>(columns - lanes));
  } else if (columns == lanes) {
    Block<R, 1, false>(a, a_row, a_k, at_b, at_c, n, k_count, k_left, add, 0);
  } else {
    Block<R, 1, true>(a, a_row, a_k, at_b, at_c, n, k_count, k_left, add, static_cast<size_t>(columns));
  }
}

using RowsFn = void (*)(const float*, int64_t, int64_t, const float*, float*, int64_t, int64_t, int64_t, bool, int64_t,
                        int64_t);
template <int... R>
RowsFn RowsFor(int64_t rows, std::integer_sequence<int, R...>) {
  static constexpr RowsFn kTable[] = {&Rows<R + 1>...};
  return kTable[rows - 1];
}

void Panel(const float* a, int64_t a_row, int64_t a_k, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  if (k == 0) {
    std::fill_n(c, m * n, 0.0f);
    return;
  }
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  // Equal shares rather than a full block and a rest.
  const int64_t blocks = (m + kRows - 1) / kRows;
  const int64_t rows_per_block = blocks == 0 ? 1 : (m + blocks - 1) / blocks;
  // Few rows: B streams by panels, each used by all rows. Many rows (then k is small): one panel.
  const int64_t panel = m <= 4 * kRows ? kPanel : k;
  for (int64_t k0 = 0; k0 < k; k0 += panel) {
    const int64_t k_count = std::min(panel, k - k0), k_left = m <= 4 * kRows ? k - k0 - k_count : 0;
    const auto block = [&](int64_t row, int64_t column) {
      const int64_t rows = std::min(rows_per_block, m - row);
      RowsFor(rows, std::make_integer_sequence<int, kRows>())(a + row * a_row + k0 * a_k, a_row, a_k, b + k0 * n,
                                                              c + row * n, n, k_count, k_left, k0 > 0, column,
                                                              std::min(2 * lanes, n - column));
    };
    if (m <= 4 * kRows) {
      for (int64_t column = 0; column < n; column += 2 * lanes) {
        for (int64_t row = 0; row < m; row += rows_per_block) block(row, column);
      }
    } else {  // C is what streams
      for (int64_t row = 0; row < m; row += rows_per_block) {
        for (int64_t column = 0; column < n; column += 2 * lanes) block(row, column);
      }
    }
  }
}

// Dots of R rows of A with two rows of B (or one).
template <int R, int kPair>
void DotRows(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, float* HWY_RESTRICT c, int64_t n, int64_t k,
             int64_t ahead) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[R][kPair];
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < kPair; ++p) sum[r][p] = hn::Zero(d);
  }
  int64_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    V row[kPair];
    for (int p = 0; p < kPair; ++p) {
      row[p] = hn::LoadU(d, b + p * k + i);
      if (ahead > 0) hwy::Prefetch(b + p * k + i + ahead);
    }
    for (int r = 0; r < R; ++r) {
      const V x = hn::LoadU(d, a + r * k + i);
      for (int p = 0; p < kPair; ++p) sum[r][p] = hn::MulAdd(x, row[p], sum[r][p]);
    }
  }
  if (i < k) {
    const size_t tail = static_cast<size_t>(k - i);
    V row[kPair];
    for (int p = 0; p < kPair; ++p) row[p] = LoadTail(d, b + p * k + i, tail);
    for (int r = 0; r < R; ++r) {
      const V x = LoadTail(d, a + r * k + i, tail);
      for (int p = 0; p < kPair; ++p) sum[r][p] = hn::MulAdd(x, row[p], sum[r][p]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < kPair; ++p) c[r * n + p] = hn::GetLane(hn::SumOfLanes(d, sum[r][p]));
  }
}

using DotFn = void (*)(const float*, const float*, float*, int64_t, int64_t, int64_t);
template <int kPair, int... R>
DotFn DotFor(int64_t rows, std::integer_sequence<int, R...>) {
  static constexpr DotFn kTable[] = {&DotRows<R + 1, kPair>...};
  return kTable[rows - 1];
}

void Dot(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  const int64_t blocks = (m + kRows - 1) / kRows;
  const int64_t rows_per_block = blocks == 0 ? 1 : (m + blocks - 1) / blocks;
  constexpr auto kCounts = std::make_integer_sequence<int, kRows>();
  for (int64_t column = 0; column < n; column += 2) {
    const bool pair = column + 1 < n;
    const int64_t ahead = column + 10 < n ? 8 * k : 0;
    for (int64_t row = 0; row < m; row += rows_per_block) {
      const int64_t rows = std::min(rows_per_block, m - row);
      (pair ? DotFor<2>(rows, kCounts) : DotFor<1>(rows, kCounts))(a + row * k, b + column * k, c + row * n + column, n,
                                                                   k, ahead);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(Panel);
HWY_EXPORT(Dot);

void PanelMatMul(const float* a, int64_t a_row, int64_t a_k, const float* b, float* c, int64_t m, int64_t n,
                 int64_t k) {
  HWY_DYNAMIC_DISPATCH(Panel)(a, a_row, a_k, b, c, m, n, k);
}

void DotMatMul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  HWY_DYNAMIC_DISPATCH(Dot)(a, b, c, m, n, k);
}

void TransposeMatrix(const float* from, float* to, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 16;  // a cache line of floats each way
  for (int64_t row0 = 0; row0 < rows; row0 += kTile) {
    const int64_t row1 = std::min(rows, row0 + kTile);
    for (int64_t column0 = 0; column0 < columns; column0 += kTile) {
      const int64_t column1 = std::min(columns, column0 + kTile);
      for (int64_t column = column0; column < column1; ++column) {
        for (int64_t row = row0; row < row1; ++row) to[column * rows + row] = from[row * columns + column];
      }
    }
  }
}

}  // namespace rivulet
#endif
