// The forward product of a dense layer on a small batch.
#include "engine/kernels/cpu/product/tile_dense.h"

#include <algorithm>
#include <cstring>

#include "engine/base/check.h"
#include "engine/kernels/cpu/vector/tile_code.h"

namespace rivulet {

#ifdef RIVULET_HAS_TILE_CODE

namespace {

using namespace tiles;

constexpr int64_t kBlocks = kMaxTileBatch / kTileRows;

// Columns of weights per pass.
constexpr int64_t kForwardColumns = 256;
template <FusedActivation kActivation>
RIVULET_TILE_INLINE __m512 Activated(__m512 x) {
  const __m512 zero = _mm512_setzero_ps();
  // NaN stays NaN: it is neither below zero nor above six.
  if constexpr (kActivation != FusedActivation::kNone)
    x = _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, zero, _CMP_LT_OQ), zero);
  if constexpr (kActivation == FusedActivation::kRelu6) {
    const __m512 six = _mm512_set1_ps(6);
    x = _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, six, _CMP_GT_OQ), six);
  }
  return x;
}

// Finishes rows of sums, `stride` floats apart.
template <FusedActivation kActivation>
RIVULET_TILE_CODE void Finish(const float* sums, int64_t stride, int64_t rows, int64_t columns, TileOperand bias,
                              int64_t first_column, bfloat16* y, int64_t y_row) {
  for (int64_t column = 0; column < columns; column += 16) {
    const __mmask16 mask = Lanes(columns - column);
    __m512 added = _mm512_setzero_ps();
    if (bias.data != nullptr) {
      const int64_t at = first_column + column;
      const __m256i bits = bias.wide ? Rounded(_mm512_maskz_loadu_ps(mask, static_cast<const float*>(bias.data) + at))
                                     : _mm256_maskz_loadu_epi16(mask, static_cast<const bfloat16*>(bias.data) + at);
      added = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    }
    for (int64_t row = 0; row < rows; ++row) {
      const __m512 x = _mm512_add_ps(_mm512_loadu_ps(sums + row * stride + column), added);
      _mm256_mask_storeu_epi16(y + row * y_row + column, mask, Rounded(Activated<kActivation>(x)));
    }
  }
}

void Finish(FusedActivation activation, const float* sums, int64_t stride, int64_t rows, int64_t columns,
            TileOperand bias, int64_t first_column, bfloat16* y, int64_t y_row) {
  switch (activation) {
    case FusedActivation::kNone:
      return Finish<FusedActivation::kNone>(sums, stride, rows, columns, bias, first_column, y, y_row);
    case FusedActivation::kRelu:
      return Finish<FusedActivation::kRelu>(sums, stride, rows, columns, bias, first_column, y, y_row);
    case FusedActivation::kRelu6:
      return Finish<FusedActivation::kRelu6>(sums, stride, rows, columns, bias, first_column, y, y_row);
  }
}

// Loads weights of `terms` rows (1 to 32) and `columns` columns as right factors of products, a tile for every 16
// columns. Rows are read in order.
template <typename W>
RIVULET_TILE_INLINE void PackRight(const W* w, int64_t row_stride, int64_t terms, int64_t columns, std::byte* tiles) {
  constexpr int64_t kTile = kTileRows * kTileBytes;
  for (int64_t pair = 0; pair < kTileRows; ++pair, w += 2 * row_stride, tiles += kTileBytes) {
    std::byte* to = tiles;
    if (2 * pair + 1 < terms) {
      int64_t column = 0;
      for (; column + 16 <= columns; column += 16, to += kTile)
        _mm512_store_si512(to, PairOfRows(w + column, w + row_stride + column, 0xFFFF, 0xFFFF));
      const __mmask16 mask = Lanes(columns - column);
      if (mask != 0) _mm512_store_si512(to, PairOfRows(w + column, w + row_stride + column, mask, mask));
      continue;
    }
    const bool one = 2 * pair < terms;
    for (int64_t column = 0; column < columns; column += 16, to += kTile)
      _mm512_store_si512(to,
                         one ? PairOfRows(w + column, w + column, Lanes(columns - column), 0) : _mm512_setzero_si512());
  }
}

// 32 rows of weights at a time; the sums of a range of columns stay in a near cache. Tiles: 0 and 1 the sums of up to
// 16 rows of the batch each, 2 weights, 4 and 5 the batch.
template <typename W, bool kTwoBlocks>
RIVULET_TILE_CODE void Forward(const TileDense& s, const bfloat16* x, const W* w, TileOperand bias,
                               FusedActivation activation, bfloat16* y) {
  constexpr int64_t kTile = kTileRows * kTileBytes;
  alignas(64) float sums[kBlocks * kTileRows * kForwardColumns];
  alignas(64) std::byte right[kForwardColumns / 16 * kTile];
  alignas(64) bfloat16 last[kMaxTileBatch * kPair];  // the batch's last terms, padded
  const int64_t whole = s.in / kPair * kPair, rest = s.in - whole;
  if (rest > 0) {
    std::memset(static_cast<void*>(last), 0, sizeof(last));
    for (int64_t row = 0; row < s.batch; ++row)
      std::memcpy(last + row * kPair, x + row * s.in + whole, static_cast<size_t>(rest) * sizeof(bfloat16));
  }
  const int64_t first = std::min(s.batch, kTileRows), second = s.batch - first;  // rows of each block
  TileConfig config;
  config.Set(0, first, kTileBytes);
  config.Set(4, first, kTileBytes);
  config.Set(2, kTileRows, kTileBytes);
  if (kTwoBlocks) config.Set(1, second, kTileBytes);
  if (kTwoBlocks) config.Set(5, second, kTileBytes);
  const Tiles tiles(config);
  for (int64_t begin = 0; begin < s.out; begin += kForwardColumns) {
    const int64_t columns = std::min(kForwardColumns, s.out - begin);
    const int64_t stride = (columns + 15) / 16 * 16, sums_row = stride * static_cast<int64_t>(sizeof(float));
    float* const second_sums = sums + kTileRows * stride;
    const bool stay = columns <= 16;  // one tile of sums, which stays in its register between rows
    for (int64_t k = 0; k < s.in; k += kPair) {
      PackRight(w + k * s.out + begin, s.out, std::min(kPair, s.in - k), columns, right);
      const bfloat16* const batch = k < whole ? x + k : last;
      const int64_t batch_row = k < whole ? s.in : kPair,
                    row_bytes = batch_row * static_cast<int64_t>(sizeof(bfloat16));
      RIVULET_TILE_LOAD(4, batch, row_bytes);
      if (kTwoBlocks) RIVULET_TILE_LOAD(5, batch + kTileRows * batch_row, row_bytes);
      for (int64_t column = 0; column < columns; column += 16) {
        if (k == 0) {
          RIVULET_TILE_ZERO(0);
          if (kTwoBlocks) RIVULET_TILE_ZERO(1);
        } else if (!stay) {
          RIVULET_TILE_LOAD(0, sums + column, sums_row);
          if (kTwoBlocks) RIVULET_TILE_LOAD(1, second_sums + column, sums_row);
        }
        RIVULET_TILE_LOAD(2, right + column / 16 * kTile, kTileBytes);
        RIVULET_TILE_PRODUCT(0, 4, 2);
        if (kTwoBlocks) RIVULET_TILE_PRODUCT(1, 5, 2);
        if (stay && k + kPair < s.in) continue;
        RIVULET_TILE_STORE(0, sums + column, sums_row);
        if (kTwoBlocks) RIVULET_TILE_STORE(1, second_sums + column, sums_row);
      }
    }
    Finish(activation, sums, stride, first, columns, bias, begin, y + begin, s.out);
    if (kTwoBlocks)
      Finish(activation, second_sums, stride, second, columns, bias, begin, y + kTileRows * s.out + begin, s.out);
  }
}

}  // namespace

void TileDenseForward(const TileDense& shape, const bfloat16* x, TileOperand w, TileOperand bias,
                      FusedActivation activation, bfloat16* y) {
  const auto* const wide = static_cast<const float*>(w.data);
  const auto* const narrow = static_cast<const bfloat16*>(w.data);
  if (shape.batch > kTileRows)
    return w.wide ? Forward<float, true>(shape, x, wide, bias, activation, y)
                  : Forward<bfloat16, true>(shape, x, narrow, bias, activation, y);
  w.wide ? Forward<float, false>(shape, x, wide, bias, activation, y)
         : Forward<bfloat16, false>(shape, x, narrow, bias, activation, y);
}

#else

void TileDenseForward(const TileDense&, const bfloat16*, TileOperand, TileOperand, FusedActivation, bfloat16*) {
  RIVULET_CHECK(false, "no tiles on this processor");
}

#endif

}  // namespace rivulet
