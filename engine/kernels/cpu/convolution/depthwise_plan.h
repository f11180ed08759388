// Mapping of a window's taps to pixels along one axis, computed when a kernel is prepared, so that runs need no bounds
// checks.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/kernels/cpu/convolution/window.h"

namespace rivulet {

// Pixels out, out + out_step, … (`count` of them) with the same taps; tap i of the first pixel reads source pixel
// taps[i].in, and each further pixel reads in_step further.
struct TapRun {
  struct Tap {
    int64_t in = 0;
    int64_t k = 0;  // position in the window
  };
  int64_t out = 0, count = 0;
  int64_t out_step = 1, in_step = 1;
  std::vector<Tap> taps;  // by ascending k; empty if the window has no pixels
};

struct TapAxis {
  int64_t in = 0, out = 0, window = 1, stride = 1, dilation = 1, pad = 0;
};

inline TapAxis RowAxis(const Window& w) {
  return {w.in_height, w.out_height, w.height, w.stride_height, w.dilation_height, w.pad_top};
}
inline TapAxis ColumnAxis(const Window& w) {
  return {w.in_width, w.out_width, w.width, w.stride_width, w.dilation_width, w.pad_left};
}

constexpr int kMostTaps = 64;   // taps summed before a result is written; larger windows add to it
constexpr int kFilterTaps = 9;  // taps whose gradients are summed at once, in registers

// For each output pixel: the input pixels in its window.
std::vector<TapRun> ForwardRuns(const TapAxis& axis);
// For each input pixel: the output pixels whose windows contain it. `out` counts input pixels, `in` output pixels.
std::vector<TapRun> BackwardRuns(const TapAxis& axis);

}  // namespace rivulet
