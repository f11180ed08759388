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

// Chosen by the result's shape alone, never by the number of lanes: few rows, as in a client's batch, use a tile
// without unused rows; with larger tiles, fewer elements are read per product.
Tile TileFor(DType dtype, int64_t rows, int64_t columns);

// The arithmetic for products of `dtype`, as in names of kernels: "tf32" if the device may round float32 factors to it,
// or if they have no more precision.
std::string_view ArithmeticOf(const GpuContext& context, DType dtype);

// The number of tiles of size `tile` for `rows`.
inline Divider TilesOf(int64_t rows, int64_t tile) { return Divider::Of((rows + tile - 1) / tile); }

// The number of chunks for the depth of a product, by its shape alone.
DepthChunks ChunksFor(const Tile& tile, int64_t rows, int64_t columns, int64_t depth);
// Sets tiles and chunks, which follow from the sizes; chunks only if the caller has memory for partial sums, and there
// is one product.
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
// Bytes of their partial sums, per lane; 0: the depth is not cut.
size_t PartialBytes(const DepthChunks& chunks, DType dtype, int64_t rows, int64_t columns);
// Adds the sums of all chunks to give c, whose rows are `c_row` elements apart.
Status JoinChunks(const GpuContext& context, const DepthChunks& chunks, DType dtype, int64_t rows, int64_t columns,
                  LaneSpan<void> c, int64_t c_row, const Epilogue& epilogue);

// c = a · b of `dtype` (float32 or float64); the caller sets spans, strides, sizes and epilogue, and the rest is
// computed. If the caller has memory for partial sums (`chunks.partial`, of PartialBytes), a long depth is cut. Nothing
// is launched if c has no elements.
Status PutProduct(const GpuContext& context, DType dtype, ProductArguments arguments);

// The same for a convolution: `kernel` is "convolution", "convolution_input" or "convolution_filter".
Status PutConvolution(const GpuContext& context, std::string_view kernel, DType dtype, ConvolutionArguments arguments);

// Matrices of one shape, row-major without gaps; if turned (transposed): [depth, rows] and [columns, depth].
ProductArguments ProductOfMatrices(int64_t rows, int64_t columns, int64_t depth, bool turn_a, bool turn_b);

inline Activation ActivationOf(FusedOps::Activation activation) {
  return activation == FusedOps::Activation::kRelu    ? kRelu
         : activation == FusedOps::Activation::kRelu6 ? kRelu6
                                                      : kNoActivation;
}

}  // namespace rivulet::gpu
