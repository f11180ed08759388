// The register block of Rivulet's matrix products and direct convolutions. Included per target.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/kernels/cpu/vector/unroll.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#if defined(RIVULET_REGISTER_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_REGISTER_BLOCK_INL_H_
#undef RIVULET_REGISTER_BLOCK_INL_H_
#else
#define RIVULET_REGISTER_BLOCK_INL_H_
#endif

#include "engine/kernels/cpu/vector/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Rows of C kept in registers at once, with two vectors each: 24 of 32 registers with AVX-512, 12 of 16 elsewhere.
#if HWY_TARGET <= HWY_AVX3
constexpr int kRows = 12;
#else
constexpr int kRows = 6;
#endif

// A block's layout and options. C[row, column] (+)= Σ over segments s and depth k of a[row·a_row + k·a_k + s·a_segment]
// · b[s·b_segment + k·b_row + column], summed in the order of (s, k). `n` is the row length of C; a `b_row` of 0 means
// n.
struct BlockShape {
  int64_t a_row = 0, a_k = 1, a_segment = 0;
  int64_t b_segment = 0;
  int64_t n = 0, b_row = 0;
  int64_t depth = 0, segments = 1;
  int64_t ahead = 0;      // elements from b's first row to the first one to prefetch, 0 for none
  int64_t ahead_row = 0;  // elements by which the prefetch advances for each k; 0: a row of b
  bool add = false;       // the sum starts from the values in C
  // Adds C after the sum is finished instead. Over many blocks this loses fewer bits: no term is added to a long sum.
  bool add_sum = false;
  // Computes C = from - rate · sum, where product and difference are rounded separately as in
  // ResourceApplyGradientDescent. `from` has the layout of C; null means C itself.
  bool descend = false;
  float rate = 0;
  const float* from = nullptr;
  int64_t from_ahead = 0;  // distance in elements of `from` to the prefetched ones, 0 for none
};

// Addresses of R rows of a matrix: a pointer for every three rows, plus 0, 1 or 2 strides. The compiler must not see
// how the pointers are computed. It would replace them by one pointer and R - 1 offsets, more than there are registers,
// and reload some for each product. With `kOnce`, each element read serves one product only, and one pointer is cheaper
// than advancing four.
template <int R, bool kOnce>
class RowPointers {
 public:
  HWY_INLINE RowPointers(const float* first, int64_t stride) : stride_(stride) {
    RIVULET_UNROLL
    for (int p = 0; p < kPointers; ++p) {
      at_[p] = first + kRowsEach * p * stride;
      KeepApart(p);
    }
  }
  HWY_INLINE const float* row(int r) const { return at_[r / kRowsEach] + (r % kRowsEach) * stride_; }
  HWY_INLINE void Advance(int64_t elements) {
    RIVULET_UNROLL
    for (int p = 0; p < kPointers; ++p) {
      at_[p] += elements;
      KeepApart(p);
    }
  }

 private:
  static constexpr int kRowsEach = kOnce ? R : 3, kPointers = (R + kRowsEach - 1) / kRowsEach;
  HWY_INLINE void KeepApart([[maybe_unused]] int p) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
    if constexpr (kPointers > 1) asm("" : "+r"(at_[p]));
#endif
  }

  const float* at_[kPointers];
  const int64_t stride_;
};

// Computes a block of kVectors vectors of columns; the last vector has `tail` columns if kTail.
template <int R, int kVectors, bool kTail>
HWY_INLINE void Block(const BlockShape& s, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                      float* HWY_RESTRICT c, size_t tail) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V sum[R][kVectors];
  RIVULET_UNROLL
  for (int r = 0; r < R; ++r) {
    RIVULET_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const float* at = c + r * s.n + static_cast<size_t>(v) * lanes;
      if (!s.add) {
        sum[r][v] = hn::Zero(d);
      } else if (kTail && v == kVectors - 1) {
        sum[r][v] = LoadTail(d, at, tail);
      } else {
        sum[r][v] = hn::LoadU(d, at);
      }
    }
  }
  const int64_t a_row = s.a_row, a_k = s.a_k, n = s.b_row > 0 ? s.b_row : s.n, depth = s.depth, ahead = s.ahead;
  const int64_t ahead_row = s.ahead_row > 0 ? s.ahead_row : n;
  for (int64_t segment = 0; segment < s.segments; ++segment) {
    const float* HWY_RESTRICT row = b + segment * s.b_segment;
    RowPointers<R, kVectors == 1> x_at(a + segment * s.a_segment, a_row);
    const auto multiply = [&]() HWY_ATTR __attribute__((always_inline)) {
      V columns[kVectors];
      RIVULET_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const float* at = row + static_cast<size_t>(v) * lanes;
        columns[v] = kTail && v == kVectors - 1 ? LoadTail(d, at, tail) : hn::LoadU(d, at);
      }
      RIVULET_UNROLL
      for (int r = 0; r < R; ++r) {
        const V x = hn::Set(d, *x_at.row(r));
        RIVULET_UNROLL
        for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(x, columns[v], sum[r][v]);
      }
      x_at.Advance(a_k);
    };
    if (ahead > 0) {
      const float* fetched = row + ahead;
      for (int64_t k = 0; k < depth; ++k, row += n, fetched += ahead_row) {
        hwy::Prefetch(fetched);
        if (kVectors > 1) hwy::Prefetch(fetched + lanes);
        multiply();
      }
    } else {
      for (int64_t k = 0; k < depth; ++k, row += n) multiply();
    }
  }
  if (s.add_sum) {
    RIVULET_UNROLL
    for (int r = 0; r < R; ++r) {
      RIVULET_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const float* at = c + r * s.n + static_cast<size_t>(v) * lanes;
        sum[r][v] = hn::Add(kTail && v == kVectors - 1 ? LoadTail(d, at, tail) : hn::LoadU(d, at), sum[r][v]);
      }
    }
  }
  if (s.descend) {
    const V rate = hn::Set(d, s.rate);
    const float* before = s.from == nullptr ? c : s.from;
    RIVULET_UNROLL
    for (int r = 0; r < R; ++r) {
      RIVULET_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const float* at = before + r * s.n + static_cast<size_t>(v) * lanes;
        if (s.from_ahead > 0) __builtin_prefetch(at + s.from_ahead, 0, 2);  // into the L2 cache: the first is full
        const V old = kTail && v == kVectors - 1 ? LoadTail(d, at, tail) : hn::LoadU(d, at);
        sum[r][v] = hn::Sub(old, hn::Mul(rate, sum[r][v]));
      }
    }
  }
  RIVULET_UNROLL
  for (int r = 0; r < R; ++r) {
    RIVULET_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      float* at = c + r * s.n + static_cast<size_t>(v) * lanes;
      if (kTail && v == kVectors - 1) {
        StoreTail(sum[r][v], d, at, tail);
      } else {
        hn::StoreU(sum[r][v], d, at);
      }
    }
  }
}

// Computes a block of R rows and `columns` columns (at most two vectors).
template <int R>
void BlockOf(const BlockShape& s, const float* a, const float* b, float* c, int64_t columns) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  if (columns == 2 * lanes) {
    Block<R, 2, false>(s, a, b, c, 0);
  } else if (columns > lanes) {
    Block<R, 2, true>(s, a, b, c, static_cast<size_t>(columns - lanes));
  } else if (columns == lanes) {
    Block<R, 1, false>(s, a, b, c, 0);
  } else {
    Block<R, 1, true>(s, a, b, c, static_cast<size_t>(columns));
  }
}

using BlockFn = void (*)(const BlockShape&, const float*, const float*, float*, int64_t);
template <int... R>
BlockFn BlockTable(int64_t rows, std::integer_sequence<int, R...>) {
  static constexpr BlockFn kTable[] = {&BlockOf<R + 1>...};
  return kTable[rows - 1];
}
// Returns the block function for 1 to kRows rows.
HWY_INLINE BlockFn BlockFor(int64_t rows) { return BlockTable(rows, std::make_integer_sequence<int, kRows>()); }

// Rows per block (at most `most`) that divide `rows` into equal shares instead of full blocks and a remainder.
HWY_INLINE int64_t EqualShare(int64_t rows, int64_t most = kRows) {
  const int64_t blocks = (rows + most - 1) / most;
  return blocks == 0 ? 1 : (rows + blocks - 1) / blocks;
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
