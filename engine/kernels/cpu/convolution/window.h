// The geometry of two-dimensional windows (convolution, pooling) over NHWC images, from a node's attributes and shapes.
#pragma once

#include "engine/program/kernel.h"

namespace rivulet {

struct Window {
  int64_t batch = 0;
  int64_t in_height = 0, in_width = 0, in_channels = 0;
  int64_t out_height = 0, out_width = 0, out_channels = 0;
  int64_t height = 0, width = 0;  // of the window
  int64_t stride_height = 1, stride_width = 1;
  int64_t dilation_height = 1, dilation_width = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  int64_t groups = 1;  // of a convolution: each group of output channels depends only on its group of input channels
  bool nchw = false;   // the node's tensors are NCHW; the numbers above are independent of that

  int64_t in_elements() const { return batch * in_height * in_width * in_channels; }
  int64_t out_elements() const { return batch * out_height * out_width * out_channels; }
  int64_t group_in() const { return in_channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  // Filters are [height, width, group_in, out_channels]; depthwise [height, width, in, multiplier] are laid out alike.
  int64_t filter_elements() const { return height * width * group_in() * out_channels; }
  double multiply_adds() const {
    return static_cast<double>(out_elements()) * static_cast<double>(height * width * group_in());
  }
  // Returns true if each channel is convolved separately.
  bool depthwise() const { return groups > 1 && groups == in_channels; }
};

// For Conv2D and its gradients; `filter` is [height, width, in / groups, out], or [height, width, in, multiplier].
StatusOr<Window> ConvWindow(const NodeView& node, const Shape& input, const Shape& filter, const Shape& output,
                            bool depthwise_filter = false);

// Runs an NHWC kernel with `inputs` (at most 4) and one output on NCHW tensors: transposes the marked inputs into
// scratch, and its output back.
Prepared ForNchw(Prepared nhwc, std::span<const TensorSpec> inputs, const TensorSpec& output,
                 std::vector<bool> image_inputs, bool image_output);

}  // namespace rivulet
