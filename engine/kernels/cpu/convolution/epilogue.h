// Epilogue of a fused convolution or product: a bias for each channel, then an activation, in one in-place pass over
// the finished sums. The arithmetic is that of BiasAdd and Relu: a NaN stays NaN.
#pragma once

#include <limits>

#include "engine/ops/window.h"
#include "engine/program/kernel.h"

namespace rivulet {

// The same for a kernel that finishes its float32 sums while they are in registers: what is below `least` becomes 0,
// what is above `most` that, and NaN stays NaN. Without an activation nothing is either.
struct SumFinish {
  // Where `fused` has a bias, which is the kernel's input 2; else nothing, and WithSumFinish does what is left.
  static SumFinish Of(const FusedOps& fused, const KernelContext& context) {
    SumFinish finish;
    if (!fused.bias) return finish;
    finish.bias = reinterpret_cast<const float*>(context.inputs[2]);
    if (fused.activation != FusedOps::Activation::kNone) finish.least = 0;
    if (fused.activation == FusedOps::Activation::kRelu6) finish.most = 6;
    return finish;
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

// The whole of `fused` from `inner`, a kernel that finishes its sums by SumFinish::Of: an activation without a bias
// goes over `rows` rows of `channels` finished ones.
Prepared WithSumFinish(Prepared inner, const FusedOps& fused, int64_t rows, int64_t channels);

}  // namespace rivulet
