// C = A·B, a tile of C by each block: the one loop of all products (matmul.cu, convolution.cu).
//
// The block's 256 threads form a 16 × 16 grid; each computes kRows × kColumns elements of the tile of 16 kRows × 16
// kColumns. Tiles of A and B, TileDepth deep, are loaded to shared memory; while one is multiplied, the next is loaded
// into registers. One thread sums each element over the depth in order, for any tile shape. Only the compiler decides
// whether a product is fused with the sum, and it decides alike for all tiles.
//
// Loaders define A and B. A's "lines" are rows of C, B's are columns of C:
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

constexpr int kTileThreads = 256;
// A tile with few rows is multiplied quickly, and then waits for its next data: so it loads twice as much at once.
constexpr int TileDepth(int rows) { return rows == 1 ? 32 : 16; }
// Padding of lines in shared memory, so that threads
// that store along the depth have fewer bank conflicts.
constexpr int kTilePad = 4;

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Few {
  T values[kCount];
};

// Number of adjacent elements in a fragment: those of one 16-byte load.
constexpr int TogetherOf(int count) { return count < 4 ? count : 4; }
// Position in the tile of element `i` of thread `thread` (of 16).
template <int kCount>
__device__ constexpr int PlaceOf(int thread, int i) {
  constexpr int kTogether = TogetherOf(kCount);
  return ((i / kTogether) * 16 + thread) * kTogether + i % kTogether;
}

// Position in the tile of this thread's `sums[i][j]`, in a block of 16 × 16 threads.
template <int kRows, int kColumns>
struct ThreadPlaces {
  __device__ static int row(int i, int) { return PlaceOf<kRows>(static_cast<int>(threadIdx.x) / 16, i); }
  __device__ static int column(int, int j) { return PlaceOf<kColumns>(static_cast<int>(threadIdx.x) % 16, j); }
};
// In a tile with few rows each thread has one column and four rows, and the block is 4 × 64: a warp's reads of B are
// then one line of shared memory and those of A one address, two thirds of the reads for 1 × 4 elements.
template <>
struct ThreadPlaces<1, 4> {
  __device__ static int row(int, int j) { return static_cast<int>(threadIdx.x) / 64 * 4 + j; }
  __device__ static int column(int, int) { return static_cast<int>(threadIdx.x) % 64; }
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

// One thread's loads for each tile of one factor, which is 16 kCount lines wide.
template <int kCount, int kDepth, typename Loader, int kPad = kTilePad>
class Fetch {
 public:
  using T = typename Loader::Element;
  static constexpr int kWidth = 16 * kCount, kLine = kWidth + kPad;
  static constexpr bool kAlong = Loader::kAlongDepth;

  __device__ Fetch(const Loader& loader, int first_line) : loader_(loader) {
    const int thread = static_cast<int>(threadIdx.x);
    line_ = kAlong ? thread / kDepth : thread % kWidth;
    depth_ = kAlong ? thread % kDepth : thread / kWidth;
#pragma unroll
    for (int i = 0; i < kLines; ++i) lines_[i] = loader_.line(first_line + line_ + i * kLineStep);
  }
  __device__ void Load(int first_depth) {
    if constexpr (kAlong) {
      const typename Loader::Depth depth = loader_.depth(first_depth + depth_);
#pragma unroll
      for (int i = 0; i < kValues; ++i) values_[i] = loader_.at(lines_[i], depth);
    } else {
#pragma unroll
      for (int i = 0; i < kValues; ++i)
        values_[i] = loader_.at(lines_[0], loader_.depth(first_depth + depth_ + i * kDepthStep));
    }
  }
  // `round`: applied to an element on its way to shared memory.
  template <typename Round = AsItIs>
  __device__ void Store(T (*tile)[kLine], Round round = {}) const {
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      if constexpr (kAlong)
        tile[depth_][line_ + i * kLineStep] = round(values_[i]);
      else
        tile[depth_ + i * kDepthStep][line_] = round(values_[i]);
    }
  }

 private:
  static constexpr int kValues = kWidth * kDepth / kTileThreads;
  static constexpr int kLines = kAlong ? kValues : 1;
  // Distance between the thread's elements.
  static constexpr int kLineStep = kTileThreads / kDepth, kDepthStep = kTileThreads / kWidth;
  const Loader& loader_;
  int line_, depth_;
  typename Loader::Line lines_[kLines];
  T values_[kValues];
};

// A part of the depth. Its begin is a multiple of every tile's depth, and so is its end unless it is the last part's.
struct DepthRange {
  int begin, end;
};

// Sums this thread's elements of the tile that starts at (first_row, first_column), over `depth`; ThreadPlaces gives
// the position of element (i, j).
template <int kRows, int kColumns, typename A, typename B>
__device__ void MultiplyTile(const A& a, const B& b, int first_row, int first_column, DepthRange depth,
                             typename A::Element (&sums)[kRows][kColumns]) {
  using T = typename A::Element;
  constexpr int kDepth = TileDepth(kRows);
  using FetchA = Fetch<kRows, kDepth, A>;
  using FetchB = Fetch<kColumns, kDepth, B>;
  alignas(16) __shared__ T a_tiles[2][kDepth][FetchA::kLine];
  alignas(16) __shared__ T b_tiles[2][kDepth][FetchB::kLine];
  FetchA fetch_a(a, first_row);
  FetchB fetch_b(b, first_column);
  [[maybe_unused]] const int row = static_cast<int>(threadIdx.x) / 16, column = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sums[i][j] = T(0);
  const int tiles = (depth.end - depth.begin + kDepth - 1) / kDepth;
  if (tiles <= 0) return;
  fetch_a.Load(depth.begin);
  fetch_b.Load(depth.begin);
  fetch_a.Store(a_tiles[0]);
  fetch_b.Store(b_tiles[0]);
  __syncthreads();
  for (int tile = 0; tile < tiles; ++tile) {
    const int now = tile % 2;
    const bool more = tile + 1 < tiles;
    if (more) {
      fetch_a.Load(depth.begin + (tile + 1) * kDepth);
      fetch_b.Load(depth.begin + (tile + 1) * kDepth);
    }
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      if constexpr (kRows == 1) {
        using Places = ThreadPlaces<kRows, kColumns>;
        const auto of_a = *reinterpret_cast<const Few<T, kColumns>*>(a_tiles[now][k] + Places::row(0, 0));
        const T of_b = b_tiles[now][k][Places::column(0, 0)];
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[0][j] += of_a.values[j] * of_b;
      } else {
        T of_a[kRows], of_b[kColumns];
        LoadFragment<kRows>(a_tiles[now][k], row, of_a);
        LoadFragment<kColumns>(b_tiles[now][k], column, of_b);
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
          for (int j = 0; j < kColumns; ++j) sums[i][j] += of_a[i] * of_b[j];
      }
    }
    if (more) {
      fetch_a.Store(a_tiles[1 - now]);
      fetch_b.Store(b_tiles[1 - now]);
    }
    __syncthreads();
  }
}

}  // namespace rivulet::gpu
