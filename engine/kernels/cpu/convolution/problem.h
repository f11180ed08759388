// One convolution problem of a node: geometry, tensors, and the fused ops after it.
#pragma once

#include <array>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

// The tensors are those that a kernel sees, in ConvDirection's order.
struct ConvolutionProblem {
  ConvDirection direction;
  Window window;
  std::array<TensorSpec, 2> inputs;
  TensorSpec output;
  FusedOps fused = {};
};

// An NHWC kernel for the problem's layout.
Prepared InLayout(Prepared nhwc, const ConvolutionProblem& problem);

}  // namespace rivulet
