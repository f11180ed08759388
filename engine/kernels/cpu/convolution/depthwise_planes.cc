// Depthwise convolutions over NCHW: a vector has pixels of one channel, which are adjacent in padded rows
// (depthwise_plane_plan.h).
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/kernels/cpu/convolution/depthwise_loops.h"
#include "engine/kernels/cpu/convolution/depthwise_plan.h"
#include "engine/kernels/cpu/convolution/depthwise_plane_plan.h"
#include "engine/kernels/cpu/vector/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/convolution/depthwise_planes.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
// clang-format on

#ifndef RIVULET_DEPTHWISE_PLANES_ONCE
#define RIVULET_DEPTHWISE_PLANES_ONCE
namespace rivulet {

constexpr int64_t kRowsAhead = 3;  // rows to prefetch, in a plane that is read once

}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

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

// The padded rows of one plane, filled in order as needed.
// Padding left and right of the image must already be zero.
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
    // Planes are contiguous: rows ahead belong to this plane, or to the next one.
    for (int64_t x = 0; x < plan.width; x += 16) hwy::Prefetch(from + kRowsAhead * plan.width + x);
    const int64_t columns = std::min(plan.width, plan.row() - plan.pad_left);
    if (plan.phases == 1) {
      std::copy_n(from, std::max<int64_t>(columns, 0), to + plan.pad_left);
      return;
    }
    int64_t x = 0;
    if (plan.phases == 2) {
      // Column x belongs to phase (x + padding) mod 2.
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
  // Fills the rows from `first` to `last`, which must be fewer than the ring's.
  HWY_INLINE void FillTo(int64_t first, int64_t last) {
    next = std::max(next, first);
    for (; next <= last; ++next) Fill(next);
  }
  // Computes each tap's first pixel for the window that starts at padded row `first`.
  HWY_INLINE void Point(const std::vector<PlaneTap>& taps, int64_t first, const float** pointers) const {
    const int64_t position = Position(first), row = plan.row();
    for (size_t t = 0; t < taps.size(); ++t) {
      const int64_t at = position + taps[t].row;
      pointers[t] = rows + (at < plan.ring ? at : at - plan.ring) * row + taps[t].column;
    }
  }
};

// P vectors of adjacent sums; the last has `tail` elements if kTail.
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
  // Four vectors at a time while more than six remain: sums of a single vector would wait for each other.
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

// The gradient is padded. `lines` has two lines of a phase.
void DepthwisePlanesBack(const PlanePlan& plan, const float* gradient, const float* filter, float* out, float* rows,
                         float* lines) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  std::fill_n(rows, plan.ring * plan.row(), 0.0f);
  for (int64_t plane = 0; plane < plan.planes; ++plane, out += plan.out_height * plan.out_width) {
    V weights[2 * kMostTaps];  // for all phases, whose taps are the window's
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

HWY_EXPORT(DepthwisePlanes);
HWY_EXPORT(DepthwisePlanesBack);
HWY_EXPORT(DepthwisePlaneFilter);

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

}  // namespace

Prepared DepthwiseOverPlanes(ConvDirection direction, const Window& w) {
  PlanePlan plan = PlanePlanOf(direction, w);
  Prepared prepared;
  prepared.scratch_bytes = plan.ring_bytes();
  if (direction == ConvDirection::kBackwardInput) prepared.scratch_bytes += plan.lines_bytes();
  prepared.kernel = std::make_unique<PlaneKernel>(direction, std::move(plan));
  return prepared;
}

}  // namespace rivulet
#endif
