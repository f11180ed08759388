// Convolutions under KernelPolicy::portable: patches of the image become rows of a matrix, and the portable product
// multiplies them, so that all CPUs give the same bits.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// NHWC; inputs as ConvDirection says. nullopt for grouped convolutions, whose products would be too thin to pay.
template <typename T>
std::optional<Prepared> PortableConvolution(ConvDirection direction, const Window& window);

}  // namespace rivulet
