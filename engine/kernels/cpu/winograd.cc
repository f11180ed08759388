#include "engine/kernels/cpu/winograd.h"

#include <algorithm>

#include "engine/kernels/cpu/epilogue.h"
#include "engine/kernels/cpu/turned_convolution.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/winograd.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/register_block-inl.h"
// clang-format on

#ifndef RIVULET_WINOGRAD_ONCE
#define RIVULET_WINOGRAD_ONCE
namespace rivulet {
// A tile has kWinogradSide × kWinogradSide pixels, and as many points: those where the polynomials are multiplied.
constexpr int kWinogradSide = 6, kWinogradPoints = kWinogradSide * kWinogradSide;

// The points of one axis are 0, ±kNear, ±kFar and infinity. Of all such pairs in sixteenths these lose the fewest bits;
// the usual ±1 and ±2 lose two to three times as many.
constexpr double kNear = 11.0 / 16, kFar = 3.0 / 2;

// Of the largest of the 36 sums that a filter's gradient is made of, some sixty roundings: what is smaller may be
// nothing else.
constexpr float kWinogradRounding = 4e-6f;

// A convolution of NHWC images; that of the output's gradients with the turned filter, for the input's gradient.
struct WinogradShape {
  int64_t batch, height, width, channels;
  int64_t pad_top, pad_left;
  int64_t out_height, out_width, out_channels;
  int64_t window;

  int64_t outputs() const { return kWinogradSide + 1 - window; }  // of a tile, on each side
  int64_t tiles_down() const { return (out_height + outputs() - 1) / outputs(); }
  int64_t tiles_across() const { return (out_width + outputs() - 1) / outputs(); }
  int64_t tiles() const { return batch * tiles_down() * tiles_across(); }

  // Tiles are taken so many at a time that what lies between transforms and products stays in the second cache, and
  // that the products' filters are read seldom.
  int64_t tiles_at_once() const {
    constexpr int64_t kMost = 48;
    const int64_t blocks = (tiles() + kMost - 1) / kMost;
    return (tiles() + blocks - 1) / blocks;
  }

  // Channels of a pixel in the transformed tiles, and filters of a panel: whole vectors of every target.
  static constexpr int64_t kLanes = 16, kPanel = 2 * kLanes;
  static int64_t Whole(int64_t channels) { return (channels + kLanes - 1) / kLanes * kLanes; }
  int64_t in_row() const { return Whole(channels); }
  int64_t out_row() const { return Whole(out_channels); }
  int64_t panel(int64_t filter) const { return filter / kPanel * kPanel * channels + filter % kPanel; }

  // From a point to the next. An odd number of cache lines, or a tile's 36 points would share a few sets of the cache.
  static int64_t OddLines(int64_t elements) { return ((elements + kLanes - 1) / kLanes | 1) * kLanes; }
  int64_t in_point() const { return OddLines(tiles_at_once() * in_row()); }
  int64_t out_point() const { return OddLines(tiles_at_once() * out_row()); }
  int64_t filter_point() const { return OddLines((out_channels + kPanel - 1) / kPanel * kPanel * channels); }
  int64_t sum_point() const { return OddLines(channels * out_row()); }
};

// Walks over tiles, row after row of one image after the other.
class WinogradTile {
 public:
  WinogradTile(const WinogradShape& s, int64_t tile)
      : s_(s),
        image_(tile / (s.tiles_down() * s.tiles_across())),
        top_(tile / s.tiles_across() % s.tiles_down() * s.outputs()),
        left_(tile % s.tiles_across() * s.outputs()) {}
  int64_t image() const { return image_; }
  int64_t top() const { return top_; }  // of its outputs
  int64_t left() const { return left_; }
  void Next() {
    left_ += s_.outputs();
    if (left_ < s_.out_width) return;
    left_ = 0;
    top_ += s_.outputs();
    if (top_ < s_.out_height) return;
    top_ = 0;
    ++image_;
  }

 private:
  const WinogradShape& s_;
  int64_t image_, top_, left_;
};

// Parts of the scratch memory, in elements.
struct WinogradScratch {
  explicit WinogradScratch(const WinogradShape& s, bool of_filter)
      : outside(std::max(s.in_row(), s.out_row())),
        filter(outside + kWinogradPoints * (of_filter ? s.sum_point() : s.filter_point())),
        in(filter + kWinogradPoints * s.in_point()),
        out(in + kWinogradPoints * s.out_point()) {}
  // Where each ends: zeros for a pixel outside; the transformed filter or its gradient; tiles of the image; of outputs.
  int64_t outside, filter, in, out;
};
}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

HWY_INLINE V WinogradConstant(double value) { return hn::Set(D(), static_cast<float>(value)); }

// The transforms of one axis. With the points p and M(x) = Π (x - p): an image's six pixels become the coefficients of
// M(x) / (x - p), or of M for infinity.
HWY_INLINE void WinogradOfImage(const V (&pixel)[kWinogradSide], V (&at)[kWinogradSide]) {
  constexpr double kNear2 = kNear * kNear, kFar2 = kFar * kFar;
  const V sum = WinogradConstant(kNear2 + kFar2), product = WinogradConstant(kNear2 * kFar2);
  at[0] = hn::MulAdd(product, pixel[0], hn::NegMulAdd(sum, pixel[2], pixel[4]));
  at[5] = hn::MulAdd(product, pixel[1], hn::NegMulAdd(sum, pixel[3], pixel[5]));
  const auto both = [&](double p, double other2, V& plus, V& minus) HWY_ATTR __attribute__((always_inline)) {
    const V square = WinogradConstant(other2);
    const V even = hn::NegMulAdd(square, pixel[2], pixel[4]);
    const V odd = hn::NegMulAdd(square, pixel[1], pixel[3]);
    plus = hn::MulAdd(WinogradConstant(p), odd, even);
    minus = hn::NegMulAdd(WinogradConstant(p), odd, even);
  };
  both(kNear, kFar2, at[1], at[2]);
  both(kFar, kNear2, at[3], at[4]);
}

// The values at the points of the polynomial with N coefficients: a filter (kScaled, by 1 / M'(p)) or the gradients of
// N outputs.
template <bool kScaled, int N>
HWY_INLINE void WinogradEvaluate(const V (&coefficient)[N], V (&at)[kWinogradSide]) {
  constexpr double kNear2 = kNear * kNear, kFar2 = kFar * kFar;
  const auto both = [&](double p, double scale, V& plus, V& minus) HWY_ATTR __attribute__((always_inline)) {
    V even = kScaled ? hn::Mul(WinogradConstant(scale), coefficient[0]) : coefficient[0];
    if constexpr (N > 2) even = hn::MulAdd(WinogradConstant(scale * p * p), coefficient[2], even);
    if constexpr (N > 4) even = hn::MulAdd(WinogradConstant(scale * p * p * p * p), coefficient[4], even);
    V odd = hn::Mul(WinogradConstant(scale * p), coefficient[1]);
    if constexpr (N > 3) odd = hn::MulAdd(WinogradConstant(scale * p * p * p), coefficient[3], odd);
    plus = hn::Add(even, odd);
    minus = hn::Sub(even, odd);
  };
  at[0] = kScaled ? hn::Mul(WinogradConstant(1 / (kNear2 * kFar2)), coefficient[0]) : coefficient[0];
  both(kNear, kScaled ? 1 / (2 * kNear2 * (kNear2 - kFar2)) : 1, at[1], at[2]);
  both(kFar, kScaled ? 1 / (2 * kFar2 * (kFar2 - kNear2)) : 1, at[3], at[4]);
  at[5] = coefficient[N - 1];
}

// WinogradEvaluate's transpose: N outputs, or a filter's gradient, from the points' products.
template <bool kScaled, int N>
HWY_INLINE void WinogradGather(const V (&at)[kWinogradSide], V (&result)[N]) {
  constexpr double kNear2 = kNear * kNear, kFar2 = kFar * kFar;
  constexpr double kOfNear = kScaled ? 1 / (2 * kNear2 * (kNear2 - kFar2)) : 1,
                   kOfFar = kScaled ? 1 / (2 * kFar2 * (kFar2 - kNear2)) : 1;
  const V near_even = hn::Add(at[1], at[2]), near_odd = hn::Sub(at[1], at[2]);
  const V far_even = hn::Add(at[3], at[4]), far_odd = hn::Sub(at[3], at[4]);
  const auto power = [&](double near, const V& of_near, double far, const V& of_far) HWY_ATTR
      __attribute__((always_inline)) {
    return hn::MulAdd(WinogradConstant(near), of_near, hn::Mul(WinogradConstant(far), of_far));
  };
  if constexpr (kScaled) {
    result[0] = hn::MulAdd(WinogradConstant(1 / (kNear2 * kFar2)), at[0], power(kOfNear, near_even, kOfFar, far_even));
  } else {
    result[0] = hn::Add(at[0], hn::Add(near_even, far_even));
  }
  result[1] = power(kOfNear * kNear, near_odd, kOfFar * kFar, far_odd);
  if constexpr (N > 2) result[2] = power(kOfNear * kNear2, near_even, kOfFar * kFar2, far_even);
  if constexpr (N > 3) result[3] = power(kOfNear * kNear * kNear2, near_odd, kOfFar * kFar * kFar2, far_odd);
  if constexpr (N > 4) result[4] = power(kOfNear * kNear2 * kNear2, near_even, kOfFar * kFar2 * kFar2, far_even);
  result[N - 1] = hn::Add(result[N - 1], at[5]);
}

// Both axes of one of the transforms above, `transform(from, to)`, from kFrom × kFrom to kTo × kTo: load(row, column),
// store(row, column, vector).
template <int kFrom, int kTo, typename Transform, typename Load, typename Store>
HWY_INLINE void WinogradBothAxes(Transform transform, Load load, Store store) {
  V half[kTo][kFrom];
  RIVULET_UNROLL
  for (int column = 0; column < kFrom; ++column) {
    V from[kFrom], to[kTo];
    RIVULET_UNROLL
    for (int row = 0; row < kFrom; ++row) from[row] = load(row, column);
    transform(from, to);
    RIVULET_UNROLL
    for (int row = 0; row < kTo; ++row) half[row][column] = to[row];
  }
  RIVULET_UNROLL
  for (int row = 0; row < kTo; ++row) {
    V to[kTo];
    transform(half[row], to);
    RIVULET_UNROLL
    for (int column = 0; column < kTo; ++column) store(row, column, to[column]);
  }
}

template <int kFrom, typename Transform, typename Load>
HWY_INLINE void WinogradToPoints(Transform transform, Load load, float* HWY_RESTRICT to, int64_t point) {
  WinogradBothAxes<kFrom, kWinogradSide>(transform, load, [=](int row, int column, V v) HWY_ATTR {
    hn::Store(v, D(), to + (row * kWinogradSide + column) * point);
  });
}

template <int kTo, typename Transform, typename Store>
HWY_INLINE void WinogradFromPoints(Transform transform, const float* HWY_RESTRICT from, int64_t point, Store store) {
  WinogradBothAxes<kWinogradSide, kTo>(
      transform,
      [=](int row, int column) HWY_ATTR { return hn::Load(D(), from + (row * kWinogradSide + column) * point); },
      store);
}

// The points of each channel of a tile from pixel(row, column), where that pixel's channels lie.
template <int kSide, typename Transform, typename Pixel>
HWY_INLINE void WinogradPixelsToPoints(Transform transform, Pixel pixel, int64_t channels, float* to, int64_t point) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t channel = 0;
  for (; channel + lanes <= channels; channel += lanes) {
    const auto load = [&](int row, int column) HWY_ATTR { return hn::LoadU(d, pixel(row, column) + channel); };
    WinogradToPoints<kSide>(transform, load, to + channel, point);
  }
  if (channel < channels) {
    const auto load = [&](int row, int column) HWY_ATTR {
      return LoadTail(d, pixel(row, column) + channel, static_cast<size_t>(channels - channel));
    };
    WinogradToPoints<kSide>(transform, load, to + channel, point);
  }
}

// to[point][tile][channel] of `count` tiles of kSide × kSide pixels, whose first is `above` and `before` the first of
// the tile's outputs. `outside` is what there is where no pixel is.
template <int kSide, typename Transform>
HWY_INLINE void WinogradTilesToPoints(const WinogradShape& s, Transform transform, const float* images, int64_t height,
                                      int64_t width, int64_t channels, int64_t above, int64_t before, int64_t first,
                                      int64_t count, const float* outside, float* to, int64_t point) {
  WinogradTile tile(s, first);
  for (int64_t i = 0; i < count; ++i, tile.Next(), to += WinogradShape::Whole(channels)) {
    const int64_t top = tile.top() - above, left = tile.left() - before;
    const float* corner = images + ((tile.image() * height + top) * width + left) * channels;
    if (top >= 0 && left >= 0 && top + kSide <= height && left + kSide <= width) {
      const auto pixel = [=](int row, int column) { return corner + (row * width + column) * channels; };
      WinogradPixelsToPoints<kSide>(transform, pixel, channels, to, point);
    } else {
      const float* pixels[kSide][kSide];
      for (int row = 0; row < kSide; ++row) {
        for (int column = 0; column < kSide; ++column) {
          const bool inside = top + row >= 0 && top + row < height && left + column >= 0 && left + column < width;
          pixels[row][column] = inside ? corner + (row * width + column) * channels : outside;
        }
      }
      const auto pixel = [&](int row, int column) { return pixels[row][column]; };
      WinogradPixelsToPoints<kSide>(transform, pixel, channels, to, point);
    }
  }
}

struct OfImage {
  HWY_INLINE void operator()(const V (&from)[kWinogradSide], V (&to)[kWinogradSide]) const {
    WinogradOfImage(from, to);
  }
};
template <bool kScaled>
struct Evaluated {
  template <int N>
  HWY_INLINE void operator()(const V (&from)[N], V (&to)[kWinogradSide]) const {
    WinogradEvaluate<kScaled>(from, to);
  }
};
template <bool kScaled>
struct Gathered {
  template <int N>
  HWY_INLINE void operator()(const V (&from)[kWinogradSide], V (&to)[N]) const {
    WinogradGather<kScaled>(from, to);
  }
};

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

// The outputs of `count` tiles from from[point][tile][filter], finished while they are in registers. With kPooled the
// result are the maxima of each 2×2 of them, in MaxPool's arithmetic: a tile begins at an even row and column, and has
// even sides, so that each window lies in one tile.
template <int kOutputs, bool kPooled>
void WinogradOutputTiles(const WinogradShape& s, const SumFinish& finish, const float* from, int64_t first,
                         int64_t count, float* result) {
  const D d;
  constexpr int kStep = kPooled ? 2 : 1;
  static_assert(kOutputs % kStep == 0);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), point = s.out_point();
  const int64_t height = s.out_height / kStep, width = s.out_width / kStep;  // what has no whole window is left out
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

// to[point][panel of filters][channel][filter], whole vectors: where there is no filter lie zeros.
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

// The filter's gradient from sums[point][channel][filter]. What is smaller than the rounding of its terms is 0: a
// weight that no product has reached has a gradient of exactly 0 in direct sums, and an optimiser that divides by the
// gradient's size, as Adam does, would make a whole step of the rounding that is left here.
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
    const int64_t turned =
        direction_ == ConvDirection::kBackwardInput ? s_.window * s_.window * s_.channels * s_.out_channels : 0;
    return static_cast<size_t>(elements_ + turned) * sizeof(float);
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
        float* turned = scratch + elements_;
        TurnFilter(first, s_.window * s_.window, s_.out_channels, s_.channels, 1, turned);
        HWY_DYNAMIC_DISPATCH(WinogradForward)(s_, SumFinish(), false, second, turned, result, scratch);
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

std::optional<WinogradShape> WinogradShapeOf(ConvDirection direction, const Window& w) {
  if (w.height != w.width || (w.width != 3 && w.width != 5) || w.groups != 1 || w.stride_height != 1 ||
      w.stride_width != 1 || w.dilation_height != 1 || w.dilation_width != 1)
    return std::nullopt;
  if (w.in_elements() == 0 || w.out_elements() == 0 || w.filter_elements() == 0) return std::nullopt;
  const Window c = ConvolvedWindow(direction, w);
  return WinogradShape{c.batch,    c.in_height,  c.in_width,  c.in_channels,  c.pad_top,
                       c.pad_left, c.out_height, c.out_width, c.out_channels, c.width};
}

// How many times faster than direct sums this is, about: both counted in the multiply-adds of a vector that direct sums
// do in the same time. What products and transforms cost is a fit to the presets' shapes, with AVX-512.
double WinogradGain(const WinogradShape& s, const Window& window) {
  constexpr double kProduct = 1.3, kPixelsOfTile = 600, kOutputsOfTile = 300, kFilter = 300;
  const auto vectors = [](int64_t row) { return static_cast<double>(row) / WinogradShape::kLanes; };
  const double tiles = static_cast<double>(s.tiles()), channels = static_cast<double>(s.channels);
  const double in = vectors(s.in_row()), out = vectors(s.out_row());
  const double direct = window.multiply_adds() / static_cast<double>(s.out_channels) * out;
  const double products = kProduct * kWinogradPoints * tiles * channels * out;
  const double transforms = tiles * (kPixelsOfTile * in + kOutputsOfTile * out) + kFilter * channels * out;
  return direct / (products + transforms);
}

Prepared PreparedWinograd(ConvDirection direction, const WinogradShape& shape, const Window& window,
                          const FusedOps& fused, bool pooled) {
  auto kernel = std::make_unique<WinogradKernel>(direction, shape, fused, pooled);
  Prepared prepared;
  prepared.scratch_bytes = kernel->scratch_bytes();
  prepared.kernel = std::move(kernel);
  prepared.implementation = window.width == 3 ? "hwy winograd 4x4" : "hwy winograd 2x2";
  prepared.flops = 2 * window.multiply_adds();  // what is asked for; fewer are carried out
  if (pooled) {
    prepared.implementation += ", epilogue and pool inside";
    return prepared;
  }
  return WithSumFinish(std::move(prepared), fused, window.batch * window.out_height * window.out_width,
                       window.out_channels);
}

}  // namespace

std::optional<Prepared> AnyWinogradConvolution(ConvDirection direction, const Window& window, const FusedOps& fused,
                                               bool pooled) {
  const std::optional<WinogradShape> shape = WinogradShapeOf(direction, window);
  if (!shape || (pooled && (direction != ConvDirection::kForward || !fused.bias))) return std::nullopt;
  return PreparedWinograd(direction, *shape, window, fused, pooled);
}

std::optional<Prepared> WinogradConvolution(ConvDirection direction, const Window& window, const FusedOps& fused,
                                            bool pooled) {
  const std::optional<WinogradShape> shape = WinogradShapeOf(direction, window);
  // More pairs of channels have a transformed filter of more than 9 MB, which is read once for 48 tiles.
  constexpr int64_t kMostPairs = 256 * 256;
  constexpr double kWorthwhile = 1.2;
  if (!shape || shape->channels * shape->out_channels > kMostPairs || WinogradGain(*shape, window) < kWorthwhile)
    return std::nullopt;
  return AnyWinogradConvolution(direction, window, fused, pooled);
}

}  // namespace rivulet
#endif
