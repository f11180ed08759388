// Arguments of the row kernels of scaled dot-product attention (attention.cu); its products are matmul.cu's.
#pragma once

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// What is added to scores, or says which keys may be seen. Strides count elements, 0 along what it broadcasts.
struct AttentionMask {
  LaneSpan<const void> data;
  int32_t is_bool;
  int32_t given;
  int32_t batch, head, row, key;
  int32_t heads;
};

// "attention_softmax_T": scores become probabilities in their place, and log_sum the logs of the sums of their
// exponentials. "attention_gradient_T": scores become probabilities again, and `gradients` (of the probabilities) those
// of the products, with `of_mask`, where it is not null, what they are without scale and softcap. Rows of `keys`
// scores, of which a row's first `first_visible` + its time · `further` count.
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

// "attention_mask_gradient_T": each element of the mask's gradient is the sum of what it was added to, by example,
// head, query and key. Scores beyond what a query may see by its place are zeros.
struct AttentionMaskGradientArguments {
  LaneSpan<const void> of_mask;
  LaneSpan<void> gradient;
  int32_t elements;
  int32_t dims[4];   // the mask's, filled with ones in front
  int32_t sizes[4];  // batch, heads, time, keys
  Lanes lanes;
};

}  // namespace rivulet::gpu
