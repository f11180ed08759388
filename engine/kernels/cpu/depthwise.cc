#include "engine/kernels/cpu/depthwise.h"

#include <algorithm>
#include <array>

#include "engine/kernels/cpu/depthwise_plan.h"
#include "engine/program/memory_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/depthwise.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/tail-inl.h"
// clang-format on

#ifndef RIVULET_DEPTHWISE_ONCE
#define RIVULET_DEPTHWISE_ONCE
namespace rivulet {

// Offsets in elements of what a tap reads and of its weight.
struct DepthwiseTap {
  int64_t in, filter;
};
constexpr int kMostTaps = 64;  // that are summed before a result is written; larger windows add to it

// NHWC: the result's rows and columns, each with the taps that meet it.
struct PixelPlan {
  int64_t batch, channels, window_width;
  int64_t in_width, in_image;    // of the image that is read, in pixels
  int64_t out_width, out_image;  // of the result
  std::vector<TapRun> rows, columns;
};

// NCHW: planes are copied into scratch, padded and with the columns of each phase of the stride side by side, so that
// the pixels under one tap of neighbouring windows are neighbours.
struct PlanePlan {
  int64_t planes, channels, height, width;  // of what is padded
  int64_t phases;                           // of columns
  int64_t pad_top, pad_left, padded_height;
  int64_t line;  // elements of one phase of a padded row
  int64_t row() const { return phases * line; }
  size_t padded_bytes() const { return RoundUp64(static_cast<size_t>(padded_height * row()) * sizeof(float)); }
  int64_t out_height, out_width;  // of the other image
  int64_t stride_height;
  int64_t window;                  // taps
  std::vector<DepthwiseTap> taps;  // forward and filter: all of them, .in within the padded plane
  // Backward input: rows and columns of the result.
  struct Phase {
    int64_t first, step, count;      // result pixels first, first + step, …
    int64_t source;                  // padded pixel of the first, before a tap's offset
    std::vector<DepthwiseTap> taps;  // .in: offset along the axis; .filter: position in the window
  };
  std::vector<Phase> row_phases, column_phases;
  int64_t window_width;
};

}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#ifndef RIVULET_UNROLL
#define RIVULET_UNROLL _Pragma("GCC unroll 16")
#endif

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

template <bool kTail>
HWY_INLINE V LoadMaybe(D d, const float* at, size_t tail) {
  if constexpr (kTail) return LoadTail(d, at, tail);
  return hn::LoadU(d, at);
}
template <bool kTail>
HWY_INLINE void StoreMaybe(V v, D d, float* at, size_t tail) {
  if constexpr (kTail) return StoreTail(v, d, at, tail);
  hn::StoreU(v, d, at);
}

// P pixels' vector of channels.
template <int P, bool kTail>
HWY_INLINE void Pixels(const DepthwiseTap* taps, int count, const float* in, int64_t in_step, const float* filter,
                       float* out, int64_t out_step, bool add, size_t tail) {
  const D d;
  V sum[P];
  RIVULET_UNROLL
  for (int p = 0; p < P; ++p) sum[p] = add ? LoadMaybe<kTail>(d, out + p * out_step, tail) : hn::Zero(d);
  for (int t = 0; t < count; ++t) {
    const V weight = LoadMaybe<kTail>(d, filter + taps[t].filter, tail);
    const float* at = in + taps[t].in;
    RIVULET_UNROLL
    for (int p = 0; p < P; ++p) sum[p] = hn::MulAdd(weight, LoadMaybe<kTail>(d, at + p * in_step, tail), sum[p]);
  }
  RIVULET_UNROLL
  for (int p = 0; p < P; ++p) StoreMaybe<kTail>(sum[p], d, out + p * out_step, tail);
}

template <bool kTail>
HWY_INLINE void PixelRun(const DepthwiseTap* taps, int count, const float* in, int64_t in_step, const float* filter,
                         float* out, int64_t out_step, int64_t pixels, bool add, size_t tail) {
  int64_t p = 0;
  for (; p + 8 <= pixels; p += 8)
    Pixels<8, kTail>(taps, count, in + p * in_step, in_step, filter, out + p * out_step, out_step, add, tail);
  if (p + 4 <= pixels) {
    Pixels<4, kTail>(taps, count, in + p * in_step, in_step, filter, out + p * out_step, out_step, add, tail);
    p += 4;
  }
  for (; p < pixels; ++p)
    Pixels<1, kTail>(taps, count, in + p * in_step, in_step, filter, out + p * out_step, out_step, add, tail);
}

// Calls f(taps, how many) for the taps of a row and a run of columns, at most `most` at a time, and once when there are
// none.
template <class F>
HWY_INLINE void ForEachTapChunk(const PixelPlan& plan, const TapRun& row, const TapRun& run, int most, F f) {
  DepthwiseTap taps[kMostTaps];
  int count = 0;
  bool any = false;
  for (const TapRun::Tap& y : row.taps) {
    for (const TapRun::Tap& x : run.taps) {
      if (count == most) {
        f(taps, count, any);
        any = true;
        count = 0;
      }
      taps[count++] = {(y.in * plan.in_width + x.in) * plan.channels, (y.k * plan.window_width + x.k) * plan.channels};
    }
  }
  if (count > 0 || !any) f(taps, count, any);
}

void DepthwisePixels(const PixelPlan& plan, const float* in, const float* filter, float* out) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), channels = plan.channels;
  for (int64_t image = 0; image < plan.batch; ++image) {
    for (const TapRun& rows : plan.rows) {
      for (int64_t y = 0; y < rows.count; ++y) {
        const float* in_row = in + y * rows.in_step * plan.in_width * channels;
        float* out_row = out + (rows.out + y * rows.out_step) * plan.out_width * channels;
        for (const TapRun& run : plan.columns) {
          ForEachTapChunk(plan, rows, run, kMostTaps, [&](const DepthwiseTap* taps, int count, bool add) HWY_ATTR {
            float* at = out_row + run.out * channels;
            const int64_t in_step = run.in_step * channels, out_step = run.out_step * channels;
            int64_t c = 0;
            for (; c + lanes <= channels; c += lanes)
              PixelRun<false>(taps, count, in_row + c, in_step, filter + c, at + c, out_step, run.count, add, 0);
            if (c < channels)
              PixelRun<true>(taps, count, in_row + c, in_step, filter + c, at + c, out_step, run.count, add,
                             static_cast<size_t>(channels - c));
          });
        }
      }
    }
    in += plan.in_image * channels;
    out += plan.out_image * channels;
  }
}

// Sums over a run of pixels for T taps at once, in registers.
template <int T, bool kTail>
HWY_INLINE void FilterRun(const DepthwiseTap* taps, const float* in, int64_t in_step, const float* gradient,
                          int64_t gradient_step, int64_t pixels, float* result, size_t tail) {
  const D d;
  V sum[T];
  RIVULET_UNROLL
  for (int t = 0; t < T; ++t) sum[t] = hn::Zero(d);
  for (int64_t p = 0; p < pixels; ++p) {
    const V g = LoadMaybe<kTail>(d, gradient + p * gradient_step, tail);
    const float* at = in + p * in_step;
    RIVULET_UNROLL
    for (int t = 0; t < T; ++t) sum[t] = hn::MulAdd(g, LoadMaybe<kTail>(d, at + taps[t].in, tail), sum[t]);
  }
  RIVULET_UNROLL
  for (int t = 0; t < T; ++t) {
    float* at = result + taps[t].filter;
    StoreMaybe<kTail>(hn::Add(LoadMaybe<kTail>(d, at, tail), sum[t]), d, at, tail);
  }
}

constexpr int kFilterTaps = 9;
using FilterRunFn = void (*)(const DepthwiseTap*, const float*, int64_t, const float*, int64_t, int64_t, float*,
                             size_t);
template <bool kTail, int... T>
HWY_INLINE FilterRunFn FilterRunTable(int taps, std::integer_sequence<int, T...>) {
  static constexpr FilterRunFn kTable[] = {&FilterRun<T + 1, kTail>...};
  return kTable[taps - 1];
}

// The plan is the forward one: `gradient` lies as its result does.
void DepthwisePixelFilter(const PixelPlan& plan, const float* in, const float* gradient, float* result, int64_t size) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), channels = plan.channels;
  std::fill_n(result, size, 0.0f);
  constexpr auto kSequence = std::make_integer_sequence<int, kFilterTaps>();
  for (int64_t image = 0; image < plan.batch; ++image) {
    for (const TapRun& rows : plan.rows) {
      for (int64_t y = 0; y < rows.count; ++y) {
        const float* in_row = in + y * rows.in_step * plan.in_width * channels;
        const float* gradient_row = gradient + (rows.out + y * rows.out_step) * plan.out_width * channels;
        for (const TapRun& run : plan.columns) {
          ForEachTapChunk(plan, rows, run, kFilterTaps, [&](const DepthwiseTap* taps, int count, bool) HWY_ATTR {
            if (count == 0) return;
            const float* at = gradient_row + run.out * channels;
            const int64_t in_step = run.in_step * channels, step = run.out_step * channels;
            const FilterRunFn whole = FilterRunTable<false>(count, kSequence);
            int64_t c = 0;
            for (; c + lanes <= channels; c += lanes)
              whole(taps, in_row + c, in_step, at + c, step, run.count, result + c, 0);
            if (c < channels)
              FilterRunTable<true>(count, kSequence)(taps, in_row + c, in_step, at + c, step, run.count, result + c,
                                                     static_cast<size_t>(channels - c));
          });
        }
      }
    }
    in += plan.in_image * channels;
    gradient += plan.out_image * channels;
  }
}

// `padded` was zeroed before; only the inside changes from plane to plane.
HWY_INLINE void CopyPlane(const PlanePlan& plan, const float* plane, float* padded) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t rows = std::min(plan.height, plan.padded_height - plan.pad_top);
  const int64_t columns = std::min(plan.width, plan.phases * plan.line - plan.pad_left);
  for (int64_t y = 0; y < rows; ++y) {
    const float* from = plane + y * plan.width;
    float* to = padded + (plan.pad_top + y) * plan.row();
    if (plan.phases == 1) {
      std::copy_n(from, columns, to + plan.pad_left);
      continue;
    }
    int64_t x = 0;
    if (plan.phases == 2) {
      // Column x goes to phase (x + pad) mod 2; `odd` starts in phase 1.
      const int64_t odd = plan.pad_left % 2;
      float* even_to = to + odd * plan.line + plan.pad_left / 2;
      float* odd_to = to + (1 - odd) * plan.line + (plan.pad_left + 1) / 2;
      for (; x + 2 * lanes <= columns; x += 2 * lanes) {
        V even, uneven;
        hn::LoadInterleaved2(d, from + x, even, uneven);
        hn::StoreU(even, d, even_to + x / 2);
        hn::StoreU(uneven, d, odd_to + x / 2);
      }
    }
    for (; x < columns; ++x) {
      const int64_t at = x + plan.pad_left;
      to[at % plan.phases * plan.line + at / plan.phases] = from[x];
    }
  }
}

// `count` neighbouring sums, from padded rows to a row of results.
template <int P>
HWY_INLINE void Sums(const DepthwiseTap* taps, const V* weights, int count, const float* in, float* out, bool add,
                     int64_t rest) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[P];
  RIVULET_UNROLL
  for (int p = 0; p < P; ++p) {
    const int64_t left = rest - p * lanes;
    if (!add)
      sum[p] = hn::Zero(d);
    else
      sum[p] = left >= lanes ? hn::LoadU(d, out + p * lanes) : LoadTail(d, out + p * lanes, static_cast<size_t>(left));
  }
  for (int t = 0; t < count; ++t) {
    const float* at = in + taps[t].in;
    RIVULET_UNROLL
    for (int p = 0; p < P; ++p) sum[p] = hn::MulAdd(weights[t], hn::LoadU(d, at + p * lanes), sum[p]);
  }
  RIVULET_UNROLL
  for (int p = 0; p < P; ++p) {
    const int64_t left = rest - p * lanes;
    if (left >= lanes)
      hn::StoreU(sum[p], d, out + p * lanes);
    else
      StoreTail(sum[p], d, out + p * lanes, static_cast<size_t>(left));
  }
}

HWY_INLINE void SumRow(const DepthwiseTap* taps, const V* weights, int count, const float* in, float* out, bool add,
                       int64_t pixels) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t x = 0;
  for (; x + 4 * lanes <= pixels; x += 4 * lanes) Sums<4>(taps, weights, count, in + x, out + x, add, 4 * lanes);
  const int64_t vectors = (pixels - x + lanes - 1) / lanes;
  if (vectors == 4) Sums<4>(taps, weights, count, in + x, out + x, add, pixels - x);
  if (vectors == 3) Sums<3>(taps, weights, count, in + x, out + x, add, pixels - x);
  if (vectors == 2) Sums<2>(taps, weights, count, in + x, out + x, add, pixels - x);
  if (vectors == 1) Sums<1>(taps, weights, count, in + x, out + x, add, pixels - x);
}

void DepthwisePlanes(const PlanePlan& plan, const float* in, const float* filter, float* out, float* padded) {
  const D d;
  std::fill_n(padded, plan.padded_height * plan.row(), 0.0f);
  for (int64_t plane = 0; plane < plan.planes; ++plane) {
    CopyPlane(plan, in + plane * plan.height * plan.width, padded);
    const int64_t channel = plane % plan.channels;
    for (int64_t first = 0; first < plan.window; first += kMostTaps) {
      const int count = static_cast<int>(std::min<int64_t>(kMostTaps, plan.window - first));
      const DepthwiseTap* taps = plan.taps.data() + first;
      V weights[kMostTaps];
      for (int t = 0; t < count; ++t) weights[t] = hn::Set(d, filter[taps[t].filter + channel]);
      for (int64_t y = 0; y < plan.out_height; ++y)
        SumRow(taps, weights, count, padded + y * plan.stride_height * plan.row(), out + y * plan.out_width, first > 0,
               plan.out_width);
    }
    out += plan.out_height * plan.out_width;
  }
}

// What is padded is the gradient; rows and columns of the result fall into phases, each under its own taps. `lines`
// holds a line of one phase.
void DepthwisePlanesBack(const PlanePlan& plan, const float* gradient, const float* filter, float* out, float* padded,
                         float* lines) {
  const D d;
  const size_t column_phases = plan.column_phases.size();
  std::fill_n(padded, plan.padded_height * plan.row(), 0.0f);
  for (int64_t plane = 0; plane < plan.planes; ++plane, out += plan.out_height * plan.out_width) {
    CopyPlane(plan, gradient + plane * plan.height * plan.width, padded);
    const float* weights_of = filter + plane % plan.channels;
    for (const PlanePlan::Phase& rows : plan.row_phases) {
      for (size_t phase = 0; phase < column_phases; ++phase) {
        // One phase of rows and columns at a time, so that its weights are spread once; with stride 1 there is one.
        const PlanePlan::Phase& columns = plan.column_phases[phase];
        DepthwiseTap taps[kMostTaps];
        V weights[kMostTaps];
        int count = 0;
        bool add = false;
        const auto flush = [&]() HWY_ATTR {
          for (int64_t y = 0; y < rows.count; ++y) {
            const float* from = padded + (rows.source + y) * plan.line + columns.source;
            float* row = out + (rows.first + y * rows.step) * plan.out_width;
            if (columns.step == 1) {
              SumRow(taps, weights, count, from, row + columns.first, add, columns.count);
              continue;
            }
            SumRow(taps, weights, count, from, lines, false, columns.count);
            float* to = row + columns.first;
            if (add) {
              for (int64_t x = 0; x < columns.count; ++x) to[x * columns.step] += lines[x];
            } else {
              for (int64_t x = 0; x < columns.count; ++x) to[x * columns.step] = lines[x];
            }
          }
          add = true;
          count = 0;
        };
        for (const DepthwiseTap& y : rows.taps) {
          for (const DepthwiseTap& x : columns.taps) {
            if (count == kMostTaps) flush();
            taps[count] = {y.in * plan.line + x.in, 0};
            weights[count++] = hn::Set(d, weights_of[(y.filter * plan.window_width + x.filter) * plan.channels]);
          }
        }
        if (count > 0 || !add) flush();
      }
    }
  }
}

// The same where two phases of columns alternate and a phase's taps fit: rows are written whole. `lines` holds two.
void DepthwisePlanesBackByTwo(const PlanePlan& plan, const float* gradient, const float* filter, float* out,
                              float* padded, float* lines) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // The phase that begins at pixel 0 comes first.
  const size_t zero = plan.column_phases[0].first == 0 ? 0 : 1;
  const PlanePlan::Phase* phases[2] = {&plan.column_phases[zero], &plan.column_phases[1 - zero]};
  std::fill_n(padded, plan.padded_height * plan.row(), 0.0f);
  for (int64_t plane = 0; plane < plan.planes; ++plane, out += plan.out_height * plan.out_width) {
    CopyPlane(plan, gradient + plane * plan.height * plan.width, padded);
    const float* weights_of = filter + plane % plan.channels;
    for (const PlanePlan::Phase& rows : plan.row_phases) {
      DepthwiseTap taps[2][kMostTaps];
      V weights[2][kMostTaps];
      int count[2] = {0, 0};
      for (int phase = 0; phase < 2; ++phase) {
        for (const DepthwiseTap& y : rows.taps) {
          for (const DepthwiseTap& x : phases[phase]->taps) {
            taps[phase][count[phase]] = {y.in * plan.line + x.in, 0};
            weights[phase][count[phase]++] =
                hn::Set(d, weights_of[(y.filter * plan.window_width + x.filter) * plan.channels]);
          }
        }
      }
      for (int64_t y = 0; y < rows.count; ++y) {
        for (int phase = 0; phase < 2; ++phase) {
          SumRow(taps[phase], weights[phase], count[phase],
                 padded + (rows.source + y) * plan.line + phases[phase]->source, lines + phase * plan.line, false,
                 phases[phase]->count);
        }
        float* row = out + (rows.first + y * rows.step) * plan.out_width;
        const float *even = lines, *odd = lines + plan.line;
        int64_t x = 0;
        for (; 2 * (x + lanes) <= plan.out_width; x += lanes)
          hn::StoreInterleaved2(hn::LoadU(d, even + x), hn::LoadU(d, odd + x), d, row + 2 * x);
        for (x *= 2; x < plan.out_width; ++x) row[x] = x % 2 == 0 ? even[x / 2] : odd[x / 2];
      }
    }
  }
}

template <int T>
HWY_INLINE void FilterPlane(const PlanePlan& plan, const DepthwiseTap* taps, const float* padded, const float* gradient,
                            float* result) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[T];
  RIVULET_UNROLL
  for (int t = 0; t < T; ++t) sum[t] = hn::Zero(d);
  for (int64_t y = 0; y < plan.out_height; ++y, gradient += plan.out_width) {
    const float* row = padded + y * plan.stride_height * plan.row();
    int64_t x = 0;
    for (; x + lanes <= plan.out_width; x += lanes) {
      const V g = hn::LoadU(d, gradient + x);
      RIVULET_UNROLL
      for (int t = 0; t < T; ++t) sum[t] = hn::MulAdd(g, hn::LoadU(d, row + taps[t].in + x), sum[t]);
    }
    if (x < plan.out_width) {
      const size_t rest = static_cast<size_t>(plan.out_width - x);
      const V g = LoadTail(d, gradient + x, rest);
      RIVULET_UNROLL
      for (int t = 0; t < T; ++t) sum[t] = hn::MulAdd(g, LoadTail(d, row + taps[t].in + x, rest), sum[t]);
    }
  }
  RIVULET_UNROLL
  for (int t = 0; t < T; ++t) result[taps[t].filter] += hn::GetLane(hn::SumOfLanes(d, sum[t]));
}

using FilterPlaneFn = void (*)(const PlanePlan&, const DepthwiseTap*, const float*, const float*, float*);
template <int... T>
HWY_INLINE FilterPlaneFn FilterPlaneTable(int taps, std::integer_sequence<int, T...>) {
  static constexpr FilterPlaneFn kTable[] = {&FilterPlane<T + 1>...};
  return kTable[taps - 1];
}

void DepthwisePlaneFilter(const PlanePlan& plan, const float* in, const float* gradient, float* result, float* padded) {
  std::fill_n(result, plan.window * plan.channels, 0.0f);
  std::fill_n(padded, plan.padded_height * plan.row(), 0.0f);
  for (int64_t plane = 0; plane < plan.planes; ++plane) {
    CopyPlane(plan, in + plane * plan.height * plan.width, padded);
    for (int64_t first = 0; first < plan.window; first += kFilterTaps) {
      const int count = static_cast<int>(std::min<int64_t>(kFilterTaps, plan.window - first));
      FilterPlaneTable(count, std::make_integer_sequence<int, kFilterTaps>())(plan, plan.taps.data() + first, padded,
                                                                              gradient, result + plane % plan.channels);
    }
    gradient += plan.out_height * plan.out_width;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(DepthwisePixels);
HWY_EXPORT(DepthwisePixelFilter);
HWY_EXPORT(DepthwisePlanes);
HWY_EXPORT(DepthwisePlanesBack);
HWY_EXPORT(DepthwisePlanesBackByTwo);
HWY_EXPORT(DepthwisePlaneFilter);

class PixelKernel final : public Kernel {
 public:
  PixelKernel(ConvDirection direction, PixelPlan plan, int64_t filter_size)
      : direction_(direction), plan_(std::move(plan)), filter_size_(filter_size) {}
  Status Run(const KernelContext& context) const override {
    const float* first = reinterpret_cast<const float*>(context.inputs[0]);
    const float* second = reinterpret_cast<const float*>(context.inputs[1]);
    float* result = reinterpret_cast<float*>(context.outputs[0]);
    switch (direction_) {
      case ConvDirection::kForward:
        HWY_DYNAMIC_DISPATCH(DepthwisePixels)(plan_, first, second, result);
        break;
      case ConvDirection::kBackwardInput:
        HWY_DYNAMIC_DISPATCH(DepthwisePixels)(plan_, second, first, result);
        break;
      case ConvDirection::kBackwardFilter:
        HWY_DYNAMIC_DISPATCH(DepthwisePixelFilter)(plan_, first, second, result, filter_size_);
        break;
    }
    return {};
  }

 private:
  ConvDirection direction_;
  PixelPlan plan_;
  int64_t filter_size_;
};

class PlaneKernel final : public Kernel {
 public:
  PlaneKernel(ConvDirection direction, PlanePlan plan) : direction_(direction), plan_(std::move(plan)) {}
  Status Run(const KernelContext& context) const override {
    const float* first = reinterpret_cast<const float*>(context.inputs[0]);
    const float* second = reinterpret_cast<const float*>(context.inputs[1]);
    float* result = reinterpret_cast<float*>(context.outputs[0]);
    float* padded = reinterpret_cast<float*>(context.scratch);
    switch (direction_) {
      case ConvDirection::kForward:
        HWY_DYNAMIC_DISPATCH(DepthwisePlanes)(plan_, first, second, result, padded);
        break;
      case ConvDirection::kBackwardInput:
        RunBack(second, first, result, padded, reinterpret_cast<float*>(context.scratch + plan_.padded_bytes()));
        break;
      case ConvDirection::kBackwardFilter:
        HWY_DYNAMIC_DISPATCH(DepthwisePlaneFilter)(plan_, first, second, result, padded);
        break;
    }
    return {};
  }

 private:
  void RunBack(const float* gradient, const float* filter, float* result, float* padded, float* lines) const {
    const auto& columns = plan_.column_phases;
    const bool by_two = columns.size() == 2 && columns[0].step == 2 && plan_.window <= kMostTaps;
    by_two ? HWY_DYNAMIC_DISPATCH(DepthwisePlanesBackByTwo)(plan_, gradient, filter, result, padded, lines)
           : HWY_DYNAMIC_DISPATCH(DepthwisePlanesBack)(plan_, gradient, filter, result, padded, lines);
  }
  ConvDirection direction_;
  PlanePlan plan_;
};

TapAxis Rows(const Window& w) {
  return {w.in_height, w.out_height, w.height, w.stride_height, w.dilation_height, w.pad_top};
}
TapAxis Columns(const Window& w) {
  return {w.in_width, w.out_width, w.width, w.stride_width, w.dilation_width, w.pad_left};
}

std::unique_ptr<const Kernel> OverPixels(ConvDirection direction, const Window& w) {
  PixelPlan plan;
  plan.batch = w.batch;
  plan.channels = w.in_channels;
  plan.window_width = w.width;
  plan.in_width = w.in_width;
  plan.in_image = w.in_height * w.in_width;
  plan.out_width = w.out_width;
  plan.out_image = w.out_height * w.out_width;
  if (direction == ConvDirection::kBackwardInput) {
    std::swap(plan.in_width, plan.out_width);
    std::swap(plan.in_image, plan.out_image);
    plan.rows = BackwardRuns(Rows(w));
    plan.columns = BackwardRuns(Columns(w));
  } else {
    plan.rows = ForwardRuns(Rows(w));
    plan.columns = ForwardRuns(Columns(w));
  }
  return std::make_unique<PixelKernel>(direction, std::move(plan), w.filter_elements());
}

constexpr int64_t kSlack = 64 + HWY_MAX_BYTES / sizeof(float);  // what whole vectors may read beyond a line

// The phases of an input axis: pixels whose positions (counted with the padding) leave the same rest. Padded gradients
// begin with `before` zeros.
std::vector<PlanePlan::Phase> PhasesOf(const TapAxis& axis, int64_t before) {
  std::vector<PlanePlan::Phase> phases;
  for (int64_t rest = 0; rest < axis.stride; ++rest) {
    // Pixel i = j · stride + rest - pad.
    const int64_t least = std::max<int64_t>(0, axis.pad - rest);
    const int64_t j = (least + axis.stride - 1) / axis.stride;
    PlanePlan::Phase phase;
    phase.first = j * axis.stride + rest - axis.pad;
    phase.step = axis.stride;
    phase.count = phase.first >= axis.in ? 0 : (axis.in - 1 - phase.first) / axis.stride + 1;
    phase.source = j + before;
    for (int64_t k = 0; k < axis.window; ++k) {
      const int64_t back = k * axis.dilation - rest;
      if (back % axis.stride == 0) phase.taps.push_back({-back / axis.stride, k});
    }
    if (phase.count > 0) phases.push_back(std::move(phase));
  }
  return phases;
}

Prepared OverPlanes(ConvDirection direction, const Window& w) {
  const TapAxis rows = Rows(w), columns = Columns(w);
  const int64_t reach_height = (w.height - 1) * w.dilation_height + 1;
  const int64_t reach_width = (w.width - 1) * w.dilation_width + 1;
  PlanePlan plan;
  plan.planes = w.batch * w.in_channels;
  plan.channels = w.in_channels;
  plan.window = w.height * w.width;
  plan.window_width = w.width;
  plan.stride_height = w.stride_height;
  Prepared prepared;
  if (direction == ConvDirection::kBackwardInput) {
    plan.height = w.out_height;
    plan.width = w.out_width;
    plan.out_height = w.in_height;
    plan.out_width = w.in_width;
    plan.phases = 1;
    plan.pad_top = (reach_height - 1) / w.stride_height;
    plan.pad_left = (reach_width - 1) / w.stride_width;
    plan.padded_height = plan.pad_top + (w.in_height - 1 + w.pad_top) / w.stride_height + 1;
    plan.line = plan.pad_left + (w.in_width - 1 + w.pad_left) / w.stride_width + 1 + kSlack;
    plan.row_phases = PhasesOf(rows, plan.pad_top);
    plan.column_phases = PhasesOf(columns, plan.pad_left);
    prepared.scratch_bytes = plan.padded_bytes() + 2 * static_cast<size_t>(plan.line) * sizeof(float);
  } else {
    plan.height = w.in_height;
    plan.width = w.in_width;
    plan.out_height = w.out_height;
    plan.out_width = w.out_width;
    plan.phases = w.stride_width;
    plan.pad_top = w.pad_top;
    plan.pad_left = w.pad_left;
    plan.padded_height = (w.out_height - 1) * w.stride_height + reach_height;
    plan.line = w.out_width + (reach_width - 1) / w.stride_width + 1 + kSlack;
    for (int64_t y = 0; y < w.height; ++y) {
      for (int64_t x = 0; x < w.width; ++x) {
        const int64_t column = x * w.dilation_width;
        plan.taps.push_back(
            {y * w.dilation_height * plan.row() + column % plan.phases * plan.line + column / plan.phases,
             (y * w.width + x) * w.in_channels});
      }
    }
    prepared.scratch_bytes = plan.padded_bytes();
  }
  prepared.kernel = std::make_unique<PlaneKernel>(direction, std::move(plan));
  return prepared;
}

}  // namespace

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
    // Lines of each phase would mostly be slack.
    if (w.stride_width > 8) return std::nullopt;
    prepared = OverPlanes(direction, w);
  } else {
    prepared.kernel = OverPixels(direction, w);
  }
  prepared.implementation = "hwy depthwise";
  prepared.flops = 2 * w.multiply_adds();
  return prepared;
}

}  // namespace rivulet
#endif
