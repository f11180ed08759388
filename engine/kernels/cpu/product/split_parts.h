// Building blocks of split products: float32 numbers in three parts, packed into tiles, and the sums of two blocks of
// such tiles (split_product.h). For sources that include tile_code.h.
#pragma once

#include <algorithm>

#include "engine/kernels/cpu/vector/tile_code.h"

#ifdef RIVULET_HAS_TILE_CODE

namespace rivulet::tiles {

inline constexpr int64_t kTile = kTileRows * kTileBytes;
inline constexpr int kParts = 3;
// Rows of A, and columns of B, per step: two tiles each.
inline constexpr int64_t kBlock = 2 * kTileRows;
// kBlock rows (or columns) and kPair terms, split: the tiles of the first kTileRows, then those of the others. The
// third part is stored first and the first one last, in the order of multiplication, because the second cache is
// fastest in memory order.
inline constexpr int64_t kLineTiles = kParts * kTile, kBlockBytes = 2 * kLineTiles;
constexpr int64_t PartAt(int part) { return (kParts - 1 - part) * kTile; }
constexpr int64_t Blocks(int64_t count, int64_t of) { return (count + of - 1) / of; }

// 16 numbers: one part, and the rest.
struct Split {
  __m512i part;
  __m512 rest;
};
// The nearest bfloat16 (of two equally near ones the larger), as a float, and the rest, which is exact: if the number
// has 24 digits, the rest has 16.
RIVULET_TILE_INLINE Split SplitOff(__m512 x) {
  const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
  const __m512i part = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), upper);
  return {part, _mm512_sub_ps(x, _mm512_castsi512_ps(part))};
}

// Interleaves the upper halves of two vectors' elements.
RIVULET_TILE_INLINE __m512i UpperHalves(__m512i first, __m512i second) {
  return _mm512_mask_blend_epi16(0xAAAAAAAAu, _mm512_srli_epi32(first, 16), second);
}

// Splits two vectors, in pairs: term i of the one with term i of the other. `strange` becomes NaN if a number cannot be
// split.
RIVULET_TILE_INLINE void SplitPairs(__m512 first, __m512 second, __m512i (&parts)[kParts], __m512& strange) {
  const Split first_high = SplitOff(first), second_high = SplitOff(second);
  const Split first_middle = SplitOff(first_high.rest), second_middle = SplitOff(second_high.rest);
  parts[0] = UpperHalves(first_high.part, second_high.part);
  parts[1] = UpperHalves(first_middle.part, second_middle.part);
  parts[2] = UpperHalves(_mm512_castps_si512(first_middle.rest), _mm512_castps_si512(second_middle.rest));
  // Uses infinity - infinity and infinity · zero to detect them.
  strange = _mm512_fmadd_ps(_mm512_add_ps(first_high.rest, second_high.rest), _mm512_setzero_ps(), strange);
}

// Returns true if all numbers could be split.
RIVULET_TILE_INLINE bool AllSplit(__m512 strange) { return _mm512_cmp_ps_mask(strange, strange, _CMP_UNORD_Q) == 0; }

// Splits 16 rows (of A, or columns of B: `lines`) and 32 terms into tiles of their three parts. A tile's row is a line
// if kByLine, and else a pair of terms: terms i and 16 + i are a pair, so that no shuffle is needed. Terms of a line
// are adjacent if kTermsNear, and else `stride` elements apart; lines vice versa. Prefetches memory `next` elements
// further: matrix rows are short, and hardware cannot predict the next ones.
template <bool kTermsNear, bool kByLine>
RIVULET_TILE_INLINE void SplitTile(const float* from, int64_t stride, int64_t lines, int64_t terms, int64_t next,
                                   std::byte* to, __m512& strange) {
  // For row i of memory: the elements of its two vectors, and the place of the second.
  const int64_t rows = kTermsNear ? lines : terms, columns = kTermsNear ? terms : lines;
  const int64_t second_at = kTermsNear ? 16 : 16 * stride;
  const auto split = [&](int64_t i, __m512 first, __m512 second) RIVULET_TILE_LAMBDA {
    __m512i parts[kParts];
    SplitPairs(first, second, parts, strange);
#pragma GCC unroll 3
    for (int part = 0; part < kParts; ++part) _mm512_store_si512(to + PartAt(part) + i * kTileBytes, parts[part]);
  };
  if (lines == kTileRows && terms == kPair) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kTileRows; ++i) {
      const float* const at = from + i * stride;
      _mm_prefetch(at + next, _MM_HINT_T0);
      _mm_prefetch(at + next + second_at, _MM_HINT_T0);
      split(i, _mm512_loadu_ps(at), _mm512_loadu_ps(at + second_at));
    }
  } else {
    const __mmask16 low = Lanes(columns), high = kTermsNear ? Lanes(columns - 16) : low, none = 0;
    for (int64_t i = 0; i < kTileRows; ++i) {
      const float* const at = from + i * stride;
      split(i, _mm512_maskz_loadu_ps(i < rows ? low : none, at),
            _mm512_maskz_loadu_ps(i + (kTermsNear ? 0 : 16) < rows ? high : none, at + second_at));
    }
  }
  if constexpr (kTermsNear != kByLine) {
#pragma GCC unroll 3
    for (int part = 0; part < kParts; ++part) {
      std::byte* const tile = to + PartAt(part);
      __m512i r[16];
#pragma GCC unroll 16
      for (int64_t i = 0; i < 16; ++i) r[i] = _mm512_load_si512(tile + i * kTileBytes);
      Transpose(r);
#pragma GCC unroll 16
      for (int64_t i = 0; i < 16; ++i) _mm512_store_si512(tile + i * kTileBytes, r[i]);
    }
  }
}

// Up to kBlock lines and any number of terms, in blocks of kPair terms.
template <bool kTermsNear, bool kByLine>
RIVULET_TILE_CODE void SplitBlock(const float* from, int64_t stride, int64_t lines, int64_t terms, int64_t next,
                                  std::byte* to, __m512& strange) {
  for (int64_t term = 0; term < terms; term += kPair, to += kBlockBytes) {
    const float* const at = from + term * (kTermsNear ? 1 : stride);
    const int64_t count = std::min(kPair, terms - term);
    SplitTile<kTermsNear, kByLine>(at, stride, std::min(kTileRows, lines), count, next, to, strange);
    if (lines > kTileRows)
      SplitTile<kTermsNear, kByLine>(at + kTileRows * (kTermsNear ? stride : 1), stride, lines - kTileRows, count, next,
                                     to + kLineTiles, strange);
  }
}

// Sums of one or two tiles of rows by one or two of columns over `blocks` blocks of terms. Tiles: 0 to 3 sums, 4 and 5
// parts of A, 6 and 7 parts of B; consecutive products share one of the two factors.
template <bool kTwoRows, bool kTwoColumns>
RIVULET_TILE_CODE void Sums(const std::byte* a, const std::byte* b, int64_t blocks, float* c, int64_t c_row, bool add) {
  const int64_t row_bytes = c_row * static_cast<int64_t>(sizeof(float));
  float* const lower = c + kTileRows * c_row;
  if (add) {
    RIVULET_TILE_LOAD(0, c, row_bytes);
    if (kTwoColumns) RIVULET_TILE_LOAD(1, c + kTileRows, row_bytes);
    if (kTwoRows) RIVULET_TILE_LOAD(2, lower, row_bytes);
    if (kTwoRows && kTwoColumns) RIVULET_TILE_LOAD(3, lower + kTileRows, row_bytes);
  } else {
    RIVULET_TILE_ZERO(0);
    if (kTwoColumns) RIVULET_TILE_ZERO(1);
    if (kTwoRows) RIVULET_TILE_ZERO(2);
    if (kTwoRows && kTwoColumns) RIVULET_TILE_ZERO(3);
  }
  const auto load_a = [&](int part) RIVULET_TILE_LAMBDA {
    RIVULET_TILE_LOAD(4, a + PartAt(part), kTileBytes);
    if (kTwoRows) RIVULET_TILE_LOAD(5, a + kLineTiles + PartAt(part), kTileBytes);
  };
  const auto load_b = [&](int part) RIVULET_TILE_LAMBDA {
    RIVULET_TILE_LOAD(6, b + PartAt(part), kTileBytes);
    if (kTwoColumns) RIVULET_TILE_LOAD(7, b + kLineTiles + PartAt(part), kTileBytes);
  };
  const auto multiply = [&]() RIVULET_TILE_LAMBDA {
    RIVULET_TILE_PRODUCT(0, 4, 6);
    if (kTwoColumns) RIVULET_TILE_PRODUCT(1, 4, 7);
    if (kTwoRows) RIVULET_TILE_PRODUCT(2, 5, 6);
    if (kTwoRows && kTwoColumns) RIVULET_TILE_PRODUCT(3, 5, 7);
  };
  for (int64_t block = 0; block < blocks; ++block, a += kBlockBytes, b += kBlockBytes) {
    load_a(0);
    load_b(2);
    multiply();
    load_a(1);
    load_b(1);
    multiply();
    load_a(0);
    multiply();
    load_a(2);
    load_b(0);
    multiply();
    load_a(1);
    multiply();
    load_a(0);
    multiply();
  }
  RIVULET_TILE_STORE(0, c, row_bytes);
  if (kTwoColumns) RIVULET_TILE_STORE(1, c + kTileRows, row_bytes);
  if (kTwoRows) RIVULET_TILE_STORE(2, lower, row_bytes);
  if (kTwoRows && kTwoColumns) RIVULET_TILE_STORE(3, lower + kTileRows, row_bytes);
}

RIVULET_TILE_CODE inline void SumsOf(const std::byte* a, const std::byte* b, int64_t blocks, float* c, int64_t c_row,
                                     int64_t rows, int64_t columns, bool add) {
  if (rows > kTileRows)
    return columns > kTileRows ? Sums<true, true>(a, b, blocks, c, c_row, add)
                               : Sums<true, false>(a, b, blocks, c, c_row, add);
  columns > kTileRows ? Sums<false, true>(a, b, blocks, c, c_row, add)
                      : Sums<false, false>(a, b, blocks, c, c_row, add);
}

}  // namespace rivulet::tiles

#endif
