// The gradient of a convolution's image for windows with stride 1. It is itself a convolution of the result's gradient
// with the filter rotated by 180 degrees. Kernels without a backward direction use it.
#pragma once

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// The window of that convolution, which reads the gradient of `window`'s result and computes that of its image. Where
// `window`'s padding extends beyond its windows, the rotated window has negative padding.
Window RotatedWindow(const Window& window);

// The window that a kernel of `direction` convolves: `window`, or for the image's gradient RotatedWindow.
inline Window ConvolvedWindow(ConvDirection direction, const Window& window) {
  return direction == ConvDirection::kBackwardInput ? RotatedWindow(window) : window;
}

// Rotates a filter [y, x, in / groups, out], with `taps` = y · x, to [height-1-y, width-1-x, out / groups, in].
void RotateFilter(const float* filter, int64_t taps, int64_t in, int64_t out, int64_t groups, float* rotated);

}  // namespace rivulet
