// Direct convolutions over NHWC for float32, where oneDNN has nothing fast: few input channels (the first layer), other
// CPUs. An output row's pixels are the rows of a register block, a row of the window its depth.
#pragma once

#include <optional>

#include "engine/kernels/cpu/dnnl_shim.h"
#include "engine/kernels/cpu/window.h"

namespace rivulet {

// Inputs as DnnlConvolution's. nullopt for dilated windows, and for the gradient of the input where windows stride.
std::optional<Prepared> DirectConvolution(ConvDirection direction, const Window& window);

}  // namespace rivulet
