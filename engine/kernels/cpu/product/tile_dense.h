// The three products of a dense layer on a small batch, in bfloat16 by the processor's matrix unit (AMX). Weights in
// float32 are rounded in registers on their way into a tile, so that no rounded copy is written or read. Memory limits
// such a layer, and this kernel reads the weights once forward and once backward.
//
// Sums are float32, in an order that depends only on the shapes (TDPBF16PS: even and odd terms of each 32 separately,
// then joined and added to the total). Numbers below the smallest normal one count as zeros, as in all native kernels.
// Scratch is on the stack, at most 300 KiB. Called only if HasTiles() (has_tiles.h).
#pragma once

#include <cstdint>

#include "engine/kernels/cpu/product/bias_activation.h"
#include "engine/tensor/float16.h"

namespace rivulet {

// Maximum rows of a batch for these products.
constexpr int64_t kMaxTileBatch = 32;
// Maximum columns of weights for the gradient of the input.
constexpr int64_t kMaxTileColumns = 2048;

// y[batch, out] = x[batch, in] · w[in, out]; x and w are row-major.
struct TileDense {
  int64_t batch = 0, in = 0, out = 0;
  double flops() const { return 2.0 * static_cast<double>(batch) * static_cast<double>(in) * static_cast<double>(out); }
};

// Weights or biases: bfloat16, or float32 that are rounded to bfloat16 when read.
struct TileOperand {
  const void* data = nullptr;
  bool wide = false;
};

// y = activation(x·w + bias), rounded once, at the end. `bias` may have null data.
void TileDenseForward(const TileDense& shape, const bfloat16* x, TileOperand w, TileOperand bias,
                      FusedActivation activation, bfloat16* y);

// dx[batch, in] = dy·wᵀ, rounded at the end. At most kMaxTileColumns columns.
void TileDenseInputGradient(const TileDense& shape, const bfloat16* dy, TileOperand w, bfloat16* dx);

// Rows first_row … first_row + rows - 1 of dw[in, out] = xᵀ·dy, in float32, written to `to`, the address of the first
// of these rows.
void TileDenseWeightGradient(const TileDense& shape, const bfloat16* x, const bfloat16* dy, int64_t first_row,
                             int64_t rows, float* to);

// The same rows of from - rate · dw, with product and difference rounded separately. `from` and `to` are the addresses
// of the first of these rows, and are equal or do not overlap.
void TileDenseDescent(const TileDense& shape, const bfloat16* x, const bfloat16* dy, float rate, const float* from,
                      int64_t first_row, int64_t rows, float* to);

// TileDenseInputGradient with float32 weights `from`, followed by TileDenseDescent of all rows, in one pass over them
// and with the same bits. At most kMaxTileColumns columns.
void TileDenseBackward(const TileDense& shape, const bfloat16* x, const bfloat16* dy, float rate, const float* from,
                       float* to, bfloat16* dx);

}  // namespace rivulet
