// The tile of a product by tensor cores: factors rounded to TF32's 10 fraction bits, sums in float32. Tiles, loaders
// and shared memory are those of product_tile.h; the assignment of elements to threads and the order of sums differ.
//
// A block has 8 warps, arranged as 4 × 2 over the tile (1 × 8 over a tile of 16 rows). The instruction mma.sync.m16n8k8
// computes 16 × 8 elements by a warp, 4 by each thread. The emulated device, which has no warps, gives each thread the
// same elements and sums them over the depth in order. Only the order of sums within 8 of the depth is specific to the
// hardware.
#pragma once

#include "engine/kernels/cuda/product_tile.h"

namespace rivulet::gpu {

// Threads of a warp read four neighbouring depths of eight lines, without bank conflicts.
constexpr int kTensorPad = 8;

// Rounds to the nearest TF32, ties away from zero.
struct RoundToTf32 {
  __device__ float operator()(float x) const {
#ifdef __CUDACC__
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return __uint_as_float(rounded);
#else
    const uint32_t bits = __float_as_uint(x);
    if ((bits & 0x7F800000u) == 0x7F800000u) return x;
    return __uint_as_float((bits + 0x1000u) & 0xFFFFE000u);
#endif
  }
};

// Position in the tile of this thread's `sums[i][j]`.
template <int kRows, int kColumns>
struct TensorPlaces {
  static constexpr int kWarpRows = kRows == 1 ? 1 : 4, kWarpColumns = 8 / kWarpRows;
  static constexpr int kDown = kRows / kWarpRows, kAcross = 2 * kColumns / kWarpColumns;  // blocks of m16n8 per warp
  static_assert(kDown * kAcross * 4 == kRows * kColumns, "a warp's part of the tile is whole");

  __device__ static int first_row() { return static_cast<int>(threadIdx.x) / 32 / kWarpColumns * 16 * kDown; }
  __device__ static int first_column() { return static_cast<int>(threadIdx.x) / 32 % kWarpColumns * 8 * kAcross; }
  // The four elements of a thread in one m16n8: c0 and c1 are adjacent, c2 and c3 eight rows below.
  __device__ static int row(int i, int j) {
    const int element = i * kColumns + j;
    return first_row() + element / 4 / kAcross * 16 + static_cast<int>(threadIdx.x) % 32 / 4 + element % 4 / 2 * 8;
  }
  __device__ static int column(int i, int j) {
    const int element = i * kColumns + j;
    return first_column() + element / 4 % kAcross * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + element % 2;
  }
};

// Adds the products of 8 depths, with lines that start at `a` and `b`, to this thread's sums.
template <int kRows, int kColumns, int kLineA, int kLineB>
__device__ inline void MultiplyEight(const float (*a)[kLineA], const float (*b)[kLineB],
                                     float (&sums)[kRows][kColumns]) {
  using Places = TensorPlaces<kRows, kColumns>;
#ifdef __CUDACC__
  const int quad = static_cast<int>(threadIdx.x) % 32 / 4, within = static_cast<int>(threadIdx.x) % 4;
  float* const flat = &sums[0][0];
  uint32_t of_b[Places::kAcross][2];
#pragma unroll
  for (int across = 0; across < Places::kAcross; ++across) {
    const int column = Places::first_column() + across * 8 + quad;
    of_b[across][0] = __float_as_uint(b[within][column]);
    of_b[across][1] = __float_as_uint(b[within + 4][column]);
  }
#pragma unroll
  for (int down = 0; down < Places::kDown; ++down) {
    const int row = Places::first_row() + down * 16 + quad;
    const uint32_t of_a[4] = {__float_as_uint(a[within][row]), __float_as_uint(a[within][row + 8]),
                              __float_as_uint(a[within + 4][row]), __float_as_uint(a[within + 4][row + 8])};
#pragma unroll
    for (int across = 0; across < Places::kAcross; ++across) {
      float* const c = flat + (down * Places::kAcross + across) * 4;
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(of_a[0]), "r"(of_a[1]), "r"(of_a[2]), "r"(of_a[3]), "r"(of_b[across][0]), "r"(of_b[across][1]));
    }
  }
#else
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j)
      for (int k = 0; k < 8; ++k) sums[i][j] += a[k][Places::row(i, j)] * b[k][Places::column(i, j)];
#endif
}

// As MultiplyTile, except for the assignment of elements to threads (TensorPlaces).
template <int kRows, int kColumns, typename A, typename B>
__device__ void MultiplyTensorTile(const A& a, const B& b, int first_row, int first_column, DepthRange depth,
                                   float (&sums)[kRows][kColumns]) {
  constexpr int kDepth = TileDepth(kRows);
  using FetchA = Fetch<kRows, kDepth, A, kTensorPad>;
  using FetchB = Fetch<kColumns, kDepth, B, kTensorPad>;
  alignas(16) __shared__ float a_tiles[2][kDepth][FetchA::kLine];
  alignas(16) __shared__ float b_tiles[2][kDepth][FetchB::kLine];
  FetchA fetch_a(a, first_row);
  FetchB fetch_b(b, first_column);
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sums[i][j] = 0;
  const int tiles = (depth.end - depth.begin + kDepth - 1) / kDepth;
  if (tiles <= 0) return;
  fetch_a.Load(depth.begin);
  fetch_b.Load(depth.begin);
  fetch_a.Store(a_tiles[0], RoundToTf32());
  fetch_b.Store(b_tiles[0], RoundToTf32());
  __syncthreads();
  for (int tile = 0; tile < tiles; ++tile) {
    const int now = tile % 2;
    const bool more = tile + 1 < tiles;
    if (more) {
      fetch_a.Load(depth.begin + (tile + 1) * kDepth);
      fetch_b.Load(depth.begin + (tile + 1) * kDepth);
    }
#pragma unroll
    for (int k = 0; k < kDepth; k += 8)
      MultiplyEight<kRows, kColumns, FetchA::kLine, FetchB::kLine>(&a_tiles[now][k], &b_tiles[now][k], sums);
    if (more) {
      fetch_a.Store(a_tiles[1 - now], RoundToTf32());
      fetch_b.Store(b_tiles[1 - now], RoundToTf32());
    }
    __syncthreads();
  }
}

}  // namespace rivulet::gpu
