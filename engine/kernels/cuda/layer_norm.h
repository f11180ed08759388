// Arguments of LayerNorm and RmsNorm: rows of `width` elements (layer_norm.cu).
#pragma once

#include "engine/kernels/cuda/chunked_sums.h"
#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// "layer_norm_T" (x, scale, offset; y, mean, inverse), "layer_norm_grad_T" (dy, x, scale, mean, inverse; y is dx) and
// "layer_norm_parameters_T" (dy, x, mean, inverse; sums for the gradients of scale and offset). Without a mean
// (`centered` 0) it is RmsNorm, which has no offset either.
struct LayerNormArguments {
  LaneSpan<const void> dy, x, scale, offset, mean_in, inverse_in;
  LaneSpan<void> y, mean, inverse;
  ChunkedSums sums;
  int32_t rows, width, centered;
  double epsilon;
  Lanes lanes;
};

}  // namespace rivulet::gpu
