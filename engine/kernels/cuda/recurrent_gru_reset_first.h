// Arguments of the steps of a GRU with the reset gate before the candidate's product (recurrent_gru_reset_first.cu).
#pragma once

#include "engine/kernels/cuda/sequence_step.h"

namespace rivulet::gpu {

// "gru_gates_T": z, r and the reset states. `product` is the previous states times the gates' two parts of the
// recurrent kernel; null if the states are zero.
struct GruGatesArguments {
  LaneSpan<const void> projection, product;
  LaneSpan<const void> bias;      // [3 · units]; null: none
  LaneSpan<const void> h_before;  // null: zero
  LaneSpan<void> gates, reset;
  SequenceStep walk;
  Lanes lanes;
};

// "gru_candidate_T": the rest of the step. `product` is the
// reset states times the candidate's part of the kernel.
struct GruCandidateArguments {
  LaneSpan<const void> projection, product, bias, h_before;
  LaneSpan<void> gates, output, h;
  SequenceStep walk;
  Lanes lanes;
};

// "gru_candidate_grad_T": gradients of z and the candidate. `product` is the gradient of the states from the gates of
// step `later`; out of range: none yet. "gru_reset_grad_T": gradient of r; `product` is the gradient from this step's
// candidate.
struct GruResetFirstGradArguments {
  LaneSpan<const void> h0;  // null: zero
  LaneSpan<const void> output, gates, output_grad, product;
  LaneSpan<void> projection_grad, previous, h_grad;
  int32_t later;
  SequenceStep walk;
  Lanes lanes;
};

}  // namespace rivulet::gpu
