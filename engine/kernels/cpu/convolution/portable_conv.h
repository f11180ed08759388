// Convolutions under KernelPolicy::portable: patches of the image become rows of a matrix, and the portable product
// multiplies them, so that all CPUs give the same bits.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// NHWC; inputs as in ConvDirection. nullopt for grouped convolutions, whose products would be too small.
template <typename T>
std::optional<Prepared> PortableConvolution(ConvDirection direction, const Window& window);

}  // namespace rivulet
