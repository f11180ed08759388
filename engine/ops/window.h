// The geometry of a window that slides over an image: strides, dilations and padding as TensorFlow's convolutions and
// pools have them. Shared by their shape functions and their kernels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/attr.h"

namespace rivulet {

// One spatial axis.
struct WindowAxis {
  int64_t input = 0;
  int64_t output = 0;
  int64_t window = 1;  // size of the filter, undilated
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

// Output size and padding along one axis. `input` may be unknown (-1): then so is the output, and with SAME the padding
// is 0. `padding`: "SAME", "VALID", or "EXPLICIT" with pad_before and pad_after as given. INVALID_ARGUMENT: a stride,
// dilation or window below 1, or a window larger than the padded input.
StatusOr<WindowAxis> MakeWindowAxis(std::string_view name, int64_t input, int64_t window, int64_t stride,
                                    int64_t dilation, std::string_view padding, int64_t pad_before = 0,
                                    int64_t pad_after = 0);

struct ImageWindow {
  ImageLayout layout;
  WindowAxis height, width;
};

// The window of a convolution: attributes strides, padding, explicit_paddings, data_format, dilations; the image's
// shape of rank 4 (spatial sizes may be unknown) and the filter's [height, width, in, out].
StatusOr<ImageWindow> ConvolutionWindow(const AttrMap& attrs, const Shape& image, const Shape& filter);
// The window of a pool: attributes ksize, strides, padding, data_format and explicit_paddings; where TensorFlow's op
// has none of the latter, _explicit_paddings. Of our own, too, where they are given: _dilations (as strides), and
// _ceil_mode: a last window that does not fit wholly into the padded image counts, where it does not begin beyond the
// image.
StatusOr<ImageWindow> PoolWindow(const AttrMap& attrs, const Shape& image);

// What follows a fused convolution, in this order.
struct FusedOps {
  enum class Activation { kNone, kRelu, kRelu6 };
  bool bias = false;
  Activation activation = Activation::kNone;
  bool any() const { return bias || activation != Activation::kNone; }
};
// Attribute fused_ops. UNIMPLEMENTED for what is none of BiasAdd, Relu and Relu6, or in another order.
StatusOr<FusedOps> FusedOpsOf(const AttrMap& attrs);

}  // namespace rivulet
