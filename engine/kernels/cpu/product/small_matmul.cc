#include "engine/kernels/cpu/product/small_matmul.h"

#include <algorithm>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/product/small_matmul.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/product/dense_backward-inl.h"
#include "engine/kernels/cpu/vector/lane_sums-inl.h"
#include "engine/kernels/cpu/vector/register_block-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of B per pass over C's columns, so that they come from the second-level cache; fewer if they are wide, so that
// the panel and the next one stay in it together.
constexpr int64_t kPanel = 64, kWidePanel = 32, kWideRow = 1024;
// Prefetch distance in packed B: 16 of its rows, which take some 150 cycles.
constexpr int64_t kPackedAhead = 16 * kPackedColumns;

// With `rate` the product is not stored: c = from - rate · product. Memory `from_ahead` elements further in `from` is
// prefetched, unless that is 0.
void Panel(const float* a, int64_t a_row, int64_t a_k, const float* b, float* c, int64_t m, int64_t n, int64_t k,
           const float* rate, const float* from, int64_t from_ahead) {
  if (k == 0) {
    if (rate == nullptr) {
      std::fill_n(c, m * n, 0.0f);
    } else if (from != c) {
      std::copy_n(from, m * n, c);
    }
    return;
  }
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(D()));
  const int64_t share = EqualShare(m);
  const bool elsewhere = from != nullptr && from != c;
  BlockShape s;
  s.a_row = a_row;
  s.a_k = a_k;
  s.n = n;
  s.descend = rate != nullptr;
  s.rate = rate != nullptr ? *rate : 0;
  s.from_ahead = from_ahead;
  if (rate == nullptr && m <= 4 * kRows) {  // B is streamed by panels, each used by all rows
    const int64_t panel = n > kWideRow ? kWidePanel : kPanel;
    s.ahead_row = width;
    for (int64_t k0 = 0; k0 < k; k0 += panel) {
      s.depth = std::min(panel, k - k0);
      s.add = k0 > 0;
      for (int64_t column = 0; column < n; column += width) {
        // Prefetches the next panel in memory order, so that hardware continues from there; in the order of the blocks,
        // by columns, each prefetch would wait for memory separately.
        s.ahead = k0 + 2 * panel <= k ? panel * n + column * (panel - 1) : 0;
        for (int64_t row = 0; row < m; row += share) {
          BlockFor(std::min(share, m - row))(s, a + row * a_row + k0 * a_k, b + k0 * n + column, c + row * n + column,
                                             std::min(width, n - column));
        }
      }
    }
    return;
  }
  s.depth = k;  // C is streamed; k is small and B stays in the cache
  for (int64_t row = 0; row < m; row += share) {
    const BlockFn block = BlockFor(std::min(share, m - row));
    for (int64_t column = 0; column < n; column += width) {
      if (elsewhere) s.from = from + row * n + column;
      block(s, a + row * a_row, b + column, c + row * n + column, std::min(width, n - column));
    }
  }
}

// In a matrix of 1,024 columns the rows are a page apart: a block of columns would access another page, and the same
// few sets of the nearest cache, with each row, and hardware cannot prefetch it. In a panel, rows are contiguous.
void Packed(const float* a, int64_t a_row, int64_t a_k, const float* packed, float* c, int64_t m, int64_t n,
            int64_t k) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(D()));
  const int64_t share = EqualShare(m);
  static_assert(kPackedColumns % (2 * hn::MaxLanes(D())) == 0, "a block's columns lie in one panel");
  BlockShape s;
  s.a_row = a_row;
  s.a_k = a_k;
  s.n = n;
  s.b_row = kPackedColumns;
  s.depth = k;
  for (int64_t column = 0; column < n; column += width) {
    // Sums without terms read no panel, and there is none to point into.
    const float* b = k == 0 ? packed : packed + column / kPackedColumns * kPackedColumns * k + column % kPackedColumns;
    // The end of a panel prefetches the start of the next.
    s.ahead = k * kPackedColumns >= kPackedAhead && column + kPackedColumns < n ? kPackedAhead : 0;
    for (int64_t row = 0; row < m; row += share)
      BlockFor(std::min(share, m - row))(s, a + row * a_row, b, c + row * n + column, std::min(width, n - column));
  }
}

// Distance in C for successive rows of A, and for successive rows of B.
struct DotStrides {
  int64_t a = 0, b = 1;
};

// Dot products of R rows of A with kPair rows of B.
template <int R, int kPair>
void DotRows(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, float* HWY_RESTRICT c, DotStrides to, int64_t k,
             int64_t ahead) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[R][kPair];
  RIVULET_UNROLL
  for (int r = 0; r < R; ++r) {
    RIVULET_UNROLL
    for (int p = 0; p < kPair; ++p) sum[r][p] = hn::Zero(d);
  }
  int64_t i = 0;
  RowPointers<R, kPair == 1> x_at(a, k);
  for (; i + lanes <= k; i += lanes) {
    V row[kPair];
    RIVULET_UNROLL
    for (int p = 0; p < kPair; ++p) {
      row[p] = hn::LoadU(d, b + p * k + i);
      if (ahead > 0) hwy::Prefetch(b + p * k + i + ahead);
    }
    RIVULET_UNROLL
    for (int r = 0; r < R; ++r) {
      const V x = hn::LoadU(d, x_at.row(r));
      RIVULET_UNROLL
      for (int p = 0; p < kPair; ++p) sum[r][p] = hn::MulAdd(x, row[p], sum[r][p]);
    }
    x_at.Advance(lanes);
  }
  if (i < k) {
    const size_t tail = static_cast<size_t>(k - i);
    V row[kPair];
    RIVULET_UNROLL
    for (int p = 0; p < kPair; ++p) row[p] = LoadTail(d, b + p * k + i, tail);
    RIVULET_UNROLL
    for (int r = 0; r < R; ++r) {
      const V x = LoadTail(d, a + r * k + i, tail);
      RIVULET_UNROLL
      for (int p = 0; p < kPair; ++p) sum[r][p] = hn::MulAdd(x, row[p], sum[r][p]);
    }
  }
  // Groups of as many sums as a vector has lanes are reduced together, and the rest one by one.
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(D())), kTogether = kLanes == 1 ? 0 : R * kPair / kLanes * kLanes;
  if constexpr (kTogether > 0) {
    HWY_ALIGN float vectors[kTogether * kLanes], sums[kTogether];
    RIVULET_UNROLL
    for (int r = 0; r < R; ++r) {
      RIVULET_UNROLL
      for (int p = 0; p < kPair; ++p)
        if (r * kPair + p < kTogether) hn::Store(sum[r][p], d, vectors + (r * kPair + p) * kLanes);
    }
    for (int i = 0; i < kTogether; i += kLanes) hn::Store(LaneSumsOf(d, vectors + i * kLanes), d, sums + i);
    RIVULET_UNROLL
    for (int r = 0; r < R; ++r) {
      RIVULET_UNROLL
      for (int p = 0; p < kPair; ++p)
        if (r * kPair + p < kTogether) c[r * to.a + p * to.b] = sums[r * kPair + p];
    }
  }
  RIVULET_UNROLL
  for (int r = 0; r < R; ++r) {
    RIVULET_UNROLL
    for (int p = 0; p < kPair; ++p)
      if (r * kPair + p >= kTogether) c[r * to.a + p * to.b] = hn::GetLane(hn::SumOfLanes(d, sum[r][p]));
  }
}

using DotFn = void (*)(const float*, const float*, float*, DotStrides, int64_t, int64_t);
template <int kPair, int... R>
DotFn DotFor(int64_t rows, std::integer_sequence<int, R...>) {
  static constexpr DotFn kTable[] = {&DotRows<R + 1, kPair>...};
  return kTable[rows - 1];
}

// Rows of B whose dot products with up to kFewRows of A are computed together if B is in the cache: A is read half as
// often as with pairs, and need not be in the nearest cache.
constexpr int64_t kNearRows = 4, kFewRows = kRows / 2;

// C[m,n] with the layout `to`. B is prefetched, or it is `near` (in the cache).
void DotPart(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, DotStrides to, bool near) {
  int64_t column = 0;
  if (near) {
    const int64_t share = EqualShare(m, kFewRows);
    constexpr auto kCounts = std::make_integer_sequence<int, kFewRows>();
    for (; column + kNearRows <= n; column += kNearRows) {
      for (int64_t row = 0; row < m; row += share)
        DotFor<kNearRows>(std::min(share, m - row), kCounts)(a + row * k, b + column * k,
                                                             c + row * to.a + column * to.b, to, k, 0);
    }
  }
  const int64_t share = EqualShare(m);
  constexpr auto kCounts = std::make_integer_sequence<int, kRows>();
  for (; column < n; column += 2) {
    const bool pair = column + 1 < n;
    const int64_t ahead = !near && column + 10 < n ? 8 * k : 0;
    for (int64_t row = 0; row < m; row += share) {
      const int64_t rows = std::min(share, m - row);
      (pair ? DotFor<2>(rows, kCounts) : DotFor<1>(rows, kCounts))(a + row * k, b + column * k,
                                                                   c + row * to.a + column * to.b, to, k, ahead);
    }
  }
}

void Dot(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kNear = int64_t{1} << 16;  // 256 KiB of B, which the second cache may still hold
  DotPart(a, b, c, m, n, k, {n, 1}, n * k <= kNear);
}

void DotTurned(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  DotPart(b, a, c, n, m, k, {1, n}, false);
}

// Some rows of the weights at a time: they are in the cache for the dot products and for the update, which prefetches
// the next ones while it multiplies.
void DenseBackward(const float* x, const float* dy, float rate, const float* from, float* weights, float* dx,
                   int64_t batch, int64_t in, int64_t out) {
#if RIVULET_DENSE_IN_REGISTERS
  // For short rows, reading and writing the sums takes longer than merging the passes saves.
  constexpr int64_t kShortRow = 128;
  if (batch <= kDenseBatch && out >= kShortRow)
    return DenseBackwardInRegisters(x, dy, rate, from, weights, dx, batch, in, out);
#endif
  constexpr int64_t kRowsAtOnce = 12;
  static_assert(kRowsAtOnce % kRows == 0 && kRowsAtOnce % kNearRows == 0);
  for (int64_t row = 0; row < in; row += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, in - row);
    const float* before = from + row * out;
    DotPart(dy, before, dx + row, batch, rows, out, {in, 1}, true);
    Panel(x + row, 1, in, dy, weights + row * out, rows, out, batch, &rate, before,
          row + 2 * kRowsAtOnce <= in ? kRowsAtOnce * out : 0);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(Panel);
HWY_EXPORT(Packed);
HWY_EXPORT(Dot);
HWY_EXPORT(DotTurned);
HWY_EXPORT(DenseBackward);

void PanelMatMul(const float* a, int64_t a_row, int64_t a_k, const float* b, float* c, int64_t m, int64_t n,
                 int64_t k) {
  HWY_DYNAMIC_DISPATCH(Panel)(a, a_row, a_k, b, c, m, n, k, nullptr, nullptr, 0);
}

void PackPanels(const float* b, int64_t b_row, int64_t b_column, float* packed, int64_t n, int64_t k) {
  constexpr int64_t kTile = 16;  // a cache line of B for transposing
  for (int64_t column = 0; column < n; column += kPackedColumns, packed += kPackedColumns * k) {
    const int64_t columns = std::min(kPackedColumns, n - column);
    if (b_column == 1) {
      for (int64_t row = 0; row < k; ++row)
        std::copy_n(b + row * b_row + column, columns, packed + row * kPackedColumns);
      continue;
    }
    for (int64_t row0 = 0; row0 < k; row0 += kTile) {
      const int64_t row1 = std::min(k, row0 + kTile);
      for (int64_t i = 0; i < columns; ++i) {
        const float* from = b + (column + i) * b_column;
        for (int64_t row = row0; row < row1; ++row) packed[row * kPackedColumns + i] = from[row * b_row];
      }
    }
  }
}

void PackedMatMul(const float* a, int64_t a_row, int64_t a_k, const float* packed, float* c, int64_t m, int64_t n,
                  int64_t k) {
  HWY_DYNAMIC_DISPATCH(Packed)(a, a_row, a_k, packed, c, m, n, k);
}

void PanelMatMulDescent(const float* a, int64_t a_row, int64_t a_k, const float* b, float rate, const float* from,
                        float* variable, int64_t m, int64_t n, int64_t k) {
  HWY_DYNAMIC_DISPATCH(Panel)(a, a_row, a_k, b, variable, m, n, k, &rate, from, 0);
}

void DotMatMul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  HWY_DYNAMIC_DISPATCH(Dot)(a, b, c, m, n, k);
}

void DotMatMulOfFewColumns(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  HWY_DYNAMIC_DISPATCH(DotTurned)(a, b, c, m, n, k);
}

void DenseBackwardDescent(const float* x, const float* dy, float rate, const float* from, float* weights, float* dx,
                          int64_t batch, int64_t in, int64_t out) {
  HWY_DYNAMIC_DISPATCH(DenseBackward)(x, dy, rate, from, weights, dx, batch, in, out);
}

template <typename T>
static void Transpose(const T* from, T* to, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 16;  // a cache line of floats in both directions
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
void TransposeMatrix(const float* from, float* to, int64_t rows, int64_t columns) {
  Transpose(from, to, rows, columns);
}
void TransposeMatrix(const double* from, double* to, int64_t rows, int64_t columns) {
  Transpose(from, to, rows, columns);
}

}  // namespace rivulet
#endif
