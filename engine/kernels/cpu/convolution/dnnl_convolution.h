// Two-dimensional convolutions by oneDNN, prepared once and shared by all threads. Filters are HWIO, as everywhere
// here; every run reorders them into scratch.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"
#include "engine/program/kernel.h"

namespace rivulet {

// Full, grouped and depthwise convolutions on NHWC or NCHW tensors (the latter reordered to NHWC in scratch: the same
// bits). nullopt if the library has no fast implementation for the shape on this CPU. All tensors are of `dtype`:
// kFloat32, or kBFloat16 with sums in float32.
std::optional<Prepared> DnnlConvolution(ConvDirection direction, const Window& window, DType dtype = DType::kFloat32);

}  // namespace rivulet
