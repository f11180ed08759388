// Implementations of depthwise convolutions for both layouts, each with all three directions; depthwise.cc chooses.
#pragma once

#include <memory>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// NHWC (depthwise_pixels.cc). Needs no scratch.
std::unique_ptr<const Kernel> DepthwiseOverPixels(ConvDirection direction, const Window& window);
// NCHW (depthwise_planes.cc): windows of up to kMostTaps taps.
Prepared DepthwiseOverPlanes(ConvDirection direction, const Window& window);

}  // namespace rivulet
