// The geometry of a window that slides over an image: strides, dilations and padding as in TensorFlow's convolutions
// and pools. Shared by their shape functions and their kernels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/attr.h"

namespace rivulet {

// A window along one spatial axis.
struct WindowAxis {
  int64_t input = 0;
  int64_t output = 0;
  int64_t window = 1;  // size of the filter without dilation
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_before = 0;
  int64_t pad_after = 0;
};

// Positions of the axes N, H, W, C in "NHWC" or "NCHW".
struct ImageLayout {
  int batch = 0, height = 1, width = 2, channels = 3;
  bool channels_first = false;
  // INVALID_ARGUMENT for any other text.
  static StatusOr<ImageLayout> Parse(std::string_view data_format);
};

// Computes output size and padding along one axis. If `input` is unknown (-1), so is the output, and the padding for
// SAME is 0. `padding` is "SAME", "VALID", or "EXPLICIT" with the given pad_before and pad_after. INVALID_ARGUMENT: a
// stride, dilation or window below 1, or a window larger than the padded input.
StatusOr<WindowAxis> MakeWindowAxis(std::string_view name, int64_t input, int64_t window, int64_t stride,
                                    int64_t dilation, std::string_view padding, int64_t pad_before = 0,
                                    int64_t pad_after = 0);

struct ImageWindow {
  ImageLayout layout;
  WindowAxis height, width;
};

// Returns the window of a convolution from the attributes strides, padding, explicit_paddings, data_format, dilations.
// The image has rank 4 (spatial sizes may be unknown); the filter is [height, width, in, out].
StatusOr<ImageWindow> ConvolutionWindow(const AttrMap& attrs, const Shape& image, const Shape& filter);
// Returns the window of a pool from the attributes ksize, strides, padding, data_format and explicit_paddings, or
// _explicit_paddings if TensorFlow's op lacks the former. Rivulet's additional attributes: _dilations (in the format of
// strides), and _ceil_mode, with which a last window counts that exceeds the padded image but does not begin beyond the
// image.
StatusOr<ImageWindow> PoolWindow(const AttrMap& attrs, const Shape& image);

// The ops that follow a fused convolution, in this order.
struct FusedOps {
  enum class Activation { kNone, kRelu, kRelu6 };
  bool bias = false;
  Activation activation = Activation::kNone;
  bool any() const { return bias || activation != Activation::kNone; }
};
// Reads the attribute fused_ops. UNIMPLEMENTED: ops other than BiasAdd, Relu and Relu6, or another order.
StatusOr<FusedOps> FusedOpsOf(const AttrMap& attrs);

}  // namespace rivulet
