// Helpers for convolutions and pools of random shapes: a window that moves over images in one of two layouts.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/attr.h"

namespace rivulet::testing {

// One spatial axis: sizes, and the padding before and after it.
struct WindowAxis {
  int64_t in, out, window, stride, dilation, before, after;
};

struct WindowProblem {
  std::string padding;
  bool nchw = false;  // else NHWC
  int64_t batch = 0;
  WindowAxis y = {}, x = {};

  Shape Image(int64_t height, int64_t width, int64_t channels) const {
    return nchw ? Shape({batch, channels, height, width}) : Shape({batch, height, width, channels});
  }
  // Returns the flat index into an image of this layout.
  size_t At(int64_t b, int64_t row, int64_t column, int64_t channel, int64_t height, int64_t width,
            int64_t channels) const {
    return static_cast<size_t>(nchw ? ((b * channels + channel) * height + row) * width + column
                                    : ((b * height + row) * width + column) * channels + channel);
  }
  // Returns an attribute with one number per axis.
  std::vector<int64_t> ByAxis(int64_t at_y, int64_t at_x) const {
    return nchw ? std::vector<int64_t>{1, 1, at_y, at_x} : std::vector<int64_t>{1, at_y, at_x, 1};
  }
  // Strides, padding and layout: the attributes common to all windowed ops.
  AttrMap WindowAttrs() const {
    AttrMap attrs = {{"strides", ByAxis(y.stride, x.stride)},
                     {"padding", padding},
                     {"data_format", std::string(nchw ? "NCHW" : "NHWC")}};
    if (padding == "EXPLICIT") {
      attrs["explicit_paddings"] = nchw ? std::vector<int64_t>{0, 0, 0, 0, y.before, y.after, x.before, x.after}
                                        : std::vector<int64_t>{0, 0, y.before, y.after, x.before, x.after, 0, 0};
    }
    return attrs;
  }
  std::string AxisNames() const {
    const auto axis = [](const WindowAxis& a) {
      return fmt::format("{}-{}>{} s{} d{} p{},{}", a.in, a.window, a.out, a.stride, a.dilation, a.before, a.after);
    };
    return axis(y) + "; " + axis(x);
  }
};

}  // namespace rivulet::testing
