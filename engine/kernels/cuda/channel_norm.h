// Arguments of normalisations by channel statistics: batch norm, and group norm example by example (channel_norm.cu).
// Tensors are viewed as [examples, rows, channels, inner]; inner is 1 if channels are last; batch norm has one example.
#pragma once

#include "engine/kernels/cuda/chunked_sums.h"
#include "engine/kernels/cuda/divider.h"

namespace rivulet::gpu {

struct ChannelShape {
  int32_t examples;
  Divider channels, rows, inner, group_size;  // group_size: channels per group
};

// "channel_sums_T": for each (example, channel) the sums of x and of x² or, if there is a gradient, of dy and of dy ·
// (x - mean); there is a mean per (example, group).
struct ChannelSumsArguments {
  LaneSpan<const void> x, dy, mean;  // dy null: sums of x
  ChannelShape shape;
  ChunkedSums sums;
  Lanes lanes;
};

// "batch_norm_statistics_T", "batch_norm_gradients_T": results from the sums, with a thread per channel.
struct BatchNormArguments {
  LaneSpan<const double> sums;  // [2, channels]
  LaneSpan<const void> scale, mean_in, variance_in;
  LaneSpan<void> average_mean, average_variance, mean, variance;  // forward
  LaneSpan<void> scale_grad, offset_grad, reserve3, reserve4;     // backward
  LaneSpan<void> factor, q, r;                                    // [channels], for the pass that follows
  int32_t channels;
  double count, epsilon, average_factor;
  int32_t training;
  Lanes lanes;
};

// "group_norm_statistics_T", "group_norm_gradients_T": results from the sums, with a thread per (example, group).
// "group_norm_parameters_T": with a thread per channel.
struct GroupNormArguments {
  LaneSpan<const double> sums;  // [2, examples, channels]
  LaneSpan<const void> scale, mean_in, inverse_in;
  LaneSpan<void> mean, inverse;            // [examples, groups]
  LaneSpan<void> q, r;                     // [examples, groups]
  LaneSpan<void> scale_grad, offset_grad;  // [channels]
  int32_t examples, channels, groups, group_size;
  double count, epsilon;  // count: elements per group
  Lanes lanes;
};

// "channel_normalize_T": y = (x - mean) · factor + offset; "channel_gradient_T": dx = (dy · scale - q - (x - mean) · r)
// · factor. mean, q and r are per (example, group); factor too, or per channel; scale and offset per channel. A null
// scale is 1, null q and r are 0 (and x is not read); `times_scale`: factor is first multiplied by scale.
struct ChannelWalkArguments {
  LaneSpan<const void> x, dy, mean, factor, scale, offset, q, r;
  LaneSpan<void> y;
  int64_t count;
  ChannelShape shape;
  int32_t times_scale;
  Lanes lanes;
};

}  // namespace rivulet::gpu
