#include "engine/kernels/cpu/convolution/pooling_plan.h"

#include <algorithm>

#include "engine/ops/window.h"

namespace rivulet {
namespace {

std::vector<PoolSpan> SpansOf(const WindowAxis& axis, bool count_padding) {
  std::vector<PoolSpan> spans;
  const auto taps_before = [&](int64_t distance) {  // taps k with k · dilation < distance
    return distance <= 0 ? 0 : std::min(axis.window, (distance - 1) / axis.dilation + 1);
  };
  for (int64_t out = 0; out < axis.output; ++out) {
    const int64_t start = out * axis.stride - axis.pad_before;
    const int64_t outside = taps_before(-start), inside = taps_before(axis.input - start);
    PoolSpan span;
    span.first = start + outside * axis.dilation;
    span.count = std::max<int64_t>(0, inside - outside);
    span.counted = count_padding ? taps_before(axis.input + axis.pad_after - start) : span.count;
    spans.push_back(span);
  }
  return spans;
}

}  // namespace

StatusOr<PoolPlan> MakePoolPlan(const NodeView& node, const Shape& input, const Shape& output) {
  RIVULET_ASSIGN_OR_RETURN(const ImageWindow window, PoolWindow(node.node.attrs(), input));
  const ImageLayout& layout = window.layout;
  Shape expected = input;
  expected.set_dim(layout.height, window.height.output);
  expected.set_dim(layout.width, window.width.output);
  if (output != expected)
    return InvalidArgument("a pool of {} gives {}, not {}", input.ToString(), expected.ToString(), output.ToString());
  const bool* include = node.node.FindAttr<bool>("_count_include_pad");
  // Only for a mean: a maximum needs an element.
  const bool count_padding = include != nullptr && *include && node.node.type().starts_with("AvgPool");
  PoolPlan plan;
  plan.batch = input.dim(layout.batch);
  plan.channels = input.dim(layout.channels);
  plan.in_height = input.dim(layout.height);
  plan.in_width = input.dim(layout.width);
  plan.out_height = window.height.output;
  plan.out_width = window.width.output;
  plan.step_height = window.height.dilation;
  plan.step_width = window.width.dilation;
  plan.nchw = layout.channels_first;
  if (plan.out_elements() == 0) return plan;
  plan.rows = SpansOf(window.height, count_padding);
  plan.columns = SpansOf(window.width, count_padding);
  for (const auto* spans : {&plan.rows, &plan.columns}) {
    for (const PoolSpan& span : *spans) {
      // The mean of counted padding is 0; a maximum of padding does not exist.
      if (span.count == 0 && !count_padding)
        return InvalidArgument("a window of {}x{} over {} is completely in the padding; pad less", window.height.window,
                               window.width.window, input.ToString());
    }
  }
  const auto tiles = [](const WindowAxis& axis) {
    return axis.window == axis.stride && axis.dilation == 1 && axis.input == axis.output * axis.window;
  };
  plan.tiles = tiles(window.height) && tiles(window.width);
  return plan;
}

}  // namespace rivulet
