// One-dimensional and transposed convolutions composed of ops. Errors stick in the scope.
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

// How a window slides. Lists hold one entry per spatial axis; an empty one means all 1, or all {0, 0}.
struct WindowOptions {
  std::vector<int64_t> strides = {};
  std::vector<int64_t> dilations = {};
  std::string padding = "VALID";                           // SAME, VALID or EXPLICIT
  std::vector<std::pair<int64_t, int64_t>> paddings = {};  // before and after, of EXPLICIT
  std::string data_format = "NHWC";
};

// x [batch, length, in] (or [batch, in, length]), filter [width, in / groups, out]: ExpandDims, Conv2D, Squeeze.
Output Conv1D(const Scope& scope, Output x, Output filter, const WindowOptions& options = {},
              std::string_view name = "Conv1D");
// As Conv2D takes them; here for the sake of one set of options.
Output Conv2D(const Scope& scope, Output x, Output filter, const WindowOptions& options = {},
              std::string_view name = "Conv2D");

struct TransposeOptions {
  WindowOptions window = {};
  // Sizes of the result per spatial axis. Empty: (size - 1) · stride + reach of the window - paddings + output_padding;
  // with SAME size · stride.
  std::vector<int64_t> output_sizes = {};
  std::vector<int64_t> output_padding = {};  // more pixels at the end, each below its stride; not with output_sizes
  int64_t groups = 1;
};
// The transposed convolution (Keras' Conv2DTranspose, ONNX's ConvTranspose): Conv2DBackpropInput with the sizes above.
// x [batch, height, width, in], filter [height, width, out / groups, in]. Spatial sizes of x and of the filter must be
// known; the batch need not.
Output Conv2DTranspose(const Scope& scope, Output x, Output filter, const TransposeOptions& options = {},
                       std::string_view name = "Conv2DTranspose");

}  // namespace rivulet
