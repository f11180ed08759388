// Primitives of kernels for the processor's matrix unit (AMX): tiles, and vectors that fill them. Only for sources that
// are compiled separately and that call none of this unless HasTiles().
//
// Functions are compiled for AVX-512 one by one (RIVULET_TILE_CODE). Tile instructions are written as assembly with a
// memory clobber. The compiler's intrinsics of tile loads do not declare that they read memory, so that a store just
// before them could be moved behind them.
#pragma once

#if defined(__x86_64__) && defined(__linux__)
#define RIVULET_HAS_TILE_CODE 1

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "engine/tensor/float16.h"

// GCC 12 warns of undefined vectors wherever its own intrinsics, which start from such vectors, are inlined.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define RIVULET_TILE_CODE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")))
#define RIVULET_TILE_INLINE \
  __attribute__((always_inline, target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma"))) inline
// The same attributes for a lambda, written after its parameters.
#define RIVULET_TILE_LAMBDA __attribute__((always_inline, target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")))

#define RIVULET_TILE_LOAD(tile, from, stride)                                            \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(static_cast<const void*>(from)), \
               "r"(static_cast<long>(stride))                                            \
               : "memory")
#define RIVULET_TILE_STORE(tile, to, stride)                                                                        \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(static_cast<void*>(to)), "r"(static_cast<long>(stride)) \
               : "memory")
#define RIVULET_TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile::)
// c += a · b, where the elements are pairs of bfloat16.
#define RIVULET_TILE_PRODUCT(c, a, b) asm volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c::)

namespace rivulet::tiles {

// The size of a tile: 16 rows of 64 bytes.
constexpr int64_t kTileRows = 16, kTileBytes = 64;
constexpr int64_t kPair = 32;  // bfloat16 elements of a tile's row: the terms of one product

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
  void Set(int tile, int64_t tile_rows, int64_t bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
};

// A scope in which the tiles are configured by `config`; the destructor releases them.
class Tiles {
 public:
  explicit Tiles(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
  ~Tiles() { asm volatile("tilerelease" ::); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

RIVULET_TILE_INLINE __mmask16 Lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFFu : count <= 0 ? 0u : (1u << count) - 1);
}

// Returns (a0, b0, a1, b1, …), where a is the first 16 and b the last 16 bfloat16 elements of `halves`.
RIVULET_TILE_INLINE __m512i Interleaved(__m512i halves) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, halves);
}

RIVULET_TILE_INLINE __m512i Joined(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// Interleaves 16 elements of each of two rows, rounded to bfloat16. Elements outside the masks are not read and are 0.
RIVULET_TILE_INLINE __m512i PairOfRows(const float* row, const float* next, __mmask16 mask, __mmask16 next_mask) {
  const __m512 low = _mm512_maskz_loadu_ps(mask, row), high = _mm512_maskz_loadu_ps(next_mask, next);
  return Interleaved((__m512i)_mm512_cvtne2ps_pbh(high, low));
}
RIVULET_TILE_INLINE __m512i PairOfRows(const bfloat16* row, const bfloat16* next, __mmask16 mask, __mmask16 next_mask) {
  return Interleaved(Joined(_mm256_maskz_loadu_epi16(mask, row), _mm256_maskz_loadu_epi16(next_mask, next)));
}

// Transposes 16 × 16 elements of 32 bits.
RIVULET_TILE_INLINE void Transpose(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xDD);
    t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xDD);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
    r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xDD);
    r[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
    r[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xDD);
  }
}

RIVULET_TILE_INLINE __m256i Rounded(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }

}  // namespace rivulet::tiles

#endif
