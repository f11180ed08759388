// Choice of the algorithm of a convolution: by type, direction and shape alone, from fixed thresholds, so that it is
// the same on every machine with the same instruction sets. The table in README.md lists the algorithms.
#pragma once

#include "engine/kernels/cpu/convolution/problem.h"

namespace rivulet {

// The kernel of `problem`, bias and activation included. T: float, double or bfloat16. UNIMPLEMENTED for bfloat16 where
// this CPU is not fast at the shape: the node runs through float32.
template <typename T>
StatusOr<Prepared> ChooseConvolution(const ConvolutionProblem& problem, const KernelPolicy& policy);
template <>
StatusOr<Prepared> ChooseConvolution<bfloat16>(const ConvolutionProblem& problem, const KernelPolicy& policy);

// The kernel of ChooseConvolution<float> with a max pool of 2×2 pixels after it, so that the bits are those of both.
StatusOr<Prepared> ChoosePooledConvolution(const ConvolutionProblem& problem, const KernelPolicy& policy);

// Whether an algorithm is faster than the others for a shape that it can compute.
bool PaysToInterleave(ConvDirection direction, const Window& window);
bool PaysPlanar(ConvDirection direction, const Window& window);
bool PaysWinograd(ConvDirection direction, const Window& window);
// Of the matrix unit: `products` of tiles, each as long as `pixels` of 16 filters by 32 terms.
bool PaysToTile(ConvDirection direction, const Window& window, double products, double pixels);

}  // namespace rivulet
