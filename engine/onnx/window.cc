#include "engine/onnx/window.h"

#include <algorithm>

namespace rivulet::onnx {

StatusOr<std::vector<Window>> WindowsOf(NodeContext& n, Output x, const std::vector<int64_t>& kernel) {
  const size_t axes = kernel.size();
  const auto list = [&](std::string_view name, size_t size, int64_t otherwise) {
    return n.has_attr(name) ? n.Ints(name) : std::vector<int64_t>(size, otherwise);
  };
  const std::vector<int64_t> strides = list("strides", axes, 1), dilations = list("dilations", axes, 1),
                             pads = list("pads", 2 * axes, 0);
  if (strides.size() != axes || dilations.size() != axes || pads.size() != 2 * axes)
    return InvalidArgument("strides, dilations or pads ({}, {}, {} numbers) are not for {} spatial axes",
                           strides.size(), dilations.size(), pads.size(), axes);
  const std::string auto_pad = n.String("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty())
    return InvalidArgument("auto_pad is '{}'", auto_pad);
  const bool ceil = n.Flag("ceil_mode", false);
  std::vector<Window> windows;
  for (size_t i = 0; i < axes; ++i) {
    constexpr int64_t limit = int64_t{1} << 24;
    for (int64_t value : {kernel[i], strides[i], dilations[i]})
      if (value < 1 || value > limit) return InvalidArgument("a window, stride or dilation of {}", value);
    for (int64_t value : {pads[i], pads[i + axes]})
      if (value < 0 || value > (1 << 16)) return InvalidArgument("a padding of {}, not 0 to 65536", value);
    Window window;
    window.input = DimOf(x, static_cast<int>(i) + 2);
    window.kernel = kernel[i];
    window.stride = strides[i];
    window.dilation = dilations[i];
    if (auto_pad == "NOTSET" || auto_pad.empty()) {
      window.before = pads[i];
      window.after = pads[i + axes];
    }
    if (window.input == kUnknownDim) {
      if (same || ceil) return FailedPrecondition("the image's sizes must be known, not {}", ShapeOf(x).ToString());
      window.output = kUnknownDim;
      windows.push_back(window);
      continue;
    }
    if (same) {
      window.output = window.input / window.stride + (window.input % window.stride != 0);
      const int64_t total = std::max<int64_t>(0, (window.output - 1) * window.stride + window.reach() - window.input);
      window.before = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      window.after = total - window.before;
    } else {
      const int64_t free = window.input + window.before + window.after - window.reach();
      if (free < 0 && !(ceil && free > -window.stride))
        return InvalidArgument("a window that reaches over {} is larger than the padded image's {}", window.reach(),
                               window.input + window.before + window.after);
      window.output = (free >= 0 ? free / window.stride : -1) + 1;
      if (ceil) {
        window.output = (free + window.stride - 1) / window.stride + 1;
        // The last window starts inside the image or its padding before.
        if ((window.output - 1) * window.stride >= window.input + window.before) --window.output;
      }
    }
    windows.push_back(window);
  }
  return windows;
}

}  // namespace rivulet::onnx
