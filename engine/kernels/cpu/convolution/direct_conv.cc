#include "engine/kernels/cpu/convolution/direct_conv.h"

#include <algorithm>

#include "engine/kernels/cpu/convolution/direct_shape.h"
#include "engine/kernels/cpu/convolution/epilogue.h"
#include "engine/kernels/cpu/convolution/pooled_convolution.h"
#include "engine/kernels/cpu/convolution/rotated_filter.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/convolution/direct_conv.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/register_block-inl.h"
// clang-format on

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
  // Either rows of the window are the segments of one block, or taps of a row are, and rows are added to each other.
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

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(DirectForward);

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
        DirectFilterGradient(s_, first, second, result, padded);
        break;
      case ConvDirection::kBackwardInput: {
        float* rotated = reinterpret_cast<float*>(context.scratch + RoundUp64(s_.padded_bytes()));
        RotateFilter(first, s_.window_height * s_.window_width, s_.out_channels, s_.channels, s_.groups, rotated);
        HWY_DYNAMIC_DISPATCH(DirectForward)(s_, {}, nullptr, second, rotated, result, padded);
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
  ConvDirection direction_;
  DirectShape s_;
  FusedOps fused_;
};

}  // namespace

std::optional<Prepared> DirectConvolution(ConvDirection direction, const Window& w, const FusedOps& fused) {
  if (w.out_elements() == 0 || w.in_elements() == 0 || w.filter_elements() == 0) return std::nullopt;
  if (direction == ConvDirection::kBackwardInput && (w.stride_height != 1 || w.stride_width != 1)) return std::nullopt;
  const Window c = ConvolvedWindow(direction, w);
  if (c.pad_top < 0 || c.pad_left < 0) return std::nullopt;
  const int64_t reach_height = (w.height - 1) * w.dilation_height + 1;
  const int64_t reach_width = (w.width - 1) * w.dilation_width + 1;
  DirectShape s;
  s.batch = c.batch;
  s.height = c.in_height;
  s.width = c.in_width;
  s.channels = c.in_channels;
  s.pad_top = c.pad_top;
  s.pad_left = c.pad_left;
  s.out_height = c.out_height;
  s.out_width = c.out_width;
  s.out_channels = c.out_channels;
  s.window_height = c.height;
  s.window_width = c.width;
  s.stride_height = c.stride_height;
  s.stride_width = c.stride_width;
  s.dilation_height = c.dilation_height;
  s.dilation_width = c.dilation_width;
  s.groups = c.groups;
  s.padded_height = (s.out_height - 1) * s.stride_height + reach_height;
  s.padded_width = (s.out_width - 1) * s.stride_width + reach_width;
  // If padding outweighs the image, the plain loops are better, because they skip it.
  if (s.padded_height - s.pad_top < 0 || s.padded_width - s.pad_left < 0 || s.padded_height > 4 * s.height + 64 ||
      s.padded_width > 4 * s.width + 64)
    return std::nullopt;
  Prepared prepared;
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
