// Arguments of matrix products (matmul.cu), and what chooses among their tiles.
#pragma once

#include "engine/kernels/cuda/divider.h"
#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

enum Activation : int32_t { kNoActivation = 0, kRelu = 1, kRelu6 = 2 };

// What is done to a finished sum.
struct Epilogue {
  LaneSpan<const void> bias;  // one element a column; null: none
  int32_t activation = kNoActivation;
};

// "product_T_tile_xy": c[rows, columns] = a · b, `batches` of them. Strides count elements; x and y say of a and b
// whether neighbours in depth lie together ("d") or neighbouring rows and columns do ("l"). T is "float", "double", or
// "tf32": floats by tensor cores (tensor_tile.h).
struct ProductArguments {
  LaneSpan<const void> a, b;
  LaneSpan<void> c;
  Epilogue epilogue;
  int32_t rows, columns, depth, batches;
  int64_t a_row, a_depth, b_column, b_depth, c_row;
  int64_t a_batch, b_batch, c_batch;
  Divider row_tiles, column_tiles;  // filled in by PutProduct
  Lanes lanes;
};

}  // namespace rivulet::gpu

// Tiles by name, and how many rows and columns each of a block's 16 × 16 threads has.
#define RIVULET_GPU_TILES(M) \
  M(t16x64, 1, 4)            \
  M(t64x32, 4, 2)            \
  M(t64x64, 4, 4)            \
  M(t128x64, 8, 4)           \
  M(t128x128, 8, 8)
// Doubles have one: they are of checks and of small vectors.
#define RIVULET_GPU_DOUBLE_TILES(M) M(t64x64, 4, 4)
