// One-dimensional and transposed convolutions composed of ops. Errors are kept in the scope.
//
//   Output y = Conv1D(scope, x, filter, {.strides = {2}, .padding = "EXPLICIT", .paddings = {{1, 0}}});
//   Output up = Conv2DTranspose(scope, x, filter, {.strides = {2, 2}, .padding = "SAME"});
//
// Images are [batch, spatial…, channels] with data_format "NHWC" and [batch, channels, spatial…] with "NCHW", with one
// spatial axis in the functions named so. Filters are [spatial…, in / groups, out]. The output axis of a transposed
// convolution's filter is in the place of the input axis of the convolution it transposes, as in Conv2DBackpropInput.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/graph/scope.h"

namespace rivulet {

// Steps and padding of a window. Lists have one entry per spatial axis; an empty list means all 1, or all {0, 0}.
struct WindowOptions {
  std::vector<int64_t> strides = {};
  std::vector<int64_t> dilations = {};
  std::string padding = "VALID";                           // SAME, VALID or EXPLICIT
  std::vector<std::pair<int64_t, int64_t>> paddings = {};  // before and after, for EXPLICIT
  std::string data_format = "NHWC";
};

// x [batch, length, in] (or [batch, in, length]), filter [width, in / groups, out]: ExpandDims, Conv2D, Squeeze.
Output Conv1D(const Scope& scope, Output x, Output filter, const WindowOptions& options = {},
              std::string_view name = "Conv1D");
// Builds the op Conv2D, for callers that use the same options.
Output Conv2D(const Scope& scope, Output x, Output filter, const WindowOptions& options = {},
              std::string_view name = "Conv2D");

struct TransposeOptions {
  WindowOptions window = {};
  // Sizes of the result per spatial axis. Empty: (size - 1) · stride + extent of the window - paddings +
  // output_padding; with SAME size · stride.
  std::vector<int64_t> output_sizes = {};
  std::vector<int64_t> output_padding = {};  // more pixels at the end, each below its stride; not with output_sizes
  int64_t groups = 1;
};
// Builds a transposed convolution (Keras' Conv2DTranspose, ONNX's ConvTranspose): Conv2DBackpropInput with the sizes
// above. x is [batch, height, width, in], filter [height, width, out / groups, in]. Spatial sizes of x and of the
// filter must be known; the batch size need not be.
Output Conv2DTranspose(const Scope& scope, Output x, Output filter, const TransposeOptions& options = {},
                       std::string_view name = "Conv2DTranspose");

}  // namespace rivulet
