// Winograd's transforms (winograd.h) in the vectors of register blocks, which multiply the results: along one axis,
// along both, and for an image's tiles. Included once per target (without a usual include guard).
#include "engine/kernels/cpu/convolution/winograd_shape.h"
#include "engine/kernels/cpu/vector/register_block-inl.h"

#if defined(RIVULET_WINOGRAD_TRANSFORMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_WINOGRAD_TRANSFORMS_INL_H_
#undef RIVULET_WINOGRAD_TRANSFORMS_INL_H_
#else
#define RIVULET_WINOGRAD_TRANSFORMS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

// The points of one axis are 0, ±kNear, ±kFar and infinity. Of all such pairs in sixteenths these lose the fewest bits;
// the usual ±1 and ±2 lose two to three times as many.
constexpr double kNear = 11.0 / 16, kFar = 3.0 / 2;

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

// Applies one of the transforms above, `transform(from, to)`, along both axes, from kFrom × kFrom to kTo × kTo:
// load(row, column), store(row, column, vector).
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

// The points of each channel of a tile; pixel(row, column) gives the address of that pixel's channels.
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

// to[point][tile][channel] for `count` tiles of kSide × kSide pixels that start `above` and `before` the tile's first
// output. `outside` is used for pixels outside the image.
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

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
