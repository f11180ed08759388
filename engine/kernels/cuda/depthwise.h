// Arguments of depthwise convolutions (depthwise.cu). Images are NHWC, filters [height, width, in, multiplier].
#pragma once

#include "engine/kernels/cuda/chunked_sums.h"
#include "engine/kernels/cuda/divider.h"

namespace rivulet::gpu {

struct DepthwiseArguments {
  LaneSpan<const void> a, b;  // image and filter; gradient and filter; image and gradient
  LaneSpan<void> y;           // unless the result comes from `sums`
  ChunkedSums sums;           // for the filter's gradient
  int64_t count;              // of y
  int32_t height, width;      // of the window
  int32_t pad_top, pad_left, step_height, step_width;
  Divider stride_height, stride_width, multiplier;
  Divider in_height, in_width, in_channels, out_height, out_width, out_channels;
  Lanes lanes;
};

}  // namespace rivulet::gpu
