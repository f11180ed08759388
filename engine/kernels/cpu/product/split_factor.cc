#include "engine/kernels/cpu/product/split_factor.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/kernels/cpu/product/split_parts.h"

namespace rivulet {

#ifdef RIVULET_HAS_TILE_CODE

namespace {

using namespace tiles;

constexpr int kFirstRight = 5;

// Sums of up to 16 rows by one or two tiles of columns, over all terms. The unit takes
// 16 cycles if a product has another right factor than the previous one, and for the
// same one hardly more than there are rows: so a part of B is multiplied by all its
// parts of A in succession. Tiles: 0 and 1 sums, 2 to 4 parts of A, 5 to 7 parts of B.
template <bool kTwoColumns>
RIVULET_TILE_CODE void FewRows(const std::byte* a, const std::byte* b, int64_t blocks, float* c, int64_t c_row) {
  const int64_t row_bytes = c_row * static_cast<int64_t>(sizeof(float));
  RIVULET_TILE_ZERO(0);
  if (kTwoColumns) RIVULET_TILE_ZERO(1);
  for (int64_t block = 0; block < blocks; ++block, a += kBlockBytes, b += kBlockBytes) {
    RIVULET_TILE_LOAD(7, b + PartAt(2), kTileBytes);
    RIVULET_TILE_LOAD(2, a + PartAt(0), kTileBytes);
    RIVULET_TILE_PRODUCT(0, 2, 7);
    RIVULET_TILE_LOAD(6, b + PartAt(1), kTileBytes);
    RIVULET_TILE_LOAD(3, a + PartAt(1), kTileBytes);
    RIVULET_TILE_PRODUCT(0, 3, 6);
    RIVULET_TILE_PRODUCT(0, 2, 6);
    RIVULET_TILE_LOAD(5, b + PartAt(0), kTileBytes);
    RIVULET_TILE_LOAD(4, a + PartAt(2), kTileBytes);
    RIVULET_TILE_PRODUCT(0, 4, 5);
    RIVULET_TILE_PRODUCT(0, 3, 5);
    RIVULET_TILE_PRODUCT(0, 2, 5);
    if (kTwoColumns) {
      RIVULET_TILE_LOAD(7, b + kLineTiles + PartAt(2), kTileBytes);
      RIVULET_TILE_PRODUCT(1, 2, 7);
      RIVULET_TILE_LOAD(6, b + kLineTiles + PartAt(1), kTileBytes);
      RIVULET_TILE_PRODUCT(1, 3, 6);
      RIVULET_TILE_PRODUCT(1, 2, 6);
      RIVULET_TILE_LOAD(5, b + kLineTiles + PartAt(0), kTileBytes);
      RIVULET_TILE_PRODUCT(1, 4, 5);
      RIVULET_TILE_PRODUCT(1, 3, 5);
      RIVULET_TILE_PRODUCT(1, 2, 5);
    }
  }
  RIVULET_TILE_STORE(0, c, row_bytes);
  if (kTwoColumns) RIVULET_TILE_STORE(1, c + kTileRows, row_bytes);
}

RIVULET_TILE_CODE bool Pack(const float* b, int64_t b_k, int64_t b_column, int64_t n, int64_t k, std::byte* packed) {
  __m512 strange = _mm512_setzero_ps();
  for (int64_t column = 0; column < n; column += kBlock, packed += Blocks(k, kPair) * kBlockBytes) {
    const int64_t count = std::min(kBlock, n - column);
    b_column == 1 ? SplitBlock<false, false>(b + column, b_k, count, k, kBlock, packed, strange)
                  : SplitBlock<true, false>(b + column * b_column, b_column, count, k, kPair, packed, strange);
  }
  return AllSplit(strange);
}

// Multiplies unsplit rows of A by the sum of B's parts, which is exactly B.
RIVULET_TILE_CODE void JoinedProduct(const float* a, int64_t a_row, const std::byte* packed, float* c, int64_t m,
                                     int64_t n, int64_t k) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
  for (int64_t column = 0; column < n; column += kTileRows) {
    const __mmask16 mask = Lanes(n - column);
    const std::byte* const tiles =
        packed + column / kBlock * Blocks(k, kPair) * kBlockBytes + column % kBlock / kTileRows * kLineTiles;
    for (int64_t row = 0; row < m; ++row) {
      __m512 sum = _mm512_setzero_ps();
      for (int64_t term = 0; term < k; ++term) {
        const std::byte* const pair = tiles + term / kPair * kBlockBytes + term % kTileRows * kTileBytes;
        const bool second = term % kPair >= kTileRows;
        __m512 joined = _mm512_setzero_ps();
        for (int part = kParts - 1; part >= 0; --part) {
          const __m512i both = _mm512_load_si512(pair + PartAt(part));
          joined = _mm512_add_ps(
              joined, _mm512_castsi512_ps(second ? _mm512_and_si512(both, upper) : _mm512_slli_epi32(both, 16)));
        }
        sum = _mm512_fmadd_ps(_mm512_set1_ps(a[row * a_row + term]), joined, sum);
      }
      _mm512_mask_storeu_ps(c + row * n + column, mask, sum);
    }
  }
}

RIVULET_TILE_CODE void Multiply(const float* a, int64_t a_row, const std::byte* packed, float* c, int64_t m, int64_t n,
                                int64_t k, std::byte* rows) {
  alignas(64) float edge[kBlock * kBlock];  // sums that do not fill their tiles
  const int64_t blocks = Blocks(k, kPair), panel = blocks * kBlockBytes;
  for (int64_t row = 0; row < m; row += kBlock) {
    const int64_t height = std::min(kBlock, m - row);
    const bool few = height <= kTileRows;
    __m512 strange = _mm512_setzero_ps();
    SplitBlock<true, true>(a + row * a_row, a_row, height, k, kPair, rows, strange);
    float* const to = c + row * n;
    if (!AllSplit(strange)) {
      JoinedProduct(a + row * a_row, a_row, packed, to, height, n, k);
      continue;
    }
    TileConfig config;
    for (int tile = 0; tile < 8; ++tile) config.Set(tile, few && tile < kFirstRight ? height : kTileRows, kTileBytes);
    const Tiles tiles(config);
    for (int64_t column = 0; column < n; column += kBlock) {
      const int64_t columns = std::min(kBlock, n - column);
      const std::byte* const right = packed + column / kBlock * panel;
      const bool whole = columns % kTileRows == 0 && (few || height == kBlock);
      float* const sums = whole ? to + column : edge;
      const int64_t sums_row = whole ? n : kBlock;
      if (!few) {
        SumsOf(rows, right, blocks, sums, sums_row, height, columns, false);
      } else if (columns > kTileRows) {
        FewRows<true>(rows, right, blocks, sums, sums_row);
      } else {
        FewRows<false>(rows, right, blocks, sums, sums_row);
      }
      for (int64_t r = 0; !whole && r < height; ++r) std::copy_n(edge + r * kBlock, columns, to + r * n + column);
    }
  }
}

}  // namespace

size_t SplitFactorBytes(int64_t n, int64_t k) {
  return static_cast<size_t>(Blocks(n, kBlock) * Blocks(k, kPair) * kBlockBytes);
}
size_t SplitRowsBytes(int64_t k) { return static_cast<size_t>(Blocks(k, kPair) * kBlockBytes); }

bool PackSplitFactor(const float* b, int64_t b_k, int64_t b_column, int64_t n, int64_t k, std::byte* packed) {
  return Pack(b, b_k, b_column, n, k, packed);
}

void SplitFactorProduct(const float* a, int64_t a_row, const std::byte* packed, float* c, int64_t m, int64_t n,
                        int64_t k, std::byte* rows) {
  Multiply(a, a_row, packed, c, m, n, k, rows);
}

#else

size_t SplitFactorBytes(int64_t, int64_t) { return 0; }
size_t SplitRowsBytes(int64_t) { return 0; }
bool PackSplitFactor(const float*, int64_t, int64_t, int64_t, int64_t, std::byte*) {
  RIVULET_CHECK(false, "no tiles on this processor");
}
void SplitFactorProduct(const float*, int64_t, const std::byte*, float*, int64_t, int64_t, int64_t, std::byte*) {
  RIVULET_CHECK(false, "no tiles on this processor");
}

#endif

}  // namespace rivulet
