// What follows a fused convolution (or product): a bias for each channel, then an activation, in one pass over the
// finished sums and in their place. The arithmetic is BiasAdd's and Relu's own: a NaN stays NaN.
#pragma once

#include "engine/ops/window.h"
#include "engine/program/kernel.h"

namespace rivulet {

// `rows` rows of `channels` elements; `bias` has one per channel and is not read where `fused` has none.
template <typename T>
void ApplyEpilogue(const FusedOps& fused, const T* bias, T* rows_of_channels, int64_t rows, int64_t channels);

// `inner` (a kernel with two inputs) and then the epilogue over its output: [outer, channels, inner_size]. Input 2 is
// the bias.
template <typename T>
Prepared WithEpilogue(Prepared inner, const FusedOps& fused, int64_t outer, int64_t channels, int64_t inner_size);

}  // namespace rivulet
