#include "engine/kernels/cpu/convolution/rotated_filter.h"

#include <utility>

#include "engine/kernels/cpu/product/small_matmul.h"

namespace rivulet {

Window RotatedWindow(const Window& w) {
  const int64_t reach_height = (w.height - 1) * w.dilation_height + 1;
  const int64_t reach_width = (w.width - 1) * w.dilation_width + 1;
  Window rotated = w;
  std::swap(rotated.in_height, rotated.out_height);
  std::swap(rotated.in_width, rotated.out_width);
  std::swap(rotated.in_channels, rotated.out_channels);
  rotated.pad_top = reach_height - 1 - w.pad_top;
  rotated.pad_left = reach_width - 1 - w.pad_left;
  // Required by the window that ends at the last pixel.
  rotated.pad_bottom = rotated.out_height - 1 + reach_height - rotated.in_height - rotated.pad_top;
  rotated.pad_right = rotated.out_width - 1 + reach_width - rotated.in_width - rotated.pad_left;
  return rotated;
}

void RotateFilter(const float* filter, int64_t taps, int64_t in, int64_t out, int64_t groups, float* rotated) {
  const int64_t group_in = in / groups, group_out = out / groups;
  for (int64_t tap = 0; tap < taps; ++tap) {
    const float* from = filter + (taps - 1 - tap) * group_in * out;
    float* to = rotated + tap * group_out * in;
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
