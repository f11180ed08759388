// Arguments of the steps of a GRU whose reset gate comes before the candidate's product (recurrent_gru_reset_first.cu).
#pragma once

#include "engine/kernels/cuda/sequence_step.h"

namespace rivulet::gpu {

// "gru_gates_T": z, r and the states after their reset. The product is that of the states before with the gates' two
// parts of the recurrent kernel; null where they were zero.
struct GruGatesArguments {
  LaneSpan<const void> projection, product;
  LaneSpan<const void> bias;      // [3 · units]; null: none
  LaneSpan<const void> h_before;  // null: zero
  LaneSpan<void> gates, reset;
  SequenceStep walk;
  Lanes lanes;
};

// "gru_candidate_T": the rest of the step. The product is that of the states after their reset with the candidate's
// part.
struct GruCandidateArguments {
  LaneSpan<const void> projection, product, bias, h_before;
  LaneSpan<void> gates, output, h;
  SequenceStep walk;
  Lanes lanes;
};

// "gru_candidate_grad_T": gradients of z and the candidate. `product` is what the gates of step `later` gave back to
// the states; outside: nothing yet. "gru_reset_grad_T": that of r; `product` is what the candidate of this step gave
// back.
struct GruResetFirstGradArguments {
  LaneSpan<const void> h0;  // null: zero
  LaneSpan<const void> output, gates, output_grad, product;
  LaneSpan<void> projection_grad, previous, h_grad;
  int32_t later;
  SequenceStep walk;
  Lanes lanes;
};

}  // namespace rivulet::gpu
