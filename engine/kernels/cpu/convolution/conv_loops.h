// Convolutions by plain loops over NHWC, in one fixed order of sums on every machine. They serve the portable policy,
// float64, and shapes that no faster kernel supports.
#pragma once

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

template <typename T>
Prepared ConvolutionByLoops(ConvDirection direction, const Window& window);

}  // namespace rivulet
