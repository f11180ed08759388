// The depthwise convolutions of both layouts that depthwise.cc chooses from, each with all three directions.
#pragma once

#include <memory>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// NHWC (depthwise_pixels.cc). Needs no scratch.
std::unique_ptr<const Kernel> DepthwiseOverPixels(ConvDirection direction, const Window& window);
// NCHW (depthwise_planes.cc): windows of up to kMostTaps taps.
Prepared DepthwiseOverPlanes(ConvDirection direction, const Window& window);

}  // namespace rivulet
