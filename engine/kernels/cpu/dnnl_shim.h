// All of oneDNN's interface that we use: convolutions and matrix products, prepared once and shared by all threads.
// Activations are NHWC and filters HWIO, as everywhere here; filters are reordered inside into scratch, in every run.
#pragma once

#include <optional>

#include "engine/kernels/cpu/window.h"
#include "engine/program/kernel.h"

namespace rivulet {

enum class ConvDirection { kForward, kBackwardInput, kBackwardFilter };

// The kernel's inputs: forward (image, filter [, bias]), backward input (filter, output gradient), backward filter
// (image, output gradient). nullopt where the library has no fast implementation for the shape on this CPU.
std::optional<Prepared> DnnlConvolution(ConvDirection direction, const Window& window, bool bias_and_relu = false);

// Row-major C[m,n] = op(A)·op(B), inputs (A, B); op transposes the stored [k,m] or [n,k]. nullopt as above.
std::optional<Prepared> DnnlMatMul(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b);

}  // namespace rivulet
