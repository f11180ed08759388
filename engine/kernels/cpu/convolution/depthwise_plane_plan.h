// Plan for the traversal of NCHW planes in a depthwise convolution, computed when its kernel is prepared. Rows of a
// plane are copied into a ring of padded rows in scratch. The columns of each phase of the stride are adjacent there,
// so that the pixels under one tap of neighbouring windows are adjacent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/kernels/cpu/convolution/convolution.h"
#include "engine/program/memory_plan.h"

namespace rivulet {

struct PlaneTap {
  int64_t row = 0;     // padded row, relative to a window's first
  int64_t column = 0;  // elements from the start of a padded row
  int64_t filter = 0;  // offset of the weight of channel 0
};
struct PlanePlan {
  int64_t planes, channels, height, width;  // of the padded image
  int64_t phases;                           // of columns
  int64_t pad_top, pad_left;
  int64_t line;                   // elements of one phase of a padded row
  int64_t ring;                   // rows
  int64_t out_height, out_width;  // of the other image
  int64_t stride_height, pad_result;
  std::vector<PlaneTap> taps;  // forward and filter
  // Backward input: the result's rows and columns belong to phases, each with its own taps.
  struct Columns {
    int64_t first, step, count;  // pixels first, first + step, …
    std::vector<PlaneTap> taps;  // for the first of them
  };
  struct Rows {
    int64_t rest;  // rows j · stride + rest - padding
    std::vector<Columns> columns;
  };
  std::vector<Rows> row_phases;

  int64_t row() const { return phases * line; }
  size_t ring_bytes() const { return RoundUp64(static_cast<size_t>(ring * row()) * sizeof(float)); }
  size_t lines_bytes() const { return 2 * static_cast<size_t>(line) * sizeof(float); }  // bytes of two lines of a phase
};

// For every direction; the filter's gradient has the forward plan. Backward, the result's gradient is padded.
PlanePlan PlanePlanOf(ConvDirection direction, const Window& window);

}  // namespace rivulet
