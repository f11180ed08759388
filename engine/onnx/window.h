// The window of ONNX's convolutions and pools along one spatial axis.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/onnx/operator.h"

namespace rivulet::onnx {

struct Window {
  int64_t input = 1;  // kUnknownDim if the image's size is unknown
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  // padding
  int64_t output = 1;             // kUnknownDim if the input's size is unknown
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  // Returns how far the last window exceeds the padding, with ceil_mode.
  int64_t beyond() const { return std::max<int64_t>(0, (output - 1) * stride + reach() - before - input - after); }
};

// Returns windows from the attributes strides, dilations, pads, auto_pad and ceil_mode of a node with the image `x`
// [batch, channels, spatial…]. INVALID_ARGUMENT: lists of a wrong length, sizes below 1, a window larger than the
// padded image. FAILED_PRECONDITION: SAME padding or ceil_mode for an image of unknown size.
StatusOr<std::vector<Window>> WindowsOf(NodeContext& n, Output x, const std::vector<int64_t>& kernel);

}  // namespace rivulet::onnx
