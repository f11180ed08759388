#include "engine/kernels/cpu/product/split_product.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/kernels/cpu/product/split_parts.h"

namespace rivulet {

#ifdef RIVULET_HAS_TILE_CODE

namespace {

using namespace tiles;

// Terms and columns of B that stay in the second cache for successive rows of A: 128 terms of up to 1,024 columns, or
// 256 of half as many. Terms of a block of A and one of B that are in the first cache together: 12 KiB each. Changing
// these numbers changes no bit, as long as kNearTerms stays.
constexpr int64_t kColumns = 1024, kNearTerms = 64;
constexpr int64_t TermsAtOnce(const SplitProduct& p) { return p.n > kColumns / 2 ? 128 : 256; }
static_assert(128 % kNearTerms == 0 && kNearTerms % kPair == 0);
constexpr int64_t kNearBytes = kNearTerms / kPair * kBlockBytes;

RIVULET_TILE_CODE bool Run(const SplitProduct& p, const float* a, const float* b, float* c, std::byte* scratch,
                           const SplitFinish& finish) {
  alignas(64) float edge[kBlock * kBlock];  // sums that do not fill their tiles
  std::byte* const packed_a = scratch;
  std::byte* const packed_b = scratch + kNearBytes;
  const int64_t most_terms = TermsAtOnce(p);
  __m512 strange = _mm512_setzero_ps();
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.Set(tile, kTileRows, kTileBytes);
  const Tiles tiles(config);
  for (int64_t first = 0; first < p.n; first += kColumns) {
    const int64_t columns = std::min(kColumns, p.n - first);
    for (int64_t begin = 0; begin < p.k; begin += most_terms) {
      const int64_t end = std::min(begin + most_terms, p.k), chunks = Blocks(end - begin, kNearTerms);
      // In memory order, as far as possible.
      const int64_t block_bytes = chunks * kNearBytes, once = p.b_column == 1 ? kPair : end - begin;
      for (int64_t term = begin; term < end; term += once) {
        std::byte* to = packed_b + (term - begin) / kPair * kBlockBytes;
        for (int64_t column = 0; column < columns; column += kBlock, to += block_bytes) {
          const float* const from = b + term * p.b_k + (first + column) * p.b_column;
          const int64_t count = std::min(kBlock, columns - column), terms = std::min(once, end - term);
          p.b_column == 1 ? SplitBlock<false, false>(from, p.b_k, count, terms, kBlock, to, strange)
                          : SplitBlock<true, false>(from, p.b_column, count, terms, kPair, to, strange);
        }
      }
      for (int64_t row = 0; row < p.m; row += kBlock) {
        const int64_t rows = std::min(kBlock, p.m - row);
        for (int64_t term = begin; term < end; term += kNearTerms) {
          const float* const from = a + row * p.a_row + term * p.a_k;
          const int64_t terms = std::min(kNearTerms, end - term), blocks = Blocks(terms, kPair);
          // The next terms of these rows, or the first ones of the next rows.
          const int64_t next = term + kNearTerms < end ? kNearTerms * p.a_k : kBlock * p.a_row - (term - begin) * p.a_k;
          p.a_k == 1 ? SplitBlock<true, true>(from, p.a_row, rows, terms, next, packed_a, strange)
                     : SplitBlock<false, true>(from, p.a_k, rows, terms, next, packed_a, strange);
          const std::byte* right = packed_b + (term - begin) / kNearTerms * kNearBytes;
          for (int64_t column = 0; column < columns; column += kBlock, right += block_bytes) {
            const int64_t count = std::min(kBlock, columns - column);
            float* const to = c + row * p.n + first + column;
            if (rows % kTileRows == 0 && count % kTileRows == 0) {
              SumsOf(packed_a, right, blocks, to, p.n, rows, count, term > 0);
              continue;
            }
            for (int64_t r = 0; term > 0 && r < rows; ++r) std::copy_n(to + r * p.n, count, edge + r * kBlock);
            SumsOf(packed_a, right, blocks, edge, kBlock, rows, count, term > 0);
            for (int64_t r = 0; r < rows; ++r) std::copy_n(edge + r * kBlock, count, to + r * p.n);
          }
        }
        if (finish.bias == nullptr || end < p.k) continue;
        const bool whole = columns == p.n;  // then rows are contiguous
        for (int64_t r = 0; r < (whole ? 1 : rows); ++r)
          AddBiasAndActivate(c + (row + r) * p.n + first, finish.bias + first, finish.activation, whole ? rows : 1,
                             columns);
      }
    }
  }
  return AllSplit(strange);
}

}  // namespace

size_t SplitProductScratch(const SplitProduct& p) {
  const int64_t chunks = Blocks(std::min(p.k, TermsAtOnce(p)), kNearTerms);
  return static_cast<size_t>((1 + Blocks(std::min(p.n, kColumns), kBlock) * chunks) * kNearBytes);
}

bool RunSplitProduct(const SplitProduct& p, const float* a, const float* b, float* c, std::byte* scratch,
                     const SplitFinish& finish) {
  return Run(p, a, b, c, scratch, finish);
}

#else

size_t SplitProductScratch(const SplitProduct&) { return 0; }
bool RunSplitProduct(const SplitProduct&, const float*, const float*, float*, std::byte*, const SplitFinish&) {
  RIVULET_CHECK(false, "no tiles on this processor");
}

#endif

}  // namespace rivulet
