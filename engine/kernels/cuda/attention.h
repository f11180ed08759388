// Arguments of the rows of scaled dot-product attention (attention.cu); its products are matmul.cu's.
#pragma once

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// "attention_softmax_T": scores become probabilities in their place, and log_sum the logs of the sums of their
// exponentials. "attention_gradient_T": scores become probabilities again, and `gradients` (of the probabilities) those
// of the products. Rows of `keys` scores, of which a row's first `first_visible` + its time · `further` count.
struct AttentionArguments {
  LaneSpan<void> scores, gradients;
  LaneSpan<void> log_sum;                    // written
  LaneSpan<const void> log_sums;             // read
  LaneSpan<const void> output, output_grad;  // rows of `width`
  int32_t rows, time, keys, width;
  int32_t first_visible, further;
  double scale;
  Lanes lanes;
};

}  // namespace rivulet::gpu
