#include "engine/kernels/cpu/direct_conv.h"

#include <algorithm>
#include <cstring>

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
  int64_t window_height, window_width, stride_height, stride_width;

  int64_t row() const { return padded_width * channels; }
  int64_t tap_row() const { return window_width * channels; }  // elements of a window's row
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
void DirectForward(const DirectShape& s, const float* images, const float* filter, float* out, float* padded) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(D()));
  const int64_t share = EqualShare(s.out_width);
  BlockShape block;
  block.a_row = s.stride_width * s.channels;
  block.a_k = 1;
  block.a_segment = s.row();
  block.b_segment = s.tap_row() * s.out_channels;
  block.n = s.out_channels;
  block.depth = s.tap_row();
  block.segments = s.window_height;
  std::fill_n(padded, s.padded_height * s.row(), 0.0f);
  for (int64_t image = 0; image < s.batch; ++image) {
    CopyInside(s, images + image * s.height * s.width * s.channels, padded);
    for (int64_t y = 0; y < s.out_height; ++y, out += s.out_width * s.out_channels) {
      const float* rows = padded + y * s.stride_height * s.row();
      for (int64_t column = 0; column < s.out_channels; column += width) {
        const int64_t columns = std::min(width, s.out_channels - column);
        for (int64_t x = 0; x < s.out_width; x += share) {
          BlockFor(std::min(share, s.out_width - x))(block, rows + x * block.a_row, filter + column,
                                                     out + x * s.out_channels + column, columns);
        }
      }
    }
  }
}

// filter gradient[tap, i, o] = Σ over pixels, one image after the other.
void DirectFilter(const DirectShape& s, const float* images, const float* gradient, float* result, float* padded) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(D()));
  const int64_t share = EqualShare(s.tap_row());
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
      for (int64_t tap = 0; tap < s.tap_row(); tap += share) {
        const BlockFn run = BlockFor(std::min(share, s.tap_row() - tap));
        float* rows = result + (y * s.tap_row() + tap) * s.out_channels;
        for (int64_t column = 0; column < s.out_channels; column += width) {
          run(block, padded + y * s.row() + tap, of_image + column, rows + column,
              std::min(width, s.out_channels - column));
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
  DirectKernel(ConvDirection direction, const DirectShape& shape) : direction_(direction), s_(shape) {}

  Status Run(const KernelContext& context) const override {
    const float* first = reinterpret_cast<const float*>(context.inputs[0]);
    const float* second = reinterpret_cast<const float*>(context.inputs[1]);
    float* result = reinterpret_cast<float*>(context.outputs[0]);
    float* padded = reinterpret_cast<float*>(context.scratch);
    switch (direction_) {
      case ConvDirection::kForward:
        HWY_DYNAMIC_DISPATCH(DirectForward)(s_, first, second, result, padded);
        break;
      case ConvDirection::kBackwardFilter:
        HWY_DYNAMIC_DISPATCH(DirectFilter)(s_, first, second, result, padded);
        break;
      case ConvDirection::kBackwardInput: {
        float* turned = reinterpret_cast<float*>(context.scratch + RoundUp64(s_.padded_bytes()));
        Turn(first, turned);
        HWY_DYNAMIC_DISPATCH(DirectForward)(s_, second, turned, result, padded);
        break;
      }
    }
    return {};
  }

 private:
  // The filter [y, x, in, out] as [height-1-y, width-1-x, out, in]: a convolution of the gradient with it gives the
  // input's.
  void Turn(const float* filter, float* turned) const {
    const int64_t in = s_.out_channels, out = s_.channels;  // the shape is that of the turned convolution
    const int64_t taps = s_.window_height * s_.window_width;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const float* from = filter + (taps - 1 - tap) * in * out;
      float* to = turned + tap * in * out;
      for (int64_t i = 0; i < in; ++i) {
        for (int64_t o = 0; o < out; ++o) to[o * in + i] = from[i * out + o];
      }
    }
  }
  ConvDirection direction_;
  DirectShape s_;
};

}  // namespace

std::optional<Prepared> DirectConvolution(ConvDirection direction, const Window& w) {
  if (w.dilation_height != 1 || w.dilation_width != 1 || w.out_elements() == 0 || w.in_elements() == 0)
    return std::nullopt;
  DirectShape s;
  s.batch = w.batch;
  s.window_height = w.height;
  s.window_width = w.width;
  Prepared prepared;
  if (direction == ConvDirection::kBackwardInput) {
    if (w.stride_height != 1 || w.stride_width != 1 || w.pad_top >= w.height || w.pad_left >= w.width)
      return std::nullopt;
    s.height = w.out_height;
    s.width = w.out_width;
    s.channels = w.out_channels;
    s.pad_top = w.height - 1 - w.pad_top;
    s.pad_left = w.width - 1 - w.pad_left;
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
  s.padded_height = (s.out_height - 1) * s.stride_height + s.window_height;
  s.padded_width = (s.out_width - 1) * s.stride_width + s.window_width;
  prepared.scratch_bytes = s.padded_bytes();
  if (direction == ConvDirection::kBackwardInput) {
    prepared.scratch_bytes = RoundUp64(s.padded_bytes()) + static_cast<size_t>(w.filter_elements()) * sizeof(float);
  }
  prepared.kernel = std::make_unique<DirectKernel>(direction, s);
  prepared.implementation = "hwy direct";
  prepared.flops = 2 * w.multiply_adds();
  return prepared;
}

}  // namespace rivulet
#endif
