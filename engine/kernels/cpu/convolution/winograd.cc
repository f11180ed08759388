#include "engine/kernels/cpu/convolution/winograd.h"

#include <algorithm>

#include "engine/kernels/cpu/convolution/epilogue.h"
#include "engine/kernels/cpu/convolution/rotated_filter.h"
#include "engine/kernels/cpu/convolution/winograd_shape.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/convolution/winograd.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/register_block-inl.h"
#include "engine/kernels/cpu/convolution/winograd_transforms-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

void WinogradImageTiles(const WinogradShape& s, const float* images, int64_t first, int64_t count, const float* outside,
                        float* to) {
  WinogradTilesToPoints<kWinogradSide>(s, OfImage(), images, s.height, s.width, s.channels, s.pad_top, s.pad_left,
                                       first, count, outside, to, s.in_point());
}

template <int kOutputs>
void WinogradGradientTiles(const WinogradShape& s, const float* gradient, int64_t first, int64_t count,
                           const float* outside, float* to) {
  WinogradTilesToPoints<kOutputs>(s, Evaluated<false>(), gradient, s.out_height, s.out_width, s.out_channels, 0, 0,
                                  first, count, outside, to, s.out_point());
}

// Computes the outputs of `count` tiles from from[point][tile][filter], and finishes them in registers. With kPooled
// the results are the maxima of each 2×2 of them, in MaxPool's arithmetic: a tile starts at an even row and column, and
// has even sides, so that each window is in one tile.
template <int kOutputs, bool kPooled>
void WinogradOutputTiles(const WinogradShape& s, const SumFinish& finish, const float* from, int64_t first,
                         int64_t count, float* result) {
  const D d;
  constexpr int kStep = kPooled ? 2 : 1;
  static_assert(kOutputs % kStep == 0);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), point = s.out_point();
  const int64_t height = s.out_height / kStep, width = s.out_width / kStep;  // incomplete windows are omitted
  const V zero = hn::Zero(d), least = hn::Set(d, finish.least), most = hn::Set(d, finish.most);
  WinogradTile tile(s, first);
  for (int64_t i = 0; i < count; ++i, tile.Next(), from += s.out_row()) {
    const int64_t top = tile.top() / kStep, left = tile.left() / kStep;
    const int64_t rows = std::min<int64_t>(kOutputs / kStep, height - top);
    const int64_t columns = std::min<int64_t>(kOutputs / kStep, width - left);
    float* to = result + ((tile.image() * height + top) * width + left) * s.out_channels;
    for (int64_t filter = 0; filter < s.out_channels; filter += lanes) {
      const auto filters = static_cast<size_t>(std::min(lanes, s.out_channels - filter));
      const bool whole =
          rows == kOutputs / kStep && columns == kOutputs / kStep && filters == static_cast<size_t>(lanes);
      const auto at = [&](int row, int column) { return to + (row * width + column) * s.out_channels + filter; };
      [[maybe_unused]] V largest[kOutputs / kStep];  // of the windows in two rows of outputs
      const auto store = [&](int row, int column, V v) HWY_ATTR __attribute__((always_inline)) {
        if constexpr (kPooled) {
          V& best = largest[column / 2];
          if (row % 2 == 0 && column % 2 == 0) {
            best = v;
          } else {
            best = hn::IfThenElse(hn::Or(hn::Gt(v, best), hn::IsNaN(v)), v, best);
          }
          if (row % 2 == 0 || column % 2 == 0) return;
          v = best;
          row /= 2;
          column /= 2;
        }
        if (whole) return hn::StoreU(v, d, at(row, column));
        if (row < rows && column < columns) StoreTail(v, d, at(row, column), filters);
      };
      if (finish.bias == nullptr) {
        WinogradFromPoints<kOutputs>(Gathered<false>(), from + filter, point, store);
      } else {
        const V bias = LoadTail(d, finish.bias + filter, filters);
        WinogradFromPoints<kOutputs>(
            Gathered<false>(), from + filter,
            point, [&](int row, int column, V v) HWY_ATTR __attribute__((always_inline)) {
              v = hn::Add(v, bias);
              v = hn::IfThenElse(hn::Lt(v, least), zero, v);
              store(row, column, hn::IfThenElse(hn::Gt(v, most), most, v));
            });
      }
    }
  }
}

// to[point][panel of filters][channel][filter], in whole vectors: missing filters are zeros.
template <int kWindow>
void WinogradFilter(const WinogradShape& s, const float* filter, float* to) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), point = s.filter_point();
  for (int64_t channel = 0; channel < s.channels; ++channel) {
    for (int64_t first = 0; first < s.out_channels; first += lanes) {
      const int64_t filters = std::min(lanes, s.out_channels - first);
      const float* from = filter + channel * s.out_channels + first;
      const auto load = [&](int row, int column) HWY_ATTR {
        return LoadTail(d, from + (row * kWindow + column) * s.channels * s.out_channels, static_cast<size_t>(filters));
      };
      WinogradToPoints<kWindow>(Evaluated<true>(), load, to + s.panel(first) + channel * WinogradShape::kPanel, point);
    }
  }
}

// Relative to the largest of the 36 sums of a filter's gradient, some sixty roundings: smaller values may be only
// rounding errors.
constexpr float kWinogradRounding = 4e-6f;

// Computes the filter's gradient from sums[point][channel][filter]. Values below the rounding of their terms become 0:
// direct sums give exactly 0 for a weight without contributions, and an optimiser that divides by the gradient's size,
// such as Adam, would make a whole step of the rounding error.
template <int kWindow>
void WinogradFilterGradient(const WinogradShape& s, const float* sums, float* result) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), point = s.sum_point();
  const V rounding = hn::Set(d, kWinogradRounding);
  for (int64_t channel = 0; channel < s.channels; ++channel) {
    for (int64_t filter = 0; filter < s.out_channels; filter += lanes) {
      const auto filters = static_cast<size_t>(std::min(lanes, s.out_channels - filter));
      const float* from = sums + channel * s.out_row() + filter;
      float* to = result + channel * s.out_channels + filter;
      V largest = hn::Zero(d);
      for (int64_t i = 0; i < kWinogradPoints; ++i) largest = hn::Max(largest, hn::Abs(hn::Load(d, from + i * point)));
      const V least = hn::Mul(largest, rounding);
      const auto store = [&](int row, int column, V v) HWY_ATTR {
        v = hn::IfThenZeroElse(hn::Lt(hn::Abs(v), least), v);
        StoreTail(v, d, to + (row * kWindow + column) * s.channels * s.out_channels, filters);
      };
      WinogradFromPoints<kWindow>(Gathered<true>(), from, point, store);
    }
  }
}

void WinogradForward(const WinogradShape& s, const SumFinish& finish, bool pooled, const float* images,
                     const float* filter, float* result, float* scratch) {
  const WinogradScratch place(s, /*of_filter=*/false);
  float* transformed = scratch + place.outside;
  float* in = scratch + place.filter;
  float* out = scratch + place.in;
  std::fill_n(scratch, place.outside, 0.0f);
  s.window == 3 ? WinogradFilter<3>(s, filter, transformed) : WinogradFilter<5>(s, filter, transformed);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D())), width = 2 * lanes;
  const int64_t all_columns = (s.out_channels + lanes - 1) / lanes * lanes;
  BlockShape block;
  block.a_row = s.in_row();
  block.b_row = WinogradShape::kPanel;
  block.n = s.out_row();
  block.depth = s.channels;
  const int64_t tiles = s.tiles(), at_once = s.tiles_at_once();
  const int64_t in_point = s.in_point(), out_point = s.out_point(), filter_point = s.filter_point();
  const auto outputs = s.window == 3 ? (pooled ? &WinogradOutputTiles<4, true> : &WinogradOutputTiles<4, false>)
                                     : (pooled ? &WinogradOutputTiles<2, true> : &WinogradOutputTiles<2, false>);
  for (int64_t first = 0; first < tiles; first += at_once) {
    const int64_t count = std::min(at_once, tiles - first), share = EqualShare(count);
    WinogradImageTiles(s, images, first, count, scratch, in);
    for (int64_t point = 0; point < kWinogradPoints; ++point) {
      for (int64_t column = 0; column < all_columns; column += width) {
        const int64_t columns = std::min(width, all_columns - column);
        const float* panel = transformed + point * filter_point + s.panel(column);
        for (int64_t tile = 0; tile < count; tile += share) {
          BlockFor(std::min(share, count - tile))(block, in + point * in_point + tile * block.a_row, panel,
                                                  out + point * out_point + tile * block.n + column, columns);
        }
      }
    }
    outputs(s, finish, out, first, count, result);
  }
}

void WinogradBackwardFilter(const WinogradShape& s, const float* images, const float* gradient, float* result,
                            float* scratch) {
  const WinogradScratch place(s, /*of_filter=*/true);
  float* sums = scratch + place.outside;
  float* in = scratch + place.filter;
  float* out = scratch + place.in;
  std::fill_n(scratch, place.outside, 0.0f);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D())), width = 2 * lanes;
  const int64_t all_columns = (s.out_channels + lanes - 1) / lanes * lanes, share = EqualShare(s.channels);
  BlockShape block;
  block.a_row = 1;
  block.a_k = s.in_row();
  block.n = s.out_row();
  const int64_t tiles = s.tiles(), at_once = s.tiles_at_once();
  const int64_t in_point = s.in_point(), out_point = s.out_point(), sum_point = s.sum_point();
  for (int64_t first = 0; first < tiles; first += at_once) {
    const int64_t count = std::min(at_once, tiles - first);
    WinogradImageTiles(s, images, first, count, scratch, in);
    s.window == 3 ? WinogradGradientTiles<4>(s, gradient, first, count, scratch, out)
                  : WinogradGradientTiles<2>(s, gradient, first, count, scratch, out);
    block.depth = count;
    block.add_sum = first > 0;
    for (int64_t point = 0; point < kWinogradPoints; ++point) {
      for (int64_t column = 0; column < all_columns; column += width) {
        const int64_t columns = std::min(width, all_columns - column);
        for (int64_t channel = 0; channel < s.channels; channel += share) {
          BlockFor(std::min(share, s.channels - channel))(
              block, in + point * in_point + channel, out + point * out_point + column,
              sums + point * sum_point + channel * block.n + column, columns);
        }
      }
    }
  }
  s.window == 3 ? WinogradFilterGradient<3>(s, sums, result) : WinogradFilterGradient<5>(s, sums, result);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(WinogradForward);
HWY_EXPORT(WinogradBackwardFilter);

class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(ConvDirection direction, const WinogradShape& shape, const FusedOps& fused, bool pooled)
      : direction_(direction),
        s_(shape),
        fused_(fused),
        pooled_(pooled),
        elements_(WinogradScratch(shape, direction == ConvDirection::kBackwardFilter).out) {}

  size_t scratch_bytes() const {
    const int64_t rotated =
        direction_ == ConvDirection::kBackwardInput ? s_.window * s_.window * s_.channels * s_.out_channels : 0;
    return static_cast<size_t>(elements_ + rotated) * sizeof(float);
  }

  Status Run(const KernelContext& context) const override {
    const float* first = reinterpret_cast<const float*>(context.inputs[0]);
    const float* second = reinterpret_cast<const float*>(context.inputs[1]);
    float* result = reinterpret_cast<float*>(context.outputs[0]);
    float* scratch = reinterpret_cast<float*>(context.scratch);
    switch (direction_) {
      case ConvDirection::kForward:
        HWY_DYNAMIC_DISPATCH(WinogradForward)
        (s_, SumFinish::Of(fused_, context), pooled_, first, second, result, scratch);
        break;
      case ConvDirection::kBackwardFilter:
        HWY_DYNAMIC_DISPATCH(WinogradBackwardFilter)(s_, first, second, result, scratch);
        break;
      case ConvDirection::kBackwardInput: {
        float* rotated = scratch + elements_;
        RotateFilter(first, s_.window * s_.window, s_.out_channels, s_.channels, 1, rotated);
        HWY_DYNAMIC_DISPATCH(WinogradForward)(s_, SumFinish(), false, second, rotated, result, scratch);
        break;
      }
    }
    return {};
  }

 private:
  ConvDirection direction_;
  WinogradShape s_;
  FusedOps fused_;
  bool pooled_;
  int64_t elements_;
};

Prepared PreparedWinograd(ConvDirection direction, const WinogradShape& shape, const Window& window,
                          const FusedOps& fused, bool pooled) {
  auto kernel = std::make_unique<WinogradKernel>(direction, shape, fused, pooled);
  Prepared prepared;
  prepared.scratch_bytes = kernel->scratch_bytes();
  prepared.kernel = std::move(kernel);
  prepared.implementation = window.width == 3 ? "hwy winograd 4x4" : "hwy winograd 2x2";
  prepared.flops = 2 * window.multiply_adds();  // the nominal number; fewer are executed
  if (pooled) {
    prepared.implementation += ", epilogue and pool inside";
    return prepared;
  }
  return WithSumFinish(std::move(prepared), fused, window.batch * window.out_height * window.out_width,
                       window.out_channels);
}

}  // namespace

std::optional<WinogradShape> WinogradShapeOf(ConvDirection direction, const Window& w) {
  if (w.height != w.width || (w.width != 3 && w.width != 5) || w.groups != 1 || w.stride_height != 1 ||
      w.stride_width != 1 || w.dilation_height != 1 || w.dilation_width != 1)
    return std::nullopt;
  if (w.in_elements() == 0 || w.out_elements() == 0 || w.filter_elements() == 0) return std::nullopt;
  const Window c = ConvolvedWindow(direction, w);
  return WinogradShape{c.batch,    c.in_height,  c.in_width,  c.in_channels,  c.pad_top,
                       c.pad_left, c.out_height, c.out_width, c.out_channels, c.width};
}

std::optional<Prepared> WinogradConvolution(ConvDirection direction, const Window& window, const FusedOps& fused,
                                            bool pooled) {
  const std::optional<WinogradShape> shape = WinogradShapeOf(direction, window);
  if (!shape || (pooled && (direction != ConvDirection::kForward || !fused.bias))) return std::nullopt;
  return PreparedWinograd(direction, *shape, window, fused, pooled);
}

}  // namespace rivulet
#endif
