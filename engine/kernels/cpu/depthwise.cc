#include "engine/kernels/cpu/depthwise.h"

#include <algorithm>
#include <array>

#include "engine/kernels/cpu/depthwise_plan.h"
#include "engine/kernels/cpu/unroll.h"
#include "engine/program/memory_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/depthwise.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/cache_control.h"
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
constexpr int64_t kRowsAhead = 3;  // to fetch, of a plane that is read once
constexpr int kMostTaps = 64;      // that are summed before a result is written; larger windows add to it

// NHWC: the result's rows and columns, each with the taps that meet it.
struct PixelPlan {
  int64_t batch, channels, window_width;
  int64_t in_width, in_image;    // of the image that is read, in pixels
  int64_t out_width, out_image;  // of the result
  std::vector<TapRun> rows, columns;
};

// NCHW: rows of a plane are copied into a ring of padded rows in scratch, with the columns of each phase of the stride
// side by side, so that the pixels under one tap of neighbouring windows are neighbours.
struct PlaneTap {
  int64_t row = 0;     // padded, from a window's first
  int64_t column = 0;  // elements, from a padded row's first
  int64_t filter = 0;  // offset of the weight of channel 0
};
struct PlanePlan {
  int64_t planes, channels, height, width;  // of what is padded
  int64_t phases;                           // of columns
  int64_t pad_top, pad_left;
  int64_t line;                   // elements of one phase of a padded row
  int64_t ring;                   // rows
  int64_t out_height, out_width;  // of the other image
  int64_t stride_height, pad_result;
  std::vector<PlaneTap> taps;  // forward and filter
  // Backward input: the result's rows and columns fall into phases, each under its own taps.
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

// P pixels' vector of channels.
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

// All channels of P pixels, so that memory is read and written in order.
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

template <bool kPastCaches>
HWY_INLINE void PixelsOf(const PixelPlan& plan, const float* in, const float* filter, float* out) {
  const int64_t channels = plan.channels;
  for (int64_t image = 0; image < plan.batch; ++image) {
    for (const TapRun& rows : plan.rows) {
      const int64_t ahead = rows.in_step * plan.in_width * channels;  // the row that the next one needs
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

// A result that no cache holds until it is read goes past them, where its lines are written whole: they need not be
// read first then.
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

// Sums over a run of pixels for T taps at once, in registers; of kVectors vectors of channels, so that memory is read
// in order where there are registers for it. Of both images the next row is asked for on the way: each is read once,
// and the processor's own prefetching stops at every page.
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

constexpr int kFilterTaps = 9;
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

// The plan is the forward one: `gradient` lies as its result does.
void DepthwisePixelFilter(const PixelPlan& plan, const float* in, const float* gradient, float* result, int64_t size) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), channels = plan.channels;
  std::fill_n(result, size, 0.0f);
  constexpr auto kSequence = std::make_integer_sequence<int, kFilterTaps>();
  const int64_t gradient_row_size = plan.out_width * channels;
  for (int64_t image = 0; image < plan.batch; ++image) {
    for (const TapRun& rows : plan.rows) {
      const int64_t ahead = rows.in_step * plan.in_width * channels;  // the row that the next one needs
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

// Elements 0, 2, … and 1, 3, … of two vectors.
HWY_INLINE V Evens(V low, V high) {
#if HWY_TARGET == HWY_SCALAR
  (void)high;
  return low;
#else
  return hn::ConcatEven(D(), high, low);
#endif
}
HWY_INLINE V Odds(V low, V high) {
#if HWY_TARGET == HWY_SCALAR
  (void)low;
  return high;
#else
  return hn::ConcatOdd(D(), high, low);
#endif
}

// The padded rows of one plane, filled as they are asked for, in order. What lies left and right of the image was
// zeroed before.
struct Ring {
  const PlanePlan& plan;
  const float* plane;
  float* rows;
  int64_t next = 0;

  int64_t Position(int64_t row) const { return static_cast<uint32_t>(row) % static_cast<uint32_t>(plan.ring); }
  float* Slot(int64_t row) const { return rows + Position(row) * plan.row(); }
  HWY_INLINE void Fill(int64_t row) const {
    float* to = Slot(row);
    const int64_t y = row - plan.pad_top;
    if (y < 0 || y >= plan.height) {
      std::fill_n(to, plan.row(), 0.0f);
      return;
    }
    const float* from = plane + y * plan.width;
    // Planes lie one after the other: the rows ahead are this plane's, or the next one's.
    for (int64_t x = 0; x < plan.width; x += 16) hwy::Prefetch(from + kRowsAhead * plan.width + x);
    const int64_t columns = std::min(plan.width, plan.row() - plan.pad_left);
    if (plan.phases == 1) {
      std::copy_n(from, std::max<int64_t>(columns, 0), to + plan.pad_left);
      return;
    }
    int64_t x = 0;
    if (plan.phases == 2) {
      // Column x goes to phase (x + padding) mod 2.
      const D d;
      const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), odd = plan.pad_left % 2;
      float* first = to + odd * plan.line + plan.pad_left / 2;
      float* second = to + (1 - odd) * plan.line + (plan.pad_left + 1) / 2;
      for (; x + 2 * lanes <= columns; x += 2 * lanes) {
        const V low = hn::LoadU(d, from + x), high = hn::LoadU(d, from + x + lanes);
        hn::StoreU(Evens(low, high), d, first + x / 2);
        hn::StoreU(Odds(low, high), d, second + x / 2);
      }
      if (x < columns) {
        const int64_t rest = columns - x;
        const V low = LoadTail(d, from + x, static_cast<size_t>(std::min(rest, lanes)));
        const V high = rest > lanes ? LoadTail(d, from + x + lanes, static_cast<size_t>(rest - lanes)) : hn::Zero(d);
        StoreTail(Evens(low, high), d, first + x / 2, static_cast<size_t>((rest + 1) / 2));
        if (rest > 1) StoreTail(Odds(low, high), d, second + x / 2, static_cast<size_t>(rest / 2));
      }
      return;
    }
    int64_t phase = plan.pad_left % plan.phases, at = plan.pad_left / plan.phases;
    for (; x < columns; ++x) {
      to[phase * plan.line + at] = from[x];
      if (++phase == plan.phases) {
        phase = 0;
        ++at;
      }
    }
  }
  // The rows from `first` to `last` are there afterwards; they are fewer than the ring's.
  HWY_INLINE void FillTo(int64_t first, int64_t last) {
    next = std::max(next, first);
    for (; next <= last; ++next) Fill(next);
  }
  // Where each tap's first pixel lies for the window that begins at padded row `first`.
  HWY_INLINE void Point(const std::vector<PlaneTap>& taps, int64_t first, const float** pointers) const {
    const int64_t position = Position(first), row = plan.row();
    for (size_t t = 0; t < taps.size(); ++t) {
      const int64_t at = position + taps[t].row;
      pointers[t] = rows + (at < plan.ring ? at : at - plan.ring) * row + taps[t].column;
    }
  }
};

// P vectors of neighbouring sums; the last has `tail` elements when kTail.
template <int P, bool kTail>
HWY_INLINE void Sums(const float* const* taps, const V* weights, size_t count, int64_t at, float* out, size_t tail) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[P];
  RIVULET_UNROLL
  for (int p = 0; p < P; ++p) sum[p] = hn::Zero(d);
  for (size_t t = 0; t < count; ++t) {
    const float* from = taps[t] + at;
    RIVULET_UNROLL
    for (int p = 0; p < P; ++p) sum[p] = hn::MulAdd(weights[t], hn::LoadU(d, from + p * lanes), sum[p]);
  }
  RIVULET_UNROLL
  for (int p = 0; p < P; ++p) {
    if (kTail && p == P - 1)
      StoreTail(sum[p], d, out + at + p * lanes, tail);
    else
      hn::StoreU(sum[p], d, out + at + p * lanes);
  }
}

HWY_INLINE void SumRow(const float* const* taps, const V* weights, size_t count, float* out, int64_t pixels) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  // Four vectors at a time while more than six are left: a lone vector's sums would wait for each other.
  int64_t x = 0, vectors = (pixels + lanes - 1) / lanes;
  for (; vectors > 6; vectors -= 4, x += 4 * lanes) Sums<4, false>(taps, weights, count, x, out, 0);
  const size_t tail = static_cast<size_t>(pixels - x - (vectors - 1) * lanes);
  if (vectors == 6) Sums<6, true>(taps, weights, count, x, out, tail);
  if (vectors == 5) Sums<5, true>(taps, weights, count, x, out, tail);
  if (vectors == 4) Sums<4, true>(taps, weights, count, x, out, tail);
  if (vectors == 3) Sums<3, true>(taps, weights, count, x, out, tail);
  if (vectors == 2) Sums<2, true>(taps, weights, count, x, out, tail);
  if (vectors == 1) Sums<1, true>(taps, weights, count, x, out, tail);
}

HWY_INLINE void Spread(const std::vector<PlaneTap>& taps, const float* filter, V* weights) {
  for (size_t t = 0; t < taps.size(); ++t) weights[t] = hn::Set(D(), filter[taps[t].filter]);
}

void DepthwisePlanes(const PlanePlan& plan, const float* in, const float* filter, float* out, float* rows) {
  const int64_t reach = plan.taps.back().row;
  std::fill_n(rows, plan.ring * plan.row(), 0.0f);
  for (int64_t plane = 0; plane < plan.planes; ++plane) {
    V weights[kMostTaps];
    const float* pointers[kMostTaps];
    Spread(plan.taps, filter + plane % plan.channels, weights);
    Ring ring{plan, in + plane * plan.height * plan.width, rows};
    for (int64_t y = 0; y < plan.out_height; ++y, out += plan.out_width) {
      ring.FillTo(y * plan.stride_height, y * plan.stride_height + reach);
      ring.Point(plan.taps, y * plan.stride_height, pointers);
      SumRow(pointers, weights, plan.taps.size(), out, plan.out_width);
    }
  }
}

// What is padded is the gradient. `lines` holds two lines of a phase.
void DepthwisePlanesBack(const PlanePlan& plan, const float* gradient, const float* filter, float* out, float* rows,
                         float* lines) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  std::fill_n(rows, plan.ring * plan.row(), 0.0f);
  for (int64_t plane = 0; plane < plan.planes; ++plane, out += plan.out_height * plan.out_width) {
    V weights[2 * kMostTaps];  // of all phases, whose taps are the window's
    size_t used = 0;
    for (const PlanePlan::Rows& phase : plan.row_phases) {
      for (const PlanePlan::Columns& columns : phase.columns) {
        Spread(columns.taps, filter + plane % plan.channels, weights + used);
        used += columns.taps.size();
      }
    }
    Ring ring{plan, gradient + plane * plan.height * plan.width, rows};
    for (int64_t j = 0; j * plan.stride_height - plan.pad_result < plan.out_height; ++j) {
      ring.FillTo(j, j + plan.pad_top);
      const V* of_phase = weights;
      for (const PlanePlan::Rows& phase : plan.row_phases) {
        const int64_t y = j * plan.stride_height + phase.rest - plan.pad_result;
        const bool inside = y >= 0 && y < plan.out_height;
        float* row = out + y * plan.out_width;
        const bool by_two = phase.columns.size() == 2 && phase.columns[0].step == 2;
        float* line = lines;
        for (const PlanePlan::Columns& columns : phase.columns) {
          const V* own = of_phase;
          of_phase += columns.taps.size();
          if (!inside) continue;
          const float* pointers[kMostTaps];
          ring.Point(columns.taps, j, pointers);
          const bool whole = columns.step == 1;
          SumRow(pointers, own, columns.taps.size(), whole ? row + columns.first : line, columns.count);
          if (by_two) {
            line += plan.line;
          } else if (!whole) {
            for (int64_t x = 0; x < columns.count; ++x) row[columns.first + x * columns.step] = line[x];
          }
        }
        if (!inside || !by_two) continue;
        const bool zero_first = phase.columns[0].first == 0;
        const float *even = zero_first ? lines : lines + plan.line, *odd = zero_first ? lines + plan.line : lines;
        int64_t x = 0;
        for (; 2 * (x + lanes) <= plan.out_width; x += lanes)
          hn::StoreInterleaved2(hn::LoadU(d, even + x), hn::LoadU(d, odd + x), d, row + 2 * x);
        if (2 * x < plan.out_width) {
          HWY_ALIGN float rest[2 * HWY_MAX_BYTES / sizeof(float)];
          hn::StoreInterleaved2(hn::LoadU(d, even + x), hn::LoadU(d, odd + x), d, rest);
          std::copy_n(rest, plan.out_width - 2 * x, row + 2 * x);
        }
      }
    }
  }
}

// Sums over a plane for T taps at once, in registers.
template <int T>
HWY_INLINE void FilterPlane(const PlanePlan& plan, const PlaneTap* taps, Ring ring, const float* gradient,
                            float* result) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[T];
  RIVULET_UNROLL
  for (int t = 0; t < T; ++t) sum[t] = hn::Zero(d);
  const int64_t reach = taps[T - 1].row;
  for (int64_t y = 0; y < plan.out_height; ++y, gradient += plan.out_width) {
    const int64_t first = y * plan.stride_height;
    ring.FillTo(first + taps[0].row, first + reach);
    const float* at[T];
    const int64_t position = ring.Position(first), row = plan.row();
    RIVULET_UNROLL
    for (int t = 0; t < T; ++t) {
      const int64_t slot = position + taps[t].row;
      at[t] = ring.rows + (slot < plan.ring ? slot : slot - plan.ring) * row + taps[t].column;
    }
    int64_t x = 0;
    for (; x + lanes <= plan.out_width; x += lanes) {
      const V g = hn::LoadU(d, gradient + x);
      RIVULET_UNROLL
      for (int t = 0; t < T; ++t) sum[t] = hn::MulAdd(g, hn::LoadU(d, at[t] + x), sum[t]);
    }
    if (x < plan.out_width) {
      const size_t rest = static_cast<size_t>(plan.out_width - x);
      const V g = LoadTail(d, gradient + x, rest);
      RIVULET_UNROLL
      for (int t = 0; t < T; ++t) sum[t] = hn::MulAdd(g, LoadTail(d, at[t] + x, rest), sum[t]);
    }
  }
  RIVULET_UNROLL
  for (int t = 0; t < T; ++t) result[taps[t].filter] += hn::GetLane(hn::SumOfLanes(d, sum[t]));
}

using FilterPlaneFn = void (*)(const PlanePlan&, const PlaneTap*, Ring, const float*, float*);
template <int... T>
HWY_INLINE FilterPlaneFn FilterPlaneTable(int64_t taps, std::integer_sequence<int, T...>) {
  static constexpr FilterPlaneFn kTable[] = {&FilterPlane<T + 1>...};
  return kTable[taps - 1];
}

void DepthwisePlaneFilter(const PlanePlan& plan, const float* in, const float* gradient, float* result, float* rows) {
  const int64_t window = static_cast<int64_t>(plan.taps.size());
  std::fill_n(result, window * plan.channels, 0.0f);
  std::fill_n(rows, plan.ring * plan.row(), 0.0f);
  for (int64_t plane = 0; plane < plan.planes; ++plane) {
    for (int64_t first = 0; first < window; first += kFilterTaps) {
      const int64_t count = std::min<int64_t>(kFilterTaps, window - first);
      FilterPlaneTable(count, std::make_integer_sequence<int, kFilterTaps>())(
          plan, plan.taps.data() + first, Ring{plan, in + plane * plan.height * plan.width, rows}, gradient,
          result + plane % plan.channels);
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
    float* rows = reinterpret_cast<float*>(context.scratch);
    float* lines = reinterpret_cast<float*>(context.scratch + plan_.ring_bytes());
    switch (direction_) {
      case ConvDirection::kForward:
        HWY_DYNAMIC_DISPATCH(DepthwisePlanes)(plan_, first, second, result, rows);
        break;
      case ConvDirection::kBackwardInput:
        HWY_DYNAMIC_DISPATCH(DepthwisePlanesBack)(plan_, second, first, result, rows, lines);
        break;
      case ConvDirection::kBackwardFilter:
        HWY_DYNAMIC_DISPATCH(DepthwisePlaneFilter)(plan_, first, second, result, rows);
        break;
    }
    return {};
  }

 private:
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

// The phases of an input axis: pixels j · stride + rest - padding for one rest. Offsets count from pixel j of a
// gradient that is padded with `before` zeros.
struct AxisPhase {
  int64_t rest, first, count;  // pixels first, first + stride, …
  int64_t j;                   // of the first
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

Prepared OverPlanes(ConvDirection direction, const Window& w) {
  const int64_t reach_height = (w.height - 1) * w.dilation_height + 1;
  const int64_t reach_width = (w.width - 1) * w.dilation_width + 1;
  PlanePlan plan;
  plan.planes = w.batch * w.in_channels;
  plan.channels = w.in_channels;
  plan.stride_height = w.stride_height;
  plan.pad_result = w.pad_top;
  Prepared prepared;
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
    const std::vector<AxisPhase> columns = PhasesOf(Columns(w), plan.pad_left);
    for (const AxisPhase& y : PhasesOf(Rows(w), plan.pad_top)) {
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
    prepared.scratch_bytes = plan.ring_bytes() + 2 * static_cast<size_t>(plan.line) * sizeof(float);
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
    prepared.scratch_bytes = plan.ring_bytes();
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
    // Lines of each phase would mostly be slack; and all weights are held at once.
    if (w.stride_width > 8 || w.height * w.width > kMostTaps) return std::nullopt;
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
