// The gradient of a convolution's image for windows of stride 1. It is itself a convolution of the result's gradient
// with the filter rotated by 180 degrees. Kernels that can only convolve use it.
#pragma once

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// The window of that convolution, which reads the gradient of `window`'s result and makes that of its image. Where
// `window`'s padding reaches beyond its windows, the other's padding is below 0 there.
Window RotatedWindow(const Window& window);

// What a kernel of `direction` convolves: what `window` says, or for the image's gradient RotatedWindow.
inline Window ConvolvedWindow(ConvDirection direction, const Window& window) {
  return direction == ConvDirection::kBackwardInput ? RotatedWindow(window) : window;
}

// Its filter: `filter` [y, x, in / groups, out], of `taps` = y · x, as [height-1-y, width-1-x, out / groups, in].
void RotateFilter(const float* filter, int64_t taps, int64_t in, int64_t out, int64_t groups, float* rotated);

}  // namespace rivulet
