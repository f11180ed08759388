// Convolutions in bfloat16 by the processor's matrix unit (AMX), and their gradients.
//
// Forward and for the image's gradient a window slides over the image, padded in memory if necessary, and 16
// neighbouring pixels are multiplied with 16 filters at a time. The gradient of one filter tap is a product over
// pixels, of the image's channels with the output's. The images' rows are as long as an output row plus the window's
// reach. Every tap then reads the same packed image at another pixel offset, so that it is packed once for all taps;
// the output's gradient is zero at the row boundaries. Those zeros, and the image's padding, are multiplied: a NaN or
// an infinity affects more taps than it should, never fewer.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// The tensors are NHWC regardless of `window.nchw`; inputs and output are
// bfloat16, sums float32 and rounded once. nullopt: no matrix unit (HasTiles),
// groups, dilations, or images or channels too small to fill tiles.
std::optional<Prepared> TileFilterGradient(const Window& window);

// Any direction; `fused` is for the forward one and is applied before rounding; its bias is input 2, in bfloat16.
// nullopt also: the image's gradient with strides, windows of one pixel, and windows that fill too little of a product.
std::optional<Prepared> TileConvolution(ConvDirection direction, const Window& window, const FusedOps& fused = {});

}  // namespace rivulet
