// Convolutions and pools that are put together from ops, for models and importers: one-dimensional and transposed
// convolutions, pools with the options of other frameworks, global pools. Errors stick in the scope.
//
//   Output y = Conv1D(scope, x, filter, {.strides = {2}, .padding = "EXPLICIT", .paddings = {{1, 0}}});
//   Output up = Conv2DTranspose(scope, x, filter, {.strides = {2, 2}, .padding = "SAME"});
//
// Images are [batch, spatial…, channels] with data_format "NHWC" and [batch, channels, spatial…] with "NCHW", with one
// spatial axis where the function says so. Filters are [spatial…, in / groups, out]: a transposed convolution's has its
// own output where the convolution it transposes has its input, as Conv2DBackpropInput does.
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
// Each channel by itself, filter [height, width, in, multiplier].
Output DepthwiseConv2D(const Scope& scope, Output x, Output filter, const WindowOptions& options = {},
                       std::string_view name = "DepthwiseConv2d");

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
// x [batch, length, in], filter [width, out / groups, in].
Output Conv1DTranspose(const Scope& scope, Output x, Output filter, const TransposeOptions& options = {},
                       std::string_view name = "Conv1DTranspose");

// Pools over two spatial axes, or over one: [batch, length, channels] or [batch, channels, length].
struct PoolWindowOptions {
  std::vector<int64_t> size;       // of the window, per spatial axis
  WindowOptions window = {};       // strides: an empty list means 1, as above, and not the size
  bool ceil_mode = false;          // a last window that sticks out beyond the padding counts too
  bool count_include_pad = false;  // of averages: over the window's part of the padded image
};
Output MaxPool2D(const Scope& scope, Output x, const PoolWindowOptions& options, std::string_view name = "MaxPool");
Output AvgPool2D(const Scope& scope, Output x, const PoolWindowOptions& options, std::string_view name = "AvgPool");
Output MaxPool1D(const Scope& scope, Output x, const PoolWindowOptions& options, std::string_view name = "MaxPool1D");
Output AvgPool1D(const Scope& scope, Output x, const PoolWindowOptions& options, std::string_view name = "AvgPool1D");

// Over all spatial axes of an image of any rank above 2, whose rank is known: [batch, channels], or with 1 for each
// spatial axis where `keep_dims`.
Output GlobalAveragePool(const Scope& scope, Output x, std::string_view data_format = "NHWC", bool keep_dims = false,
                         std::string_view name = "GlobalAveragePool");
Output GlobalMaxPool(const Scope& scope, Output x, std::string_view data_format = "NHWC", bool keep_dims = false,
                     std::string_view name = "GlobalMaxPool");

}  // namespace rivulet
