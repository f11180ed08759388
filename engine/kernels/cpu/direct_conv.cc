#include "engine/kernels/cpu/direct_conv.h"

#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/epilogue.h"
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

// filter gradient[tap, i, o] = Σ over pixels, one image after the other.
void DirectFilter(const DirectShape& s, const float* images, const float* gradient, float* result, float* padded) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(D()));
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

class DirectKernel final : public Kernel {
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
