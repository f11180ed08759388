// Epilogue of a fused convolution or product: a bias for each channel, then an activation, in one in-place pass over
// the finished sums. The arithmetic is that of BiasAdd and Relu: a NaN stays NaN.
#pragma once

#include <limits>

#include "engine/ops/window.h"
#include "engine/program/kernel.h"

namespace rivulet {

// The same for a kernel that finishes its float32 sums in registers: values below `least` become 0, values above `most`
// become `most`, and NaN stays NaN. Without an activation there are no such values.
struct SumFinish {
  // Needs a bias in `fused` (the kernel's input 2); otherwise it does nothing, and WithSumFinish does the rest.
  static SumFinish Of(const FusedOps& fused, const KernelContext& context) {
    SumFinish finish;
    if (!fused.bias) return finish;
    finish.bias = reinterpret_cast<const float*>(context.inputs[2]);
    if (fused.activation != FusedOps::Activation::kNone) finish.least = 0;
    if (fused.activation == FusedOps::Activation::kRelu6) finish.most = 6;
    return finish;
  }
  const float* bias = nullptr;  // null: sums are unchanged
  float least = -std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::infinity();
};

// `rows` rows of `channels` elements; `bias` has one per channel and is not read if `fused` has no bias.
template <typename T>
void ApplyEpilogue(const FusedOps& fused, const T* bias, T* rows_of_channels, int64_t rows, int64_t channels);

// `inner` (a kernel with two inputs) followed by the epilogue over its output: [outer, channels, inner_size]. Input 2
// is the bias.
template <typename T>
Prepared WithEpilogue(Prepared inner, const FusedOps& fused, int64_t outer, int64_t channels, int64_t inner_size);

// All of `fused` with `inner`, a kernel that finishes its sums by SumFinish::Of: an activation without a bias is
// applied to `rows` rows of `channels` finished sums.
Prepared WithSumFinish(Prepared inner, const FusedOps& fused, int64_t rows, int64_t channels);

}  // namespace rivulet
