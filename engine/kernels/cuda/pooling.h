// Arguments of pools of NHWC images and their gradients (pooling.cu).
#pragma once

#include "engine/kernels/cuda/divider.h"
#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// A window that slides along one axis.
struct PoolAxis {
  Divider input, output, stride;
  int32_t window, dilation, pad_before;
  int32_t counted_end;  // where pixels end that a mean counts: the image, or the padded image
  int32_t counted_begin;
};

// "max_pool_T" (image), "max_pool_grad_T" (image, pooled, gradient), "avg_pool_T" (image), "avg_pool_grad_T"
// (gradient).
struct PoolArguments {
  LaneSpan<const void> image, pooled, gradient;
  LaneSpan<void> y;
  int64_t count;  // of y
  PoolAxis height, width;
  Divider channels;
  int32_t of_relu;  // the image is Relu's output: what it held at zero gets no gradient
  Lanes lanes;
};

}  // namespace rivulet::gpu
