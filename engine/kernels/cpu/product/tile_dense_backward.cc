// The gradients of a dense layer on a small batch, separately and in one pass over the weights.
#include <algorithm>

#include "engine/base/check.h"
#include "engine/kernels/cpu/product/tile_dense.h"
#include "engine/kernels/cpu/vector/tile_code.h"

namespace rivulet {

#ifdef RIVULET_HAS_TILE_CODE

namespace {

using namespace tiles;

constexpr int64_t kBlocks = kMaxTileBatch / kTileRows;

// Loads 32 adjacent weights, rounded.
RIVULET_TILE_INLINE __m512i RoundedRow(const float* row, int64_t count) {
  const __m512 low = _mm512_maskz_loadu_ps(Lanes(count), row),
               high = _mm512_maskz_loadu_ps(Lanes(count - 16), row + 16);
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}
RIVULET_TILE_INLINE __m512i RoundedRow(const bfloat16* row, int64_t count) {
  const __mmask32 mask = count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
  return _mm512_maskz_loadu_epi16(mask, row);
}

// Packs dy as the right factor of w·dyᵀ: for every 32 columns of dy 16 rows of pairs, one pair per row of the batch.
RIVULET_TILE_CODE void PackTurned(const bfloat16* dy, int64_t dy_row, int64_t batch, int64_t columns, std::byte* to) {
  for (int64_t column = 0; column < columns; column += kPair, to += kTileRows * kTileBytes) {
    __m512i rows[16];
    for (int64_t row = 0; row < 16; ++row)
      rows[row] = row < batch ? RoundedRow(dy + row * dy_row + column, columns - column) : _mm512_setzero_si512();
    Transpose(rows);
    for (int64_t row = 0; row < 16; ++row) _mm512_store_si512(to + row * kTileBytes, rows[row]);
  }
}

// Packs rows of the batch in pairs, as the right factor of xᵀ·dy: for every 16 columns of dy as many rows as pairs.
RIVULET_TILE_CODE void PackPairs(const bfloat16* dy, int64_t dy_row, int64_t batch, int64_t columns, std::byte* to) {
  for (int64_t column = 0; column < columns; column += 16) {
    const __mmask16 mask = Lanes(columns - column), none = 0;
    for (int64_t row = 0; row < batch; row += 2, to += kTileBytes) {
      const bool two = row + 1 < batch;
      const bfloat16* const at = dy + row * dy_row + column;
      _mm512_store_si512(to, PairOfRows(at, two ? at + dy_row : at, mask, two ? mask : none));
    }
  }
}

// Packs 16 columns of x as the left factor of xᵀ·dy: for each column of x a row with the batch's pairs, of 32 bytes for
// up to eight pairs, else 64; returns the row's bytes.
RIVULET_TILE_INLINE int64_t PackTurnedPairs(const bfloat16* x, int64_t x_row, int64_t batch, int64_t columns,
                                            std::byte* to) {
  const __mmask16 mask = Lanes(columns), none = 0;
  const auto pair_of = [&](int64_t pair) RIVULET_TILE_CODE {
    const bool one = 2 * pair < batch, two = 2 * pair + 1 < batch;
    return PairOfRows(one ? x + 2 * pair * x_row : x, two ? x + (2 * pair + 1) * x_row : x, one ? mask : none,
                      two ? mask : none);
  };
  if (batch > 16) {
    __m512i pairs[16];
#pragma GCC unroll 16
    for (int64_t pair = 0; pair < 16; ++pair) pairs[pair] = pair_of(pair);
    Transpose(pairs);
#pragma GCC unroll 16
    for (int64_t row = 0; row < 16; ++row) _mm512_store_si512(to + row * kTileBytes, pairs[row]);
    return kTileBytes;
  }
  __m512i r[8], t[8];
#pragma GCC unroll 8
  for (int64_t pair = 0; pair < 8; ++pair) r[pair] = pair_of(pair);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  // r[i] and r[4 + i] have the first and the last four pairs of columns i, 4 + i, 8 + i and 12 + i.
  const __m512i low = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0), high = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
  constexpr int64_t kHalf = kTileBytes / 2;
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; ++i) {
    const __m512i first = _mm512_permutex2var_epi64(r[i], low, r[4 + i]);
    const __m512i second = _mm512_permutex2var_epi64(r[i], high, r[4 + i]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + i * kHalf), _mm512_castsi512_si256(first));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + (4 + i) * kHalf), _mm512_extracti64x4_epi64(first, 1));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + (8 + i) * kHalf), _mm512_castsi512_si256(second));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + (12 + i) * kHalf), _mm512_extracti64x4_epi64(second, 1));
  }
  return kHalf;
}

enum class Update { kNone, kWrite, kDescend };

// Loads a block of 16 rows and 32 columns of weights, rounded, into a tile.
template <typename W>
RIVULET_TILE_INLINE void FillLeft(const W* w, int64_t row_stride, int64_t height, int64_t width, std::byte* tile) {
  if (height == kTileRows && width >= kPair) {
#pragma GCC unroll 16
    for (int64_t row = 0; row < kTileRows; ++row)
      _mm512_store_si512(tile + row * kTileBytes, RoundedRow(w + row * row_stride, kPair));
    return;
  }
  for (int64_t row = 0; row < kTileRows; ++row)
    _mm512_store_si512(tile + row * kTileBytes,
                       row < height ? RoundedRow(w + row * row_stride, width) : _mm512_setzero_si512());
}

// Applies gradients `made` of 16 rows and up to 32 columns, given as two tiles.
template <Update kUpdate>
RIVULET_TILE_INLINE void Use(const float* made, __m512 rates, const float* from, float* to, int64_t row_stride,
                             int64_t height, int64_t width) {
  constexpr int64_t kTile = kTileRows * 16;
  if (height == kTileRows && width >= kPair) {
#pragma GCC unroll 16
    for (int64_t row = 0; row < kTileRows; ++row) {
      __m512 low = _mm512_load_ps(made + row * 16), high = _mm512_load_ps(made + kTile + row * 16);
      if constexpr (kUpdate == Update::kDescend) {
        low = _mm512_sub_ps(_mm512_loadu_ps(from + row * row_stride), _mm512_mul_ps(rates, low));
        high = _mm512_sub_ps(_mm512_loadu_ps(from + row * row_stride + 16), _mm512_mul_ps(rates, high));
      }
      _mm512_storeu_ps(to + row * row_stride, low);
      _mm512_storeu_ps(to + row * row_stride + 16, high);
    }
    return;
  }
  for (int64_t half = 0; half < 2; ++half, made += kTile, from += 16, to += 16) {
    const __mmask16 mask = Lanes(width - half * 16);
    if (mask == 0) return;
    // All loads before all stores: a masked load waits for a nearby masked store, even without common bytes.
    __m512 values[kTileRows];
#pragma GCC unroll 16
    for (int64_t row = 0; row < kTileRows; ++row) {
      values[row] = _mm512_load_ps(made + row * 16);
      if constexpr (kUpdate == Update::kDescend) {
        const __m512 before = _mm512_maskz_loadu_ps(row < height ? mask : __mmask16{0}, from + row * row_stride);
        values[row] = _mm512_sub_ps(before, _mm512_mul_ps(rates, values[row]));
      }
    }
#pragma GCC unroll 16
    for (int64_t row = 0; row < kTileRows; ++row)
      if (row < height) _mm512_mask_storeu_ps(to + row * row_stride, mask, values[row]);
  }
}

// 16 rows of weights at a time. The input's gradient is computed transposed, with weights on the left, so that weights
// are rounded in memory order; their own gradient is applied as soon as it is computed, 16 × 32 at a time. Transfers
// between registers and tiles pass through memory and take time: so each block is filled, and its gradients are
// computed, while the previous block is multiplied and applied. Tiles: 0 and 1 the input's gradient, 2 weights, 3 and 5
// dy, 4 x, 6 and 7 gradients of weights.
template <typename W, bool kInput, Update kUpdate, bool kTwoBlocks>
RIVULET_TILE_CODE void Backward(const TileDense& s, const bfloat16* x, const bfloat16* dy, float rate, const W* from,
                                int64_t first_row, int64_t rows, float* to, bfloat16* dx) {
  constexpr int64_t kColumns = kMaxTileColumns, kGroups = kColumns / kPair, kTile = kTileRows * kTileBytes;
  constexpr bool kUpdates = kUpdate != Update::kNone;
  alignas(64) std::byte turned[kInput ? kBlocks * kGroups * kTile : 64];
  alignas(64) std::byte pairs[kUpdates ? kColumns * kTileBytes : 64];
  alignas(64) std::byte left[2][kTile];
  alignas(64) std::byte turned_x[2][kTile];
  alignas(64) float made[2][2 * kTileRows * 16];
  alignas(64) float sums[kBlocks][kTileRows * 16];
  const int64_t num_pairs = (s.batch + 1) / 2, pair_bytes = num_pairs * kTileBytes;
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.Set(tile, kTileRows, kTileBytes);
  if constexpr (kUpdates) {
    config.Set(4, kTileRows, num_pairs * 4);
    config.Set(5, num_pairs, kTileBytes);
  }
  const __m512 rates = _mm512_set1_ps(rate);
  for (int64_t begin = 0; begin < s.out; begin += kColumns) {
    const int64_t columns = std::min(kColumns, s.out - begin);
    std::byte* const second_turned = turned + (columns + kPair - 1) / kPair * kTile;
    if constexpr (kInput) {
      PackTurned(dy + begin, s.out, std::min(s.batch, kTileRows), columns, turned);
      if (kTwoBlocks) PackTurned(dy + kTileRows * s.out + begin, s.out, s.batch - kTileRows, columns, second_turned);
    }
    if constexpr (kUpdates) PackPairs(dy + begin, s.out, s.batch, columns, pairs);
    const Tiles tiles(config);
    const auto prepare = [&](int64_t row, int64_t column, size_t slot) RIVULET_TILE_LAMBDA {
      const int64_t height = std::min(kTileRows, rows - row), width = columns - column;
      if constexpr (kInput) FillLeft(from + row * s.out + begin + column, s.out, height, width, left[slot]);
      if constexpr (kUpdates) {
        if (column == 0) {
          std::byte* const packed = turned_x[row / kTileRows % 2];
          const int64_t row_bytes = PackTurnedPairs(x + first_row + row, s.in, s.batch, height, packed);
          RIVULET_TILE_LOAD(4, packed, row_bytes);
        }
        const std::byte* const right = pairs + column / 16 * pair_bytes;
        RIVULET_TILE_ZERO(6);
        RIVULET_TILE_LOAD(5, right, kTileBytes);
        RIVULET_TILE_PRODUCT(6, 4, 5);
        RIVULET_TILE_STORE(6, made[slot], kTileBytes);
        if (width > 16) {
          RIVULET_TILE_ZERO(7);
          RIVULET_TILE_LOAD(5, right + pair_bytes, kTileBytes);
          RIVULET_TILE_PRODUCT(7, 4, 5);
          RIVULET_TILE_STORE(7, made[slot] + kTileRows * 16, kTileBytes);
        }
      }
    };
    // For the batch's rows from `first` on: the input's gradient in columns from `row` on.
    const auto finish = [&](float* of_rows, int64_t first, int64_t count, int64_t row) RIVULET_TILE_CODE {
      __m512i r[16];
#pragma GCC unroll 16
      for (int64_t i = 0; i < 16; ++i) r[i] = _mm512_load_si512(of_rows + i * 16);
      Transpose(r);
      const __mmask16 mask = Lanes(rows - row);
      for (int64_t i = 0; i < count; ++i)
        _mm256_mask_storeu_epi16(dx + (first + i) * s.in + row, mask, Rounded(_mm512_castsi512_ps(r[i])));
    };
    prepare(0, 0, 0);
    size_t slot = 0;
    for (int64_t row = 0; row < rows; row += kTileRows) {
      const int64_t height = std::min(kTileRows, rows - row);
      const W* const weights = from + row * s.out + begin;
      float* const results = to + row * s.out + begin;
      if constexpr (kInput) {
        RIVULET_TILE_ZERO(0);
        if (kTwoBlocks) RIVULET_TILE_ZERO(1);
      }
      for (int64_t column = 0; column < columns; column += kPair, slot = 1 - slot) {
        if (column + kPair < columns) {
          prepare(row, column + kPair, 1 - slot);
        } else if (row + kTileRows < rows) {
          prepare(row + kTileRows, 0, 1 - slot);
        }
        if constexpr (kInput) {
          RIVULET_TILE_LOAD(2, left[slot], kTileBytes);
          RIVULET_TILE_LOAD(3, turned + column / kPair * kTile, kTileBytes);
          RIVULET_TILE_PRODUCT(0, 2, 3);
          if (kTwoBlocks) {
            RIVULET_TILE_LOAD(3, second_turned + column / kPair * kTile, kTileBytes);
            RIVULET_TILE_PRODUCT(1, 2, 3);
          }
        }
        if constexpr (kUpdates)
          Use<kUpdate>(made[slot], rates, reinterpret_cast<const float*>(weights) + column, results + column, s.out,
                       height, columns - column);
      }
      if constexpr (kInput) {
        RIVULET_TILE_STORE(0, sums[0], kTileBytes);
        if (kTwoBlocks) RIVULET_TILE_STORE(1, sums[1], kTileBytes);
        finish(sums[0], 0, std::min(s.batch, kTileRows), row);
        if (kTwoBlocks) finish(sums[1], kTileRows, s.batch - kTileRows, row);
      }
    }
  }
}

}  // namespace

void TileDenseInputGradient(const TileDense& s, const bfloat16* dy, TileOperand w, bfloat16* dx) {
  const auto* const wide = static_cast<const float*>(w.data);
  const auto* const narrow = static_cast<const bfloat16*>(w.data);
  constexpr Update kNone = Update::kNone;
  if (s.batch > kTileRows)
    return w.wide ? Backward<float, true, kNone, true>(s, nullptr, dy, 0, wide, 0, s.in, nullptr, dx)
                  : Backward<bfloat16, true, kNone, true>(s, nullptr, dy, 0, narrow, 0, s.in, nullptr, dx);
  w.wide ? Backward<float, true, kNone, false>(s, nullptr, dy, 0, wide, 0, s.in, nullptr, dx)
         : Backward<bfloat16, true, kNone, false>(s, nullptr, dy, 0, narrow, 0, s.in, nullptr, dx);
}

void TileDenseWeightGradient(const TileDense& shape, const bfloat16* x, const bfloat16* dy, int64_t first_row,
                             int64_t rows, float* to) {
  Backward<float, false, Update::kWrite, false>(shape, x, dy, 0, to, first_row, rows, to, nullptr);
}

void TileDenseDescent(const TileDense& shape, const bfloat16* x, const bfloat16* dy, float rate, const float* from,
                      int64_t first_row, int64_t rows, float* to) {
  Backward<float, false, Update::kDescend, false>(shape, x, dy, rate, from, first_row, rows, to, nullptr);
}

void TileDenseBackward(const TileDense& s, const bfloat16* x, const bfloat16* dy, float rate, const float* from,
                       float* to, bfloat16* dx) {
  if (s.batch > kTileRows) return Backward<float, true, Update::kDescend, true>(s, x, dy, rate, from, 0, s.in, to, dx);
  Backward<float, true, Update::kDescend, false>(s, x, dy, rate, from, 0, s.in, to, dx);
}

#else

void TileDenseInputGradient(const TileDense&, const bfloat16*, TileOperand, bfloat16*) {
  RIVULET_CHECK(false, "no tiles on this processor");
}
void TileDenseWeightGradient(const TileDense&, const bfloat16*, const bfloat16*, int64_t, int64_t, float*) {
  RIVULET_CHECK(false, "no tiles on this processor");
}
void TileDenseDescent(const TileDense&, const bfloat16*, const bfloat16*, float, const float*, int64_t, int64_t,
                      float*) {
  RIVULET_CHECK(false, "no tiles on this processor");
}
void TileDenseBackward(const TileDense&, const bfloat16*, const bfloat16*, float, const float*, float*, bfloat16*) {
  RIVULET_CHECK(false, "no tiles on this processor");
}

#endif

}  // namespace rivulet
