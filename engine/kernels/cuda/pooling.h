// Arguments of pools of NHWC images and their gradients (pooling.cu).
#pragma once

#include "engine/kernels/cuda/divider.h"
#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// A window that moves along one axis.
struct PoolAxis {
  Divider input, output, stride;
  int32_t window, dilation, pad_before;
  int32_t counted_end;  // end of the pixels that a mean counts: of the image, or of the padded image
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
  int32_t of_relu;  // nonzero: the image is Relu's output, and its zeros get no gradient
  Lanes lanes;
};

}  // namespace rivulet::gpu
