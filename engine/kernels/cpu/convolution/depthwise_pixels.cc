// Depthwise convolutions over NHWC: a vector has channels of one pixel.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/kernels/cpu/convolution/depthwise_loops.h"
#include "engine/kernels/cpu/convolution/depthwise_plan.h"
#include "engine/kernels/cpu/vector/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/convolution/depthwise_pixels.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
// clang-format on

#ifndef RIVULET_DEPTHWISE_PIXELS_ONCE
#define RIVULET_DEPTHWISE_PIXELS_ONCE
namespace rivulet {

// Offsets, in elements, of a tap's input and of its weight.
struct DepthwiseTap {
  int64_t in, filter;
};

// The result's rows and columns, each with its taps.
struct PixelPlan {
  int64_t batch, channels, window_width;
  int64_t in_width, in_image;    // of the image that is read, in pixels
  int64_t out_width, out_image;  // of the result
  std::vector<TapRun> rows, columns;
};

}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

// Computes P pixels' vector of channels.
template <int P, bool kTail, bool kPastCaches>
HWY_INLINE void Pixels(const DepthwiseTap* taps, int count, const float* in, int64_t in_step, const float* filter,
                       float* out, int64_t out_step, bool add, size_t tail, int64_t ahead) {
  const D d;
  V sum[P];
  if (count > 0) {
    RIVULET_UNROLL
    for (int p = 0; p < P; ++p) hwy::Prefetch(in + taps[count - 1].in + p * in_step + ahead);
  }
  RIVULET_UNROLL
  for (int p = 0; p < P; ++p) sum[p] = add ? LoadMaybe<kTail>(d, out + p * out_step, tail) : hn::Zero(d);
  for (int t = 0; t < count; ++t) {
    const V weight = LoadMaybe<kTail>(d, filter + taps[t].filter, tail);
    const float* at = in + taps[t].in;
    RIVULET_UNROLL
    for (int p = 0; p < P; ++p) sum[p] = hn::MulAdd(weight, LoadMaybe<kTail>(d, at + p * in_step, tail), sum[p]);
  }
  RIVULET_UNROLL
  for (int p = 0; p < P; ++p) {
    if constexpr (kPastCaches)
      hn::Stream(sum[p], d, out + p * out_step);
    else
      StoreMaybe<kTail>(sum[p], d, out + p * out_step, tail);
  }
}

// Computes all channels of P pixels, so that memory is read and written in order.
template <int P, bool kPastCaches>
HWY_INLINE void PixelBlock(const DepthwiseTap* taps, int count, const float* in, int64_t in_step, const float* filter,
                           float* out, int64_t out_step, int64_t channels, bool add, int64_t ahead) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes)
    Pixels<P, false, kPastCaches>(taps, count, in + c, in_step, filter + c, out + c, out_step, add, 0, ahead);
  if (c < channels)
    Pixels<P, true, false>(taps, count, in + c, in_step, filter + c, out + c, out_step, add,
                           static_cast<size_t>(channels - c), ahead);
}

// Calls f(taps, number) for the taps of a row and a run of columns, at most `most` at a time, and once if there are
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

template <bool kPastCaches>
HWY_INLINE void PixelsOf(const PixelPlan& plan, const float* in, const float* filter, float* out) {
  const int64_t channels = plan.channels;
  for (int64_t image = 0; image < plan.batch; ++image) {
    for (const TapRun& rows : plan.rows) {
      const int64_t ahead = rows.in_step * plan.in_width * channels;  // distance to the row that the next one needs
      for (int64_t y = 0; y < rows.count; ++y) {
        const float* in_row = in + y * rows.in_step * plan.in_width * channels;
        float* out_row = out + (rows.out + y * rows.out_step) * plan.out_width * channels;
        for (const TapRun& run : plan.columns) {
          ForEachTapChunk(plan, rows, run, kMostTaps, [&](const DepthwiseTap* taps, int count, bool add) HWY_ATTR {
            float* at = out_row + run.out * channels;
            const int64_t in_step = run.in_step * channels, out_step = run.out_step * channels;
            int64_t p = 0;
            for (; p + 8 <= run.count; p += 8)
              PixelBlock<8, kPastCaches>(taps, count, in_row + p * in_step, in_step, filter, at + p * out_step,
                                         out_step, channels, add, ahead);
            if (p + 4 <= run.count) {
              PixelBlock<4, kPastCaches>(taps, count, in_row + p * in_step, in_step, filter, at + p * out_step,
                                         out_step, channels, add, ahead);
              p += 4;
            }
            for (; p < run.count; ++p)
              PixelBlock<1, kPastCaches>(taps, count, in_row + p * in_step, in_step, filter, at + p * out_step,
                                         out_step, channels, add, ahead);
          });
        }
      }
    }
    in += plan.in_image * channels;
    out += plan.out_image * channels;
  }
}

// A result that no cache would hold until it is read is written past the caches if its lines are complete, so that they
// need not be read first.
void DepthwisePixels(const PixelPlan& plan, const float* in, const float* filter, float* out) {
  constexpr int64_t kFar = (int64_t{32} << 20) / sizeof(float);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  const bool aligned = reinterpret_cast<uintptr_t>(out) % (static_cast<uintptr_t>(lanes) * sizeof(float)) == 0;
  if (plan.batch * plan.out_image * plan.channels >= kFar && plan.channels % lanes == 0 && aligned) {
    PixelsOf<true>(plan, in, filter, out);
    hwy::FlushStream();
  } else {
    PixelsOf<false>(plan, in, filter, out);
  }
}

// Sums over a run of pixels for T taps at once, in registers, with kVectors vectors of channels, so that memory is read
// in order if there are enough registers. Prefetches the next row of both images: each is read once, and the hardware's
// prefetching stops at every page.
template <int T, int kVectors, bool kTail>
HWY_INLINE void FilterRun(const DepthwiseTap* taps, const float* in, int64_t in_step, const float* gradient,
                          int64_t gradient_step, int64_t pixels, float* result, size_t tail, int64_t ahead,
                          int64_t gradient_ahead) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[T][kVectors];
  RIVULET_UNROLL
  for (int t = 0; t < T; ++t) {
    RIVULET_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[t][v] = hn::Zero(d);
  }
  for (int64_t p = 0; p < pixels; ++p) {
    const float *at = in + p * in_step, *of_pixel = gradient + p * gradient_step;
    V g[kVectors];
    RIVULET_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      g[v] = LoadMaybe<kTail>(d, of_pixel + v * lanes, tail);
      hwy::Prefetch(at + taps[T - 1].in + ahead + v * lanes);
      hwy::Prefetch(of_pixel + gradient_ahead + v * lanes);
    }
    RIVULET_UNROLL
    for (int t = 0; t < T; ++t) {
      RIVULET_UNROLL
      for (int v = 0; v < kVectors; ++v)
        sum[t][v] = hn::MulAdd(g[v], LoadMaybe<kTail>(d, at + taps[t].in + v * lanes, tail), sum[t][v]);
    }
  }
  RIVULET_UNROLL
  for (int t = 0; t < T; ++t) {
    RIVULET_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      float* at = result + taps[t].filter + v * lanes;
      StoreMaybe<kTail>(hn::Add(LoadMaybe<kTail>(d, at, tail), sum[t][v]), d, at, tail);
    }
  }
}

#if HWY_TARGET <= HWY_AVX3
constexpr int kFilterVectors = 2;  // 18 sums of 32 registers
#else
constexpr int kFilterVectors = 1;
#endif
using FilterRunFn = void (*)(const DepthwiseTap*, const float*, int64_t, const float*, int64_t, int64_t, float*, size_t,
                             int64_t, int64_t);
template <int kVectors, bool kTail, int... T>
HWY_INLINE FilterRunFn FilterRunTable(int taps, std::integer_sequence<int, T...>) {
  static constexpr FilterRunFn kTable[] = {&FilterRun<T + 1, kVectors, kTail>...};
  return kTable[taps - 1];
}

// The plan is the forward one: `gradient` has the layout of its result.
void DepthwisePixelFilter(const PixelPlan& plan, const float* in, const float* gradient, float* result, int64_t size) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), channels = plan.channels;
  std::fill_n(result, size, 0.0f);
  constexpr auto kSequence = std::make_integer_sequence<int, kFilterTaps>();
  const int64_t gradient_row_size = plan.out_width * channels;
  for (int64_t image = 0; image < plan.batch; ++image) {
    for (const TapRun& rows : plan.rows) {
      const int64_t ahead = rows.in_step * plan.in_width * channels;  // distance to the row that the next one needs
      for (int64_t y = 0; y < rows.count; ++y) {
        const float* in_row = in + y * rows.in_step * plan.in_width * channels;
        const float* gradient_row = gradient + (rows.out + y * rows.out_step) * gradient_row_size;
        for (const TapRun& run : plan.columns) {
          ForEachTapChunk(plan, rows, run, kFilterTaps, [&](const DepthwiseTap* taps, int count, bool) HWY_ATTR {
            if (count == 0) return;
            const float* at = gradient_row + run.out * channels;
            const int64_t in_step = run.in_step * channels, step = run.out_step * channels;
            const auto add = [&](FilterRunFn sums, int64_t c, size_t tail) HWY_ATTR {
              sums(taps, in_row + c, in_step, at + c, step, run.count, result + c, tail, ahead,
                   rows.out_step * gradient_row_size);
            };
            int64_t c = 0;
            const FilterRunFn wide = FilterRunTable<kFilterVectors, false>(count, kSequence);
            for (; c + kFilterVectors * lanes <= channels; c += kFilterVectors * lanes) add(wide, c, 0);
            if (kFilterVectors > 1 && c + lanes <= channels) {
              add(FilterRunTable<1, false>(count, kSequence), c, 0);
              c += lanes;
            }
            if (c < channels) add(FilterRunTable<1, true>(count, kSequence), c, static_cast<size_t>(channels - c));
          });
        }
      }
    }
    in += plan.in_image * channels;
    gradient += plan.out_image * channels;
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

}  // namespace

std::unique_ptr<const Kernel> DepthwiseOverPixels(ConvDirection direction, const Window& w) {
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
    plan.rows = BackwardRuns(RowAxis(w));
    plan.columns = BackwardRuns(ColumnAxis(w));
  } else {
    plan.rows = ForwardRuns(RowAxis(w));
    plan.columns = ForwardRuns(ColumnAxis(w));
  }
  return std::make_unique<PixelKernel>(direction, std::move(plan), w.filter_elements());
}

}  // namespace rivulet
#endif
