// Conversion of the engine's windows to ONNX's attributes kernel_shape, strides, dilations, pads, auto_pad.
#pragma once

#include <string_view>
#include <vector>

#include "engine/graph/attr.h"
#include "engine/ops/window.h"

namespace rivulet::onnx {

// `padding` is the op's attribute; SAME over an image of unknown size is left to ONNX (SAME_UPPER).
inline AttrMap WindowAttributes(const std::vector<WindowAxis>& axes, std::string_view padding) {
  std::vector<int64_t> kernel, strides, dilations, before, after;
  bool known = true;
  for (const WindowAxis& axis : axes) {
    kernel.push_back(axis.window);
    strides.push_back(axis.stride);
    dilations.push_back(axis.dilation);
    before.push_back(axis.pad_before);
    after.push_back(axis.pad_after);
    known = known && axis.input != kUnknownDim;
  }
  AttrMap attrs = {{"kernel_shape", kernel}, {"strides", strides}};
  for (int64_t dilation : dilations)
    if (dilation != 1) attrs["dilations"] = dilations;
  if (padding == "SAME" && !known) {
    attrs["auto_pad"] = std::string("SAME_UPPER");
    return attrs;
  }
  before.insert(before.end(), after.begin(), after.end());
  attrs["pads"] = std::move(before);
  return attrs;
}

}  // namespace rivulet::onnx
