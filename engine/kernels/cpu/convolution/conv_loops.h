// Convolutions by plain loops over NHWC, in one fixed order of sums on every machine: the portable kernel, float64, and
// what nothing faster serves.
#pragma once

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

template <typename T>
Prepared ConvolutionByLoops(ConvDirection direction, const Window& window);

}  // namespace rivulet
