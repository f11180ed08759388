// Direct convolutions over NHWC for float32, for shapes that oneDNN computes slowly: few input channels (the first
// layer), other CPUs. An output row's pixels are the rows of a register block, a row of the window its depth. Padding
// is multiplied as zeros, as in PyTorch's channels-last layout for one channel: it gives NaN with an infinite weight,
// and only then.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// The tensors are NHWC regardless of `window.nchw`. `fused` is for the forward direction and is applied row by row,
// with the arithmetic of BiasAdd and Relu. nullopt for the gradient of the input with strides, and for padding beyond
// the window.
std::optional<Prepared> DirectConvolution(ConvDirection direction, const Window& window, const FusedOps& fused = {});

}  // namespace rivulet
