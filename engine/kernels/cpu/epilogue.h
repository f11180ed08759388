// What follows a fused convolution (or product): a bias for each channel, then an activation, in one pass over the
// finished sums and in their place. The arithmetic is BiasAdd's and Relu's own: a NaN stays NaN.
#pragma once

#include <limits>

#include "engine/ops/window.h"
#include "engine/program/kernel.h"

namespace rivulet {

// The same for a kernel that finishes its float32 sums while they are in registers: what is below `least` becomes 0,
// what is above `most` that, and NaN stays NaN. Without an activation nothing is either.
struct SumFinish {
  SumFinish() = default;
  SumFinish(const FusedOps& fused, const float* of_channels) : bias(of_channels) {
    if (fused.activation != FusedOps::Activation::kNone) least = 0;
    if (fused.activation == FusedOps::Activation::kRelu6) most = 6;
  }
  const float* bias = nullptr;  // null: sums stay as they are
  float least = -std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::infinity();
};

// `rows` rows of `channels` elements; `bias` has one per channel and is not read where `fused` has none.
template <typename T>
void ApplyEpilogue(const FusedOps& fused, const T* bias, T* rows_of_channels, int64_t rows, int64_t channels);

// `inner` (a kernel with two inputs) and then the epilogue over its output: [outer, channels, inner_size]. Input 2 is
// the bias.
template <typename T>
Prepared WithEpilogue(Prepared inner, const FusedOps& fused, int64_t outer, int64_t channels, int64_t inner_size);

}  // namespace rivulet
