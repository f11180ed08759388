// Direct convolutions for float32 with at most 8 output channels. A vector has pixels of one channel; a vector of
// channels would be mostly empty. The image is split into planes in scratch, one image at a time.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// Forward, or the gradient of an input with few channels; tensors are NHWC regardless of `window.nchw`. `fused` is for
// the forward direction. nullopt for strides, groups and many channels. PaysPlanar (choose.h) says when it is faster.
std::optional<Prepared> PlanarConvolution(ConvDirection direction, const Window& window, const FusedOps& fused = {});

}  // namespace rivulet
