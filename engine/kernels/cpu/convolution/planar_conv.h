// Direct convolutions for float32 with at most 8 output channels. A vector holds pixels of one channel; a vector of
// channels would be mostly empty. The image is split into planes in scratch, one image at a time.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// Forward, or the gradient of the input of few channels; NHWC tensors whatever `window.nchw` says. `fused` is for the
// forward direction. nullopt for strides, groups and many channels. Where it pays: PaysPlanar (choose.h).
std::optional<Prepared> PlanarConvolution(ConvDirection direction, const Window& window, const FusedOps& fused = {});

}  // namespace rivulet
