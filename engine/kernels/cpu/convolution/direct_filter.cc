// Filter gradients of direct convolutions: a register block over the elements of a window's row and filters, or, for
// images with one channel, sums that all stay in registers.
#include <algorithm>
#include <type_traits>

#include "engine/kernels/cpu/convolution/direct_shape.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/convolution/direct_filter.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/register_block-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

// Adds one single-channel image's contribution to the gradients of kHeight rows of the window, kWidth taps each: sums
// of at most a vector of filters, all in registers. With a single row, each sum would wait for its previous product.
template <int kHeight, int kWidth>
HWY_INLINE void FilterRows(const DirectShape& s, const float* HWY_RESTRICT taps, const float* HWY_RESTRICT gradient,
                           float* HWY_RESTRICT result, bool add) {
  const D d;
  const size_t filters = static_cast<size_t>(s.out_channels);
  const int64_t line = s.dilation_height * s.row();
  V sum[kHeight][kWidth];
  RIVULET_UNROLL
  for (int y = 0; y < kHeight; ++y) {
    RIVULET_UNROLL
    for (int x = 0; x < kWidth; ++x)
      sum[y][x] = add ? LoadTail(d, result + (y * kWidth + x) * s.out_channels, filters) : hn::Zero(d);
  }
  for (int64_t row = 0; row < s.out_height; ++row) {
    const float* at = taps + row * s.stride_height * s.row();
    for (int64_t pixel = 0; pixel < s.out_width; ++pixel, at += s.stride_width, gradient += filters) {
      const V of_pixel = LoadTail(d, gradient, filters);
      RIVULET_UNROLL
      for (int y = 0; y < kHeight; ++y) {
        RIVULET_UNROLL
        for (int x = 0; x < kWidth; ++x) sum[y][x] = hn::MulAdd(hn::Set(d, at[y * line + x]), of_pixel, sum[y][x]);
      }
    }
  }
  RIVULET_UNROLL
  for (int y = 0; y < kHeight; ++y) {
    RIVULET_UNROLL
    for (int x = 0; x < kWidth; ++x) StoreTail(sum[y][x], d, result + (y * kWidth + x) * s.out_channels, filters);
  }
}

template <int kWidth>
void FilterOfOneChannel(const DirectShape& s, const float* images, const float* gradient, float* result,
                        float* padded) {
  constexpr int kHeight = std::min(kWidth, (2 * kRows + 1) / kWidth);  // one sum more than a register block
  std::fill_n(padded, s.padded_height * s.row(), 0.0f);
  for (int64_t image = 0; image < s.batch; ++image) {
    CopyInside(s, images + image * s.height * s.width, padded);
    const float* of_image = gradient + image * s.out_height * s.out_width * s.out_channels;
    const auto add = [&]<int kRowsAtOnce>(int64_t y) HWY_ATTR {
      FilterRows<kRowsAtOnce, kWidth>(s, padded + y * s.dilation_height * s.row(), of_image,
                                      result + y * kWidth * s.out_channels, image > 0);
    };
    int64_t y = 0;
    for (; y + kHeight <= s.window_height; y += kHeight) add.template operator()<kHeight>(y);
    for (; y < s.window_height; ++y) add.template operator()<1>(y);
  }
}

#if HWY_TARGET <= HWY_AVX3
#define RIVULET_FILTERS_BY_PIXELS 1
// Stores gradients of 2 · kPairs filters, pixel by pixel, to as many planes.
template <int kPairs>
HWY_INLINE void IntoPlanes(const float* HWY_RESTRICT gradient, int64_t pixels, float* HWY_RESTRICT planes,
                           int64_t plane) {
  const D d;
  const hn::Repartition<double, D> dp;  // a pair of filters
  using Pairs = hn::Vec<decltype(dp)>;
  constexpr int64_t kLanes = hn::MaxLanes(D()), kFilters = 2 * kPairs;
  const auto load = [=](const float* from, Pairs(&pairs)[kPairs]) HWY_ATTR {
    const double* const at = reinterpret_cast<const double*>(from);  // accessed by vectors only
    if constexpr (kPairs == 1) pairs[0] = hn::LoadU(dp, at);
    if constexpr (kPairs == 2) hn::LoadInterleaved2(dp, at, pairs[0], pairs[1]);
    if constexpr (kPairs == 3) hn::LoadInterleaved3(dp, at, pairs[0], pairs[1], pairs[2]);
    if constexpr (kPairs == 4) hn::LoadInterleaved4(dp, at, pairs[0], pairs[1], pairs[2], pairs[3]);
  };
  HWY_ALIGN float last[kLanes * kFilters] = {};
  for (int64_t i = 0; i < pixels; i += kLanes, planes += kLanes, gradient += kLanes * kFilters) {
    const float* from = gradient;
    if (i + kLanes > pixels) {
      std::copy_n(gradient, (pixels - i) * kFilters, last);
      from = last;
    }
    Pairs low[kPairs], high[kPairs];
    load(from, low);
    load(from + kLanes / 2 * kFilters, high);
    RIVULET_UNROLL
    for (int p = 0; p < kPairs; ++p) {
      const V first = hn::BitCast(d, low[p]), second = hn::BitCast(d, high[p]);
      hn::StoreU(hn::ConcatEven(d, second, first), d, planes + 2 * p * plane);
      hn::StoreU(hn::ConcatOdd(d, second, first), d, planes + (2 * p + 1) * plane);
    }
  }
}

// Adds one image's contribution to one row of the window, kWidth taps and kFilters filters. `sums` has a vector of
// pixels for each tap and filter; taps are `step` vectors apart. Columns beyond the row's end are not read, because a
// product with 0 would still let NaN in.
template <int kWidth, int kFilters>
HWY_INLINE void SumsOfPixels(const DirectShape& s, const float* HWY_RESTRICT taps, const float* HWY_RESTRICT planes,
                             float* HWY_RESTRICT sums, int64_t step, bool add) {
  const D d;
  constexpr int64_t kLanes = hn::MaxLanes(D());
  V sum[kWidth][kFilters];
  RIVULET_UNROLL
  for (int x = 0; x < kWidth; ++x) {
    RIVULET_UNROLL
    for (int f = 0; f < kFilters; ++f) sum[x][f] = add ? hn::LoadU(d, sums + (x * step + f) * kLanes) : hn::Zero(d);
  }
  const int64_t plane = s.plane(), width = s.out_width;
  const auto multiply = [&](auto load, const float* at, const float* gradient) HWY_ATTR {
    V of_filter[kFilters];
    RIVULET_UNROLL
    for (int f = 0; f < kFilters; ++f) of_filter[f] = load(gradient + f * plane);
    RIVULET_UNROLL
    for (int x = 0; x < kWidth; ++x) {
      const V pixels = load(at + x);
      RIVULET_UNROLL
      for (int f = 0; f < kFilters; ++f) sum[x][f] = hn::MulAdd(pixels, of_filter[f], sum[x][f]);
    }
  };
  for (int64_t row = 0; row < s.out_height; ++row, planes += width) {
    const float* const at = taps + row * s.stride_height * s.row();
    int64_t x = 0;
    for (; x + kLanes <= width; x += kLanes)
      multiply([=](const float* p) HWY_ATTR { return hn::LoadU(d, p); }, at + x, planes + x);
    if (x < width) {
      const size_t rest = static_cast<size_t>(width - x);
      multiply([=](const float* p) HWY_ATTR { return LoadTail(d, p, rest); }, at + x, planes + x);
    }
  }
  RIVULET_UNROLL
  for (int x = 0; x < kWidth; ++x) {
    RIVULET_UNROLL
    for (int f = 0; f < kFilters; ++f) hn::StoreU(sum[x][f], d, sums + (x * step + f) * kLanes);
  }
}

// With 6 filters, a vector of filters has 10 unused lanes, and a vector of pixels in a row of 28 has 4 unused of 32: so
// the gradient is transposed to planes, and lanes are summed once, at the end.
template <int kWidth, int kPairs>
void FewFiltersOfOneChannel(const DirectShape& s, const float* images, const float* gradient, float* result,
                            float* padded, float* planes) {
  const D d;
  constexpr int kFilters = 2 * kPairs, kAtOnce = kFilters == 6 ? 3 : std::min(kFilters, 4);
  constexpr int64_t kLanes = hn::MaxLanes(D()), kMostRows = 7;
  HWY_ALIGN float sums[kMostRows * kWidth * kFilters * kLanes];
  std::fill_n(padded, s.padded_height * s.row(), 0.0f);
  for (int64_t image = 0; image < s.batch; ++image) {
    CopyInside(s, images + image * s.height * s.width, padded);
    const int64_t pixels = s.out_height * s.out_width;
    IntoPlanes<kPairs>(gradient + image * pixels * kFilters, pixels, planes, s.plane());
    for (int64_t y = 0; y < s.window_height; ++y) {
      for (int f = 0; f < kFilters; f += kAtOnce)
        SumsOfPixels<kWidth, kAtOnce>(s, padded + y * s.dilation_height * s.row(), planes + f * s.plane(),
                                      sums + (y * kWidth * kFilters + f) * kLanes, kFilters, image > 0);
    }
  }
  for (int64_t i = 0; i < s.window_height * kWidth * kFilters; ++i)
    result[i] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, sums + i * kLanes)));
}

template <int kWidth>
void FewFiltersOfOneChannel(const DirectShape& s, const float* images, const float* gradient, float* result,
                            float* padded, float* planes) {
  switch (s.out_channels) {
    case 2:
      return FewFiltersOfOneChannel<kWidth, 1>(s, images, gradient, result, padded, planes);
    case 4:
      return FewFiltersOfOneChannel<kWidth, 2>(s, images, gradient, result, padded, planes);
    case 6:
      return FewFiltersOfOneChannel<kWidth, 3>(s, images, gradient, result, padded, planes);
    default:
      return FewFiltersOfOneChannel<kWidth, 4>(s, images, gradient, result, padded, planes);
  }
}
#else
#define RIVULET_FILTERS_BY_PIXELS 0  // 6 filters fill enough of 8 lanes
#endif

void DirectFilter(const DirectShape& s, const float* images, const float* gradient, float* result, float* padded) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(D()));
#if RIVULET_FILTERS_BY_PIXELS
  if (s.few_filters_of_one_channel()) {
    float* const planes = padded + RoundUp64(static_cast<size_t>(s.padded_height * s.row()));
    return s.window_width == 3 ? FewFiltersOfOneChannel<3>(s, images, gradient, result, padded, planes)
                               : FewFiltersOfOneChannel<5>(s, images, gradient, result, padded, planes);
  }
#endif
#undef RIVULET_FILTERS_BY_PIXELS
  if (s.channels == 1 && s.dilation_width == 1 && s.out_channels <= width / 2) {
    if (s.window_width == 3) return FilterOfOneChannel<3>(s, images, gradient, result, padded);
    if (s.window_width == 5) return FilterOfOneChannel<5>(s, images, gradient, result, padded);
  }
  const int64_t share = EqualShare(s.run());
  BlockShape block;
  block.a_row = 1;
  block.a_k = s.stride_width * s.channels;
  block.a_segment = s.stride_height * s.row();
  block.b_segment = s.out_width * s.out_channels;
  block.n = s.out_channels;
  block.depth = s.out_width;
  block.segments = s.out_height;
  std::fill_n(padded, s.padded_height * s.row(), 0.0f);
  for (int64_t image = 0; image < s.batch; ++image) {
    CopyInside(s, images + image * s.height * s.width * s.channels, padded);
    const float* of_image = gradient + image * s.out_height * s.out_width * s.out_channels;
    block.add = image > 0;
    for (int64_t y = 0; y < s.window_height; ++y) {
      for (int64_t x = 0; x < s.runs(); ++x) {
        const float* taps = padded + y * s.dilation_height * s.row() + x * s.dilation_width * s.channels;
        float* rows = result + (y * s.runs() + x) * s.run() * s.out_channels;
        for (int64_t i = 0; i < s.run(); i += share) {
          const BlockFn run = BlockFor(std::min(share, s.run() - i));
          for (int64_t group = 0; group < s.groups; ++group) {
            const int64_t end = (group + 1) * s.group_out();
            for (int64_t column = group * s.group_out(); column < end; column += width) {
              run(block, taps + group * s.group_in() + i, of_image + column, rows + i * s.out_channels + column,
                  std::min(width, end - column));
            }
          }
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(DirectFilter);

void DirectFilterGradient(const DirectShape& s, const float* images, const float* gradient, float* result,
                          float* padded) {
  HWY_DYNAMIC_DISPATCH(DirectFilter)(s, images, gradient, result, padded);
}

}  // namespace rivulet
#endif
