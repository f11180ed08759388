// Depthwise convolutions for float32 in both layouts, by our vector loops. Over NHWC a vector holds channels of one
// pixel, over NCHW pixels of one channel. Inputs are read once and outputs written once, in memory order.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// `window.depthwise()` with one output channel per input channel; nullopt otherwise, and for padding that dwarfs the
// image.
std::optional<Prepared> DepthwiseConvolution(ConvDirection direction, const Window& window);

// A convolution with several output channels per input channel, from `one`, which has each input channel repeated
// (window.in_channels == window.out_channels): repeats the image's channels in scratch, or sums the image's gradient.
template <typename T>
Prepared WithChannelMultiplier(Prepared one, ConvDirection direction, const Window& window);

// RotatedWindow (rotated_filter.h); nullopt where windows stride or padding reaches beyond them.
std::optional<Window> RotatedDepthwiseWindow(const Window& window);
// The image's gradient from `forward`, a kernel of that window with one filter per channel.
Prepared WithRotatedFilter(Prepared forward, const Window& window);

}  // namespace rivulet
