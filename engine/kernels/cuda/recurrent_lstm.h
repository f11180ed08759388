// Arguments of the steps of an LSTM (recurrent_lstm.cu); matmul.cu computes the product of each step.
#pragma once

#include "engine/kernels/cuda/sequence_step.h"

namespace rivulet::gpu {

// "lstm_step_T": gates from the projection and the product with the previous states (null: they are zero), then cell
// and state.
struct LstmStepArguments {
  LaneSpan<const void> projection, product;
  LaneSpan<const void> h_before, c_before;  // null: zero
  LaneSpan<void> gates, cells, output, h, c;
  SequenceStep walk;
  Lanes lanes;
};

// "lstm_step_grad_T": `later` is the step whose product with the recurrent kernel is in `product`; out of range: none.
struct LstmGradArguments {
  LaneSpan<const void> h0, c0;                                         // null: zero
  LaneSpan<const void> output, gates, cells, output_grad, cells_grad;  // cells_grad may be null
  LaneSpan<const void> product;
  LaneSpan<void> projection_grad, previous, h_grad, c_grad;
  int32_t later;
  double cell_clip;  // 0: none
  SequenceStep walk;
  Lanes lanes;
};

}  // namespace rivulet::gpu
