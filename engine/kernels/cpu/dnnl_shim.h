// All of oneDNN's interface that we use: convolutions and matrix products, prepared once and shared by all threads.
// Filters are HWIO, as everywhere here; they are reordered inside into scratch, in every run.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution.h"
#include "engine/program/kernel.h"

namespace rivulet {

// Full, grouped and depthwise convolutions on NHWC or NCHW tensors (the latter reordered to NHWC in scratch: the same
// bits). nullopt where the library has no fast implementation for the shape on this CPU. All tensors are of `dtype`:
// kFloat32, or kBFloat16 with sums in float32.
std::optional<Prepared> DnnlConvolution(ConvDirection direction, const Window& window, DType dtype = DType::kFloat32);

// Row-major C[m,n] = op(A)·op(B), inputs (A, B); op transposes the stored [k,m] or [n,k]. nullopt as above.
std::optional<Prepared> DnnlMatMul(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b,
                                   DType dtype = DType::kFloat32);

}  // namespace rivulet
