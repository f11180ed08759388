// Direct convolutions over NHWC for float32, for shapes that oneDNN computes slowly: few input channels (the first
// layer), other CPUs. An output row's pixels are the rows of a register block, a row of the window its depth. Padding
// is multiplied as zeros, as PyTorch does it channels-last for one channel: where an infinite weight meets it the
// result is NaN, and only there.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// The tensors are NHWC whatever `window.nchw` says. `fused` is for the forward direction and is applied row by row,
// with BiasAdd's and Relu's arithmetic. nullopt for the gradient of the input where windows stride, and for padding
// beyond the window.
std::optional<Prepared> DirectConvolution(ConvDirection direction, const Window& window, const FusedOps& fused = {});

}  // namespace rivulet
