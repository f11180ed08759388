#include "engine/kernels/cpu/turned_convolution.h"

#include <utility>

#include "engine/kernels/cpu/small_matmul.h"

namespace rivulet {

Window TurnedWindow(const Window& w) {
  const int64_t reach_height = (w.height - 1) * w.dilation_height + 1;
  const int64_t reach_width = (w.width - 1) * w.dilation_width + 1;
  Window turned = w;
  std::swap(turned.in_height, turned.out_height);
  std::swap(turned.in_width, turned.out_width);
  std::swap(turned.in_channels, turned.out_channels);
  turned.pad_top = reach_height - 1 - w.pad_top;
  turned.pad_left = reach_width - 1 - w.pad_left;
  // What the window that ends at the last pixel asks for.
  turned.pad_bottom = turned.out_height - 1 + reach_height - turned.in_height - turned.pad_top;
  turned.pad_right = turned.out_width - 1 + reach_width - turned.in_width - turned.pad_left;
  return turned;
}

void TurnFilter(const float* filter, int64_t taps, int64_t in, int64_t out, int64_t groups, float* turned) {
  const int64_t group_in = in / groups, group_out = out / groups;
  for (int64_t tap = 0; tap < taps; ++tap) {
    const float* from = filter + (taps - 1 - tap) * group_in * out;
    float* to = turned + tap * group_out * in;
    if (groups == 1) {
      TransposeMatrix(from, to, in, out);
      continue;
    }
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t i = 0; i < group_in; ++i) {
        for (int64_t o = 0; o < group_out; ++o)
          to[o * in + group * group_in + i] = from[i * out + group * group_out + o];
      }
    }
  }
}

}  // namespace rivulet
