#include "engine/kernels/cpu/convolution/depthwise_plan.h"

#include <algorithm>

namespace rivulet {
namespace {

// Adds the pixel to the last run if it continues it, or else starts a new run.
void Append(std::vector<TapRun>& runs, size_t first, int64_t out, int64_t out_step, int64_t in_step,
            std::vector<TapRun::Tap> taps) {
  if (runs.size() > first) {
    TapRun& last = runs.back();
    bool same = last.taps.size() == taps.size();
    for (size_t i = 0; same && i < taps.size(); ++i)
      same = taps[i].k == last.taps[i].k && taps[i].in == last.taps[i].in + last.count * in_step;
    if (same) {
      ++last.count;
      return;
    }
  }
  runs.push_back({out, 1, out_step, in_step, std::move(taps)});
}

}  // namespace

std::vector<TapRun> ForwardRuns(const TapAxis& axis) {
  std::vector<TapRun> runs;
  for (int64_t out = 0; out < axis.out; ++out) {
    std::vector<TapRun::Tap> taps;
    for (int64_t k = 0; k < axis.window; ++k) {
      const int64_t in = out * axis.stride - axis.pad + k * axis.dilation;
      if (in >= 0 && in < axis.in) taps.push_back({in, k});
    }
    Append(runs, 0, out, 1, axis.stride, std::move(taps));
  }
  return runs;
}

std::vector<TapRun> BackwardRuns(const TapAxis& axis) {
  std::vector<TapRun> runs;
  for (int64_t phase = 0; phase < std::min(axis.stride, axis.in); ++phase) {
    const size_t first = runs.size();
    for (int64_t in = phase; in < axis.in; in += axis.stride) {
      std::vector<TapRun::Tap> taps;
      for (int64_t k = 0; k < axis.window; ++k) {
        const int64_t at = in + axis.pad - k * axis.dilation;
        if (at >= 0 && at % axis.stride == 0 && at / axis.stride < axis.out) taps.push_back({at / axis.stride, k});
      }
      Append(runs, first, in, axis.stride, 1, std::move(taps));
    }
  }
  return runs;
}

}  // namespace rivulet
