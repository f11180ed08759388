#include "engine/kernels/cpu/direct_conv.h"

#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/epilogue.h"
#include "engine/kernels/cpu/pooled_convolution.h"
#include "engine/program/memory_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/direct_conv.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/register_block-inl.h"
// clang-format on

#ifndef RIVULET_DIRECT_CONV_ONCE
#define RIVULET_DIRECT_CONV_ONCE
namespace rivulet {
// One image at a time lies padded in scratch: `padded_height` rows of `padded_width` pixels.
struct DirectShape {
  int64_t batch, height, width, channels;  // of the images that are padded
  int64_t pad_top, pad_left, padded_height, padded_width;
  int64_t out_height, out_width, out_channels;
  int64_t window_height, window_width, stride_height, stride_width, dilation_height, dilation_width;
  int64_t groups;

  int64_t row() const { return padded_width * channels; }
  int64_t group_in() const { return channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  // The elements of a window's row that lie side by side, in the image and in the filter: all of the row's, or those of
  // one tap and group.
  bool whole_rows() const { return dilation_width == 1 && groups == 1; }
  int64_t run() const { return whole_rows() ? window_width * channels : group_in(); }
  int64_t runs() const { return whole_rows() ? 1 : window_width; }  // in a row of the window
  size_t padded_bytes() const { return static_cast<size_t>(padded_height * row()) * sizeof(float); }
  // Filters of one channel so few that vectors of them would be mostly empty: sums over vectors of pixels instead,
  // where rows of sixteen fill them.
  bool few_filters_of_one_channel() const {
    constexpr int64_t kPixels = 16, kMost = 8;
    return channels == 1 && (window_width == 3 || window_width == 5) && window_height <= 7 && dilation_width == 1 &&
           stride_width == 1 && out_channels <= kMost && out_channels % 2 == 0 &&
           out_width * 4 >= (out_width + kPixels - 1) / kPixels * kPixels * 3;
  }
  // A plane of each filter's gradient, and room for a last vector.
  int64_t plane() const { return RoundUp64(static_cast<size_t>(out_height * out_width)); }
  size_t planes_bytes() const { return static_cast<size_t>(out_channels * plane()) * sizeof(float); }
};

// `padded` was zeroed before; only the inside changes from image to image.
inline void CopyInside(const DirectShape& s, const float* image, float* padded) {
  const int64_t rows = std::min(s.height, s.padded_height - s.pad_top);
  const int64_t columns = std::min(s.width, s.padded_width - s.pad_left);
  for (int64_t y = 0; y < rows; ++y) {
    std::copy_n(image + y * s.width * s.channels, columns * s.channels,
                padded + (s.pad_top + y) * s.row() + s.pad_left * s.channels);
  }
}
}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

// out[pixel, o] = Σ over the window's rows and their elements.
void DirectForward(const DirectShape& s, const FusedOps& fused, const float* bias, const float* images,
                   const float* filter, float* out, float* padded) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(D()));
  const int64_t share = EqualShare(s.out_width);
  BlockShape block;
  block.a_row = s.stride_width * s.channels;
  block.a_k = 1;
  block.n = s.out_channels;
  block.depth = s.run();
  // Rows of the window are the segments of one block; or the taps of a row are, and the rows are added to each other.
  int64_t passes = 1, a_pass = 0, b_pass = 0;
  if (s.whole_rows()) {
    block.segments = s.window_height;
    block.a_segment = s.dilation_height * s.row();
    block.b_segment = s.run() * s.out_channels;
  } else {
    block.segments = s.window_width;
    block.a_segment = s.dilation_width * s.channels;
    block.b_segment = s.run() * s.out_channels;
    passes = s.window_height;
    a_pass = s.dilation_height * s.row();
    b_pass = s.window_width * block.b_segment;
  }
  std::fill_n(padded, s.padded_height * s.row(), 0.0f);
  for (int64_t image = 0; image < s.batch; ++image) {
    CopyInside(s, images + image * s.height * s.width * s.channels, padded);
    for (int64_t y = 0; y < s.out_height; ++y, out += s.out_width * s.out_channels) {
      const float* rows = padded + y * s.stride_height * s.row();
      for (int64_t group = 0; group < s.groups; ++group) {
        const float* of_group = rows + group * s.group_in();
        const int64_t end = (group + 1) * s.group_out();
        for (int64_t column = group * s.group_out(); column < end; column += width) {
          const int64_t columns = std::min(width, end - column);
          for (int64_t x = 0; x < s.out_width; x += share) {
            const BlockFn run = BlockFor(std::min(share, s.out_width - x));
            for (int64_t pass = 0; pass < passes; ++pass) {
              block.add = pass > 0;
              run(block, of_group + x * block.a_row + pass * a_pass, filter + column + pass * b_pass,
                  out + x * s.out_channels + column, columns);
            }
          }
        }
      }
    }
    if (fused.any()) {
      const int64_t pixels = s.out_height * s.out_width;
      ApplyEpilogue<float>(fused, bias, out - pixels * s.out_channels, pixels, s.out_channels);
    }
  }
}

// Adds what one image of one channel gives to the gradients of kHeight rows of the window, kWidth taps each: sums of at
// most a vector of filters, all in registers, where a row by itself would wait for each sum to take the next product.
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
  constexpr int kHeight = std::min(kWidth, (2 * kRows + 1) / kWidth);  // one sum more than a register block has
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
// Gradients of 2 · kPairs filters, pixel by pixel, into as many planes.
template <int kPairs>
HWY_INLINE void IntoPlanes(const float* HWY_RESTRICT gradient, int64_t pixels, float* HWY_RESTRICT planes,
                           int64_t plane) {
  const D d;
  const hn::Repartition<double, D> dp;  // a pair of filters
  using Pairs = hn::Vec<decltype(dp)>;
  constexpr int64_t kLanes = hn::MaxLanes(D()), kFilters = 2 * kPairs;
  const auto load = [=](const float* from, Pairs(&pairs)[kPairs]) HWY_ATTR {
    const double* const at = reinterpret_cast<const double*>(from);  // read by vectors alone
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

// Adds what one image gives to one row of the window, kWidth taps and kFilters filters: `sums` has a vector of pixels
// for each tap and filter, of a tap's filters `step` vectors from the next tap's. Columns beyond the row's end are not
// read, since not even a product with 0 may let them in.
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

// Of 6 filters a vector of them is 10 lanes of nothing, and one of pixels of a row of 28 has 4 in 32: so the gradient
// is turned into planes, and lanes are summed once, at the end.
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
#define RIVULET_FILTERS_BY_PIXELS 0  // of 8 lanes 6 filters fill enough
#endif

// filter gradient[tap, i, o] = Σ over pixels, one image after the other.
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
namespace {

HWY_EXPORT(DirectForward);
HWY_EXPORT(DirectFilter);

class DirectKernel final : public Kernel, public ImageByImage {
 public:
  DirectKernel(ConvDirection direction, const DirectShape& shape, const FusedOps& fused)
      : direction_(direction), s_(shape), fused_(fused) {}

  Status Run(const KernelContext& context) const override {
    const float* first = reinterpret_cast<const float*>(context.inputs[0]);
    const float* second = reinterpret_cast<const float*>(context.inputs[1]);
    float* result = reinterpret_cast<float*>(context.outputs[0]);
    float* padded = reinterpret_cast<float*>(context.scratch);
    switch (direction_) {
      case ConvDirection::kForward: {
        const float* bias = fused_.bias ? reinterpret_cast<const float*>(context.inputs[2]) : nullptr;
        HWY_DYNAMIC_DISPATCH(DirectForward)(s_, fused_, bias, first, second, result, padded);
        break;
      }
      case ConvDirection::kBackwardFilter:
        HWY_DYNAMIC_DISPATCH(DirectFilter)(s_, first, second, result, padded);
        break;
      case ConvDirection::kBackwardInput: {
        float* turned = reinterpret_cast<float*>(context.scratch + RoundUp64(s_.padded_bytes()));
        Turn(first, turned);
        HWY_DYNAMIC_DISPATCH(DirectForward)(s_, {}, nullptr, second, turned, result, padded);
        break;
      }
    }
    return {};
  }
  std::unique_ptr<const Kernel> OfOneImage() const override {
    if (direction_ != ConvDirection::kForward) return nullptr;
    DirectShape one = s_;
    one.batch = 1;
    return std::make_unique<DirectKernel>(direction_, one, fused_);
  }

 private:
  // The filter [y, x, in / groups, out] as [height-1-y, width-1-x, out / groups, in]: a convolution of the gradient
  // with it gives the input's.
  void Turn(const float* filter, float* turned) const {
    const int64_t ins = s_.out_channels, outs = s_.channels;  // the shape is that of the turned convolution
    const int64_t in_group = s_.group_out(), out_group = s_.group_in();
    const int64_t taps = s_.window_height * s_.window_width;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const float* from = filter + (taps - 1 - tap) * in_group * outs;
      float* to = turned + tap * out_group * ins;
      for (int64_t group = 0; group < s_.groups; ++group) {
        for (int64_t i = 0; i < in_group; ++i) {
          for (int64_t o = 0; o < out_group; ++o)
            to[o * ins + group * in_group + i] = from[i * outs + group * out_group + o];
        }
      }
    }
  }
  ConvDirection direction_;
  DirectShape s_;
  FusedOps fused_;
};

}  // namespace

std::optional<Prepared> DirectConvolution(ConvDirection direction, const Window& w, const FusedOps& fused) {
  if (w.out_elements() == 0 || w.in_elements() == 0 || w.filter_elements() == 0) return std::nullopt;
  const int64_t reach_height = (w.height - 1) * w.dilation_height + 1;
  const int64_t reach_width = (w.width - 1) * w.dilation_width + 1;
  DirectShape s;
  s.batch = w.batch;
  s.window_height = w.height;
  s.window_width = w.width;
  s.dilation_height = w.dilation_height;
  s.dilation_width = w.dilation_width;
  s.groups = w.groups;
  Prepared prepared;
  if (direction == ConvDirection::kBackwardInput) {
    if (w.stride_height != 1 || w.stride_width != 1 || w.pad_top >= reach_height || w.pad_left >= reach_width)
      return std::nullopt;
    s.height = w.out_height;
    s.width = w.out_width;
    s.channels = w.out_channels;
    s.pad_top = reach_height - 1 - w.pad_top;
    s.pad_left = reach_width - 1 - w.pad_left;
    s.out_height = w.in_height;
    s.out_width = w.in_width;
    s.out_channels = w.in_channels;
    s.stride_height = s.stride_width = 1;
  } else {
    s.height = w.in_height;
    s.width = w.in_width;
    s.channels = w.in_channels;
    s.pad_top = w.pad_top;
    s.pad_left = w.pad_left;
    s.out_height = w.out_height;
    s.out_width = w.out_width;
    s.out_channels = w.out_channels;
    s.stride_height = w.stride_height;
    s.stride_width = w.stride_width;
  }
  s.padded_height = (s.out_height - 1) * s.stride_height + reach_height;
  s.padded_width = (s.out_width - 1) * s.stride_width + reach_width;
  // Where padding outweighs the image, the plain loops skip what is not there.
  if (s.padded_height - s.pad_top < 0 || s.padded_width - s.pad_left < 0 || s.padded_height > 4 * s.height + 64 ||
      s.padded_width > 4 * s.width + 64)
    return std::nullopt;
  prepared.scratch_bytes = s.padded_bytes();
  if (direction == ConvDirection::kBackwardFilter && s.few_filters_of_one_channel())
    prepared.scratch_bytes =
        RoundUp64(static_cast<size_t>(s.padded_height * s.row())) * sizeof(float) + s.planes_bytes();
  if (direction == ConvDirection::kBackwardInput) {
    prepared.scratch_bytes = RoundUp64(s.padded_bytes()) + static_cast<size_t>(w.filter_elements()) * sizeof(float);
  }
  prepared.kernel = std::make_unique<DirectKernel>(direction, s, fused);
  prepared.implementation = "hwy direct";
  prepared.flops = 2 * w.multiply_adds();
  return prepared;
}

}  // namespace rivulet
#endif
