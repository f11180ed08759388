// Arguments of the steps of a GRU with the reset gate after the product (recurrent_gru.cu).
#pragma once

#include "engine/kernels/cuda/sequence_step.h"

namespace rivulet::gpu {

// "gru_step_T": `product` is the previous states times the recurrent kernel; null if the states are zero.
struct GruStepArguments {
  LaneSpan<const void> projection, product;
  LaneSpan<const void> bias;      // [3 · units]; null: none
  LaneSpan<const void> h_before;  // null: zero
  LaneSpan<void> gates, output, h;
  SequenceStep walk;
  Lanes lanes;
};

// "gru_step_grad_T": `later` is the step whose product with the recurrent kernel is in `product`; out of range: none.
struct GruGradArguments {
  LaneSpan<const void> h0;  // null: zero
  LaneSpan<const void> output, gates, output_grad, product;
  LaneSpan<void> projection_grad, recurrent_grad, previous, h_grad;
  int32_t later;
  SequenceStep walk;
  Lanes lanes;
};

}  // namespace rivulet::gpu
