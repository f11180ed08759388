// Launches of products, for the adapters of all families that use them.
#pragma once

#include "engine/kernels/cuda/convolution.h"
#include "engine/kernels/cuda/launch.h"
#include "engine/kernels/cuda/matmul.h"
#include "engine/ops/window.h"

namespace rivulet::gpu {

struct Tile {
  std::string_view name;
  int32_t rows, columns;
};

// Chosen by the result's shape alone, never by how many lanes there are: few rows, as a client's batch has them, take a
// tile that wastes none; the larger a tile, the fewer elements are read for each product.
Tile TileFor(DType dtype, int64_t rows, int64_t columns);

// What products of `dtype` are computed in, as it stands in names of kernels: "tf32" where the device may round the
// factors of float32 to that, or where they are no more exact to begin with.
std::string_view ArithmeticOf(const GpuContext& context, DType dtype);

// The whole of `rows` in tiles of `tile`.
inline Divider TilesOf(int64_t rows, int64_t tile) { return Divider::Of((rows + tile - 1) / tile); }

// Into how many chunks the depth of a product is cut, by its shape alone.
DepthChunks ChunksFor(const Tile& tile, int64_t rows, int64_t columns, int64_t depth);
// Fills in tiles and chunks, which follow from the sizes; chunks where the caller has memory for partial sums, and
// there is one product.
template <typename Arguments>
Tile Divide(DType dtype, bool one, Arguments& a) {
  const Tile tile = TileFor(dtype, a.rows, a.columns);
  a.row_tiles = TilesOf(a.rows, tile.rows);
  a.column_tiles = TilesOf(a.columns, tile.columns);
  const LaneSpan<void> partial = a.chunks.partial;
  a.chunks = one && partial.data != nullptr ? ChunksFor(tile, a.rows, a.columns, a.depth) : DepthChunks{};
  a.chunks.partial = partial;
  return tile;
}
// Of their partial sums, in one lane; 0: the depth is not cut.
size_t PartialBytes(const DepthChunks& chunks, DType dtype, int64_t rows, int64_t columns);
// Adds the sums of all chunks: c, its rows `c_row` elements apart.
Status JoinChunks(const GpuContext& context, const DepthChunks& chunks, DType dtype, int64_t rows, int64_t columns,
                  LaneSpan<void> c, int64_t c_row, const Epilogue& epilogue);

// c = a · b of `dtype` (float32 or float64); spans, strides, sizes and epilogue are given, the rest is filled in.
// Where the caller has memory for partial sums, `chunks.partial`, of PartialBytes, a long depth is cut. Nothing is
// launched where c has no elements.
Status PutProduct(const GpuContext& context, DType dtype, ProductArguments arguments);

// The same of a convolution: `kernel` is "convolution", "convolution_input" or "convolution_filter".
Status PutConvolution(const GpuContext& context, std::string_view kernel, DType dtype, ConvolutionArguments arguments);

// Matrices of one shape that lie row-major without gaps; turned: [depth, rows] and [columns, depth].
ProductArguments ProductOfMatrices(int64_t rows, int64_t columns, int64_t depth, bool turn_a, bool turn_b);

inline Activation ActivationOf(FusedOps::Activation activation) {
  return activation == FusedOps::Activation::kRelu    ? kRelu
         : activation == FusedOps::Activation::kRelu6 ? kRelu6
                                                      : kNoActivation;
}

}  // namespace rivulet::gpu
