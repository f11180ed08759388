// Arguments of matrix products (matmul.cu), and the choice of their tiles.
#pragma once

#include "engine/kernels/cuda/divider.h"
#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

enum Activation : int32_t { kNoActivation = 0, kRelu = 1, kRelu6 = 2 };

// Applied to a finished sum.
struct Epilogue {
  LaneSpan<const void> bias;  // one element per column; null: none
  int32_t activation = kNoActivation;
};

// If a result has few tiles and much depth, a few blocks would do all the work sequentially. The depth is then cut into
// chunks with separate blocks, which write their sums to `partial`, [count, rows, columns] per lane; "product_join_T"
// adds them from the first to the last. The number of chunks depends on the shape alone, so the order of every sum is
// fixed: it does not depend on lanes, blocks or concurrent work.
struct DepthChunks {
  Divider count;  // 1: the product is stored directly
  int32_t depth;  // of each chunk but the last; a multiple of every tile's depth
  LaneSpan<void> partial;
};

// "product_T_tile_xy": c[rows, columns] = a · b, `batches` of them. Strides count elements; x and y state for a and b
// whether neighbours in depth are adjacent ("d") or neighbouring rows and columns ("l"). T is "float", "double", or
// "tf32": floats by tensor cores (tensor_tile.h).
struct ProductArguments {
  LaneSpan<const void> a, b;
  LaneSpan<void> c;
  Epilogue epilogue;
  int32_t rows, columns, depth, batches;
  int64_t a_row, a_depth, b_column, b_depth, c_row;
  int64_t a_batch, b_batch, c_batch;
  Divider row_tiles, column_tiles;  // set by PutProduct
  DepthChunks chunks;               // set by PutProduct; `partial` belongs to the caller, and may be null
  Lanes lanes;
};

// "product_join_T": adds the sums of all chunks and applies the epilogue.
struct ProductJoinArguments {
  LaneSpan<const void> partial;
  LaneSpan<void> c;
  Epilogue epilogue;
  int64_t elements;  // rows · columns
  Divider columns;
  int64_t c_row;
  int32_t chunks;
  Lanes lanes;
};

}  // namespace rivulet::gpu

// Tiles by name, with rows and columns per thread of a block of 16 × 16.
#define RIVULET_GPU_TILES(M) \
  M(t16x64, 1, 4)            \
  M(t64x32, 4, 2)            \
  M(t128x32, 8, 2)           \
  M(t64x64, 4, 4)            \
  M(t128x64, 8, 4)           \
  M(t128x128, 8, 8)
// Doubles have one tile: they serve checks and small vectors.
#define RIVULET_GPU_DOUBLE_TILES(M) M(t64x64, 4, 4)
