// Arguments of the steps of the simple recurrent layer (recurrent_simple.cu).
#pragma once

#include "engine/kernels/cuda/sequence_step.h"

namespace rivulet::gpu {

enum SimpleActivation : int32_t { kSimpleTanh = 0, kSimpleRelu = 1, kSimpleSigmoid = 2 };

// "simple_step_T": `product` is the previous states times the recurrent kernel; null if the states are zero.
struct SimpleStepArguments {
  LaneSpan<const void> projection, product;
  LaneSpan<const void> h_before;  // null: zero
  LaneSpan<void> output, h;
  int32_t activation;
  SequenceStep walk;
  Lanes lanes;
};

// "simple_step_grad_T": `later` is the step whose product with the recurrent kernel is in `product`; out of range: none
// yet.
struct SimpleGradArguments {
  LaneSpan<const void> h0;  // null: zero
  LaneSpan<const void> output, output_grad, product;
  LaneSpan<void> projection_grad, previous, h_grad;
  int32_t activation;
  int32_t later;
  SequenceStep walk;
  Lanes lanes;
};

}  // namespace rivulet::gpu
