// Arguments of the row kernels of scaled dot-product attention (attention.cu); matmul.cu computes its products.
#pragma once

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// A mask that is added to scores, or that states the visible keys. Strides count elements, 0 along broadcast axes.
struct AttentionMask {
  LaneSpan<const void> data;
  int32_t is_bool;
  int32_t given;
  int32_t batch, head, row, key;
  int32_t heads;
};

// "attention_softmax_T": replaces scores by probabilities, and writes the logs of the sums of their exponentials to
// log_sum. "attention_gradient_T": replaces scores by probabilities again, and `gradients` (of the probabilities) by
// those of the products; `of_mask`, if not null, gets them without scale and softcap. Rows have `keys` scores, of which
// the first `first_visible` + the row's time · `further` count.
struct AttentionArguments {
  LaneSpan<void> scores, gradients, of_mask;
  LaneSpan<void> log_sum;                    // written
  LaneSpan<const void> log_sums;             // read
  LaneSpan<const void> output, output_grad;  // rows of `width`
  int32_t rows, time, keys, width;
  int32_t first_visible, further;
  double scale;
  double softcap;  // 0: none
  AttentionMask mask;
  Lanes lanes;
};

// "attention_mask_gradient_T": each element of the mask's gradient is the sum over the scores that it was added to, by
// example, head, query and key. Scores that a query may not see are zeros.
struct AttentionMaskGradientArguments {
  LaneSpan<const void> of_mask;
  LaneSpan<void> gradient;
  int32_t elements;
  int32_t dims[4];   // the mask's dimensions, with ones in front
  int32_t sizes[4];  // batch, heads, time, keys
  Lanes lanes;
};

}  // namespace rivulet::gpu
