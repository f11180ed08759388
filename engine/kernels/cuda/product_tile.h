// C = A·B, a tile of C by each block: the one loop of all products (matmul.cu, convolution.cu).
//
// The block's 256 threads stand as 16 × 16; each computes kRows × kColumns elements of the tile of 16 kRows × 16
// kColumns. Tiles of A and B, 16 deep, are brought to shared memory; while one is multiplied the next is on its way in
// registers. Each element is summed over the depth in order, by one thread, whatever the tile's shape: only whether the
// compiler fuses a product with the sum is left to it, and that is the same for all tiles.
//
// What A and B are is told by loaders. A's "lines" are rows of C, B's are columns of C:
//
//   struct Loader {
//     using Element = float;
//     static constexpr bool kAlongDepth;          // neighbours in depth lie together in memory, else neighbouring
//     lines struct Line {…};  struct Depth {…};
//     __device__ Line line(int i) const;          // any i: there may be nothing
//     __device__ Depth depth(int k) const;        // any k
//     __device__ Element at(const Line&, const Depth&) const;  // 0 where there is nothing
//   };
#pragma once

#include "engine/kernels/cuda/device_code.h"

namespace rivulet::gpu {

constexpr int kTileDepth = 16, kTileThreads = 256;
// Lines in shared memory are a little longer than the tile, so that threads that store along the depth meet fewer
// banks.
constexpr int kTilePad = 4;

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Few {
  T values[kCount];
};

// How many elements of a fragment lie together: what one load of 16 bytes takes.
constexpr int TogetherOf(int count) { return count < 4 ? count : 4; }
// Place in the tile of element `i` of what thread `thread` (of 16) has.
template <int kCount>
__device__ constexpr int PlaceOf(int thread, int i) {
  constexpr int kTogether = TogetherOf(kCount);
  return ((i / kTogether) * 16 + thread) * kTogether + i % kTogether;
}

// Which element of the tile is `sums[i][j]` of this thread, of a block that stands as 16 × 16.
template <int kRows, int kColumns>
struct ThreadPlaces {
  __device__ static int row(int i, int) { return PlaceOf<kRows>(static_cast<int>(threadIdx.x) / 16, i); }
  __device__ static int column(int, int j) { return PlaceOf<kColumns>(static_cast<int>(threadIdx.x) % 16, j); }
};

template <int kCount, typename T>
__device__ inline void LoadFragment(const T* line, int thread, T (&to)[kCount]) {
  constexpr int kTogether = TogetherOf(kCount);
#pragma unroll
  for (int group = 0; group < kCount / kTogether; ++group) {
    const auto few = *reinterpret_cast<const Few<T, kTogether>*>(line + (group * 16 + thread) * kTogether);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) to[group * kTogether + i] = few.values[i];
  }
}

struct AsItIs {
  template <typename T>
  __device__ T operator()(T x) const {
    return x;
  }
};

// What one thread brings of each tile of one factor: kCount elements.
template <int kCount, typename Loader, int kPad = kTilePad>
class Fetch {
 public:
  using T = typename Loader::Element;
  static constexpr int kWidth = 16 * kCount, kLine = kWidth + kPad;
  static constexpr bool kAlong = Loader::kAlongDepth;

  __device__ Fetch(const Loader& loader, int first_line) : loader_(loader) {
    const int thread = static_cast<int>(threadIdx.x);
    line_ = kAlong ? thread / kTileDepth : thread % kWidth;
    depth_ = kAlong ? thread % kTileDepth : thread / kWidth;
#pragma unroll
    for (int i = 0; i < kLines; ++i) lines_[i] = loader_.line(first_line + line_ + i * 16);
  }
  __device__ void Load(int first_depth) {
    if constexpr (kAlong) {
      const typename Loader::Depth depth = loader_.depth(first_depth + depth_);
#pragma unroll
      for (int i = 0; i < kCount; ++i) values_[i] = loader_.at(lines_[i], depth);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        values_[i] = loader_.at(lines_[0], loader_.depth(first_depth + depth_ + i * kStep));
    }
  }
  // `round`: what becomes of an element on its way to shared memory.
  template <typename Round = AsItIs>
  __device__ void Store(T (*tile)[kLine], Round round = {}) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kAlong)
        tile[depth_][line_ + i * 16] = round(values_[i]);
      else
        tile[depth_ + i * kStep][line_] = round(values_[i]);
    }
  }

 private:
  static constexpr int kLines = kAlong ? kCount : 1;
  static constexpr int kStep = kTileThreads / kWidth;  // in depth, from one element to the next
  const Loader& loader_;
  int line_, depth_;
  typename Loader::Line lines_[kLines];
  T values_[kCount];
};

// The sums of this thread's elements of the tile that begins at (first_row, first_column); which element (i, j) is
// say ThreadPlaces.
template <int kRows, int kColumns, typename A, typename B>
__device__ void MultiplyTile(const A& a, const B& b, int first_row, int first_column, int depth,
                             typename A::Element (&sums)[kRows][kColumns]) {
  using T = typename A::Element;
  using FetchA = Fetch<kRows, A>;
  using FetchB = Fetch<kColumns, B>;
  alignas(16) __shared__ T a_tiles[2][kTileDepth][FetchA::kLine];
  alignas(16) __shared__ T b_tiles[2][kTileDepth][FetchB::kLine];
  FetchA fetch_a(a, first_row);
  FetchB fetch_b(b, first_column);
  const int row = static_cast<int>(threadIdx.x) / 16, column = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sums[i][j] = T(0);
  const int tiles = (depth + kTileDepth - 1) / kTileDepth;
  if (tiles == 0) return;
  fetch_a.Load(0);
  fetch_b.Load(0);
  fetch_a.Store(a_tiles[0]);
  fetch_b.Store(b_tiles[0]);
  __syncthreads();
  for (int tile = 0; tile < tiles; ++tile) {
    const int now = tile % 2;
    const bool more = tile + 1 < tiles;
    if (more) {
      fetch_a.Load((tile + 1) * kTileDepth);
      fetch_b.Load((tile + 1) * kTileDepth);
    }
#pragma unroll
    for (int k = 0; k < kTileDepth; ++k) {
      T of_a[kRows], of_b[kColumns];
      LoadFragment<kRows>(a_tiles[now][k], row, of_a);
      LoadFragment<kColumns>(b_tiles[now][k], column, of_b);
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] += of_a[i] * of_b[j];
    }
    if (more) {
      fetch_a.Store(a_tiles[1 - now]);
      fetch_b.Store(b_tiles[1 - now]);
    }
    __syncthreads();
  }
}

}  // namespace rivulet::gpu
