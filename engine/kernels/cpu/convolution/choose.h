// Choice of a convolution's algorithm: by type, direction and shape alone, with fixed thresholds, so that it is the
// same on every machine with the same instruction sets. The table in README.md lists the algorithms.
#pragma once

#include "engine/kernels/cpu/convolution/problem.h"

namespace rivulet {

// The kernel for `problem`, including bias and activation. T: float, double or bfloat16. UNIMPLEMENTED for bfloat16 if
// this CPU is slow for the shape: the node then runs in float32.
template <typename T>
StatusOr<Prepared> ChooseConvolution(const ConvolutionProblem& problem, const KernelPolicy& policy);
template <>
StatusOr<Prepared> ChooseConvolution<bfloat16>(const ConvolutionProblem& problem, const KernelPolicy& policy);

// The kernel of ChooseConvolution<float> followed by a max pool of 2×2 pixels, with the bits of both.
StatusOr<Prepared> ChoosePooledConvolution(const ConvolutionProblem& problem, const KernelPolicy& policy);

// Returns true if an algorithm is faster than the others for a shape that it can compute.
bool PaysToInterleave(ConvDirection direction, const Window& window);
bool PaysPlanar(ConvDirection direction, const Window& window);
bool PaysWinograd(ConvDirection direction, const Window& window);
// For the matrix unit: number of tile products, and length of each, in `pixels` of 16 filters by 32 terms.
bool PaysToTile(ConvDirection direction, const Window& window, double products, double pixels);

}  // namespace rivulet
