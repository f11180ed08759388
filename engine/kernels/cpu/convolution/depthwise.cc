#include "engine/kernels/cpu/convolution/depthwise.h"

#include "engine/kernels/cpu/convolution/depthwise_loops.h"
#include "engine/kernels/cpu/convolution/depthwise_plan.h"

namespace rivulet {

std::optional<Prepared> DepthwiseConvolution(ConvDirection direction, const Window& w) {
  if (w.groups != w.in_channels || w.out_channels != w.in_channels || w.in_elements() == 0 || w.out_elements() == 0)
    return std::nullopt;
  constexpr int64_t kFar = int64_t{1} << 20;
  if (w.stride_height > kFar || w.stride_width > kFar || w.height * w.dilation_height > 4 * (w.in_height + 64) ||
      w.width * w.dilation_width > 4 * (w.in_width + 64) || w.pad_top > 4 * (w.in_height + 64) ||
      w.pad_left > 4 * (w.in_width + 64) || w.pad_bottom > 4 * (w.in_height + 64) ||
      w.pad_right > 4 * (w.in_width + 64))
    return std::nullopt;
  Prepared prepared;
  if (w.nchw) {
    // Lines of each phase would mostly be padding; and all weights are in registers at once.
    if (w.stride_width > 8 || w.height * w.width > kMostTaps) return std::nullopt;
    prepared = DepthwiseOverPlanes(direction, w);
  } else {
    prepared.kernel = DepthwiseOverPixels(direction, w);
  }
  prepared.implementation = "hwy depthwise";
  prepared.flops = 2 * w.multiply_adds();
  return prepared;
}

}  // namespace rivulet
