// Mapping of a pool's windows to pixels along one axis, computed when a kernel is prepared.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/kernels/cpu/convolution/window.h"

namespace rivulet {

struct PoolSpan {
  int64_t first = 0;    // first pixel
  int64_t count = 0;    // pixels first, first + step, … inside the image
  int64_t counted = 0;  // divisor of the mean: those pixels, or those in the padded image too
};

struct PoolPlan {
  int64_t batch = 0, channels = 0;
  int64_t in_height = 0, in_width = 0, out_height = 0, out_width = 0;
  int64_t step_height = 1, step_width = 1;  // dilation
  std::vector<PoolSpan> rows, columns;      // per output pixel
  bool tiles = false;                       // every input pixel is in exactly one window
  bool nchw = false;
  int64_t in_elements() const { return batch * in_height * in_width * channels; }
  int64_t out_elements() const { return batch * out_height * out_width * channels; }
};

// Makes a plan from the attributes of MaxPool, AvgPool or their gradients. INVALID_ARGUMENT: shapes that do not match,
// or a window that is completely in the padding.
StatusOr<PoolPlan> MakePoolPlan(const NodeView& node, const Shape& input, const Shape& output);

enum class Pool { kMax, kMaxGrad, kMaxGradRelu, kMaxGradGrad, kAvg, kAvgGrad };

// MaxPool's kernel for NHWC images of float32.
Prepared MaxPoolOverPixels(PoolPlan plan);

// NCHW: one line of each plane at a time, with the same arithmetic on every machine.
template <typename T>
Prepared PoolOverPlanes(Pool pool, PoolPlan plan);

}  // namespace rivulet
