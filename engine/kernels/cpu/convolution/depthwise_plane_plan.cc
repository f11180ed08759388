#include "engine/kernels/cpu/convolution/depthwise_plane_plan.h"

#include <algorithm>
#include <utility>

#include "engine/kernels/cpu/convolution/depthwise_plan.h"

namespace rivulet {
namespace {

constexpr int64_t kSlack = 68;  // elements after a line; vectors read beyond it by less than their length

// The phases of an input axis: pixels j · stride + rest - padding for one rest. Offsets count from pixel j of a
// gradient that is padded with `before` zeros.
struct AxisPhase {
  int64_t rest, first, count;  // pixels first, first + stride, …
  int64_t j;                   // of the first pixel
  struct Tap {
    int64_t at, k;
  };
  std::vector<Tap> taps;
};
std::vector<AxisPhase> PhasesOf(const TapAxis& axis, int64_t before) {
  std::vector<AxisPhase> phases;
  for (int64_t rest = 0; rest < axis.stride; ++rest) {
    AxisPhase phase;
    phase.rest = rest;
    phase.j = (std::max<int64_t>(0, axis.pad - rest) + axis.stride - 1) / axis.stride;
    phase.first = phase.j * axis.stride + rest - axis.pad;
    phase.count = phase.first >= axis.in ? 0 : (axis.in - 1 - phase.first) / axis.stride + 1;
    for (int64_t k = 0; k < axis.window; ++k) {
      const int64_t back = k * axis.dilation - rest;
      if (back % axis.stride == 0) phase.taps.push_back({before - back / axis.stride, k});
    }
    if (phase.count > 0) phases.push_back(std::move(phase));
  }
  return phases;
}

}  // namespace

PlanePlan PlanePlanOf(ConvDirection direction, const Window& w) {
  const int64_t reach_height = (w.height - 1) * w.dilation_height + 1;
  const int64_t reach_width = (w.width - 1) * w.dilation_width + 1;
  PlanePlan plan;
  plan.planes = w.batch * w.in_channels;
  plan.channels = w.in_channels;
  plan.stride_height = w.stride_height;
  plan.pad_result = w.pad_top;
  if (direction == ConvDirection::kBackwardInput) {
    plan.height = w.out_height;
    plan.width = w.out_width;
    plan.out_height = w.in_height;
    plan.out_width = w.in_width;
    plan.phases = 1;
    plan.pad_top = (reach_height - 1) / w.stride_height;
    plan.pad_left = (reach_width - 1) / w.stride_width;
    plan.ring = plan.pad_top + 1;
    plan.line = plan.pad_left + (w.in_width - 1 + w.pad_left) / w.stride_width + 1 + kSlack;
    const std::vector<AxisPhase> columns = PhasesOf(ColumnAxis(w), plan.pad_left);
    for (const AxisPhase& y : PhasesOf(RowAxis(w), plan.pad_top)) {
      PlanePlan::Rows rows{y.rest, {}};
      for (const AxisPhase& x : columns) {
        PlanePlan::Columns made{x.first, w.stride_width, x.count, {}};
        for (const auto& tap_y : y.taps) {
          for (const auto& tap_x : x.taps)
            made.taps.push_back({tap_y.at, x.j + tap_x.at, (tap_y.k * w.width + tap_x.k) * w.in_channels});
        }
        rows.columns.push_back(std::move(made));
      }
      plan.row_phases.push_back(std::move(rows));
    }
  } else {
    plan.height = w.in_height;
    plan.width = w.in_width;
    plan.out_height = w.out_height;
    plan.out_width = w.out_width;
    plan.phases = w.stride_width;
    plan.pad_top = w.pad_top;
    plan.pad_left = w.pad_left;
    plan.ring = reach_height;
    plan.line = w.out_width + (reach_width - 1) / w.stride_width + 1 + kSlack;
    for (int64_t y = 0; y < w.height; ++y) {
      for (int64_t x = 0; x < w.width; ++x) {
        const int64_t column = x * w.dilation_width;
        plan.taps.push_back({y * w.dilation_height, column % plan.phases * plan.line + column / plan.phases,
                             (y * w.width + x) * w.in_channels});
      }
    }
  }
  return plan;
}

}  // namespace rivulet
