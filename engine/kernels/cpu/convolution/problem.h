// The convolution problem of a node: geometry, tensors, and the fused ops after it.
#pragma once

#include <array>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// The tensors are the kernel's, in the order of ConvDirection.
struct ConvolutionProblem {
  ConvDirection direction;
  Window window;
  std::array<TensorSpec, 2> inputs;
  TensorSpec output;
  FusedOps fused = {};
};

// Adapts an NHWC kernel to the problem's layout.
Prepared InLayout(Prepared nhwc, const ConvolutionProblem& problem);

}  // namespace rivulet
