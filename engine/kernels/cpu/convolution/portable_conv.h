// Convolutions under KernelPolicy::portable: patches of the image are copied into the rows of a matrix, and the
// portable product does the rest, so that the bits are those of any CPU.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// NHWC; inputs as ConvDirection says. nullopt for grouped convolutions, whose products would be too thin to pay.
template <typename T>
std::optional<Prepared> PortableConvolution(ConvDirection direction, const Window& window);

}  // namespace rivulet
