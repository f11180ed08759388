// The window of ONNX's convolutions and pools along one spatial axis.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/onnx/operator.h"

namespace rivulet::onnx {

struct Window {
  int64_t input = 1;  // kUnknownDim where the image's size is
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  // padding
  int64_t output = 1;             // kUnknownDim where the input is
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  // How far the last window reaches beyond the padding, with ceil_mode.
  int64_t beyond() const { return std::max<int64_t>(0, (output - 1) * stride + reach() - before - input - after); }
};

// From the attributes strides, dilations, pads, auto_pad and ceil_mode of a node whose image is `x` [batch, channels,
// spatial…]. INVALID_ARGUMENT: lists of another length, sizes below 1, a window larger than the padded image.
// FAILED_PRECONDITION: SAME padding or ceil_mode of an image of unknown size.
StatusOr<std::vector<Window>> WindowsOf(NodeContext& n, Output x, const std::vector<int64_t>& kernel);

}  // namespace rivulet::onnx
