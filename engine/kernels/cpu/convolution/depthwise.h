// Depthwise convolutions for float32 in both layouts, by Rivulet's vector loops. Over NHWC a vector has channels of one
// pixel, over NCHW pixels of one channel. Inputs are read once and outputs written once, in memory order.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// Requires `window.depthwise()` with one output channel per input channel; nullopt otherwise, and for padding much
// larger than the image.
std::optional<Prepared> DepthwiseConvolution(ConvDirection direction, const Window& window);

// A convolution with several output channels per input channel, from `one`, in which each input channel is repeated
// (window.in_channels == window.out_channels): repeats the image's channels in scratch, or sums the image's gradient.
template <typename T>
Prepared WithChannelMultiplier(Prepared one, ConvDirection direction, const Window& window);

// RotatedWindow (rotated_filter.h); nullopt for strides, or padding beyond the windows.
std::optional<Window> RotatedDepthwiseWindow(const Window& window);
// The gradient of the image from `forward`, a kernel for that window with one filter per channel.
Prepared WithRotatedFilter(Prepared forward, const Window& window);

}  // namespace rivulet
