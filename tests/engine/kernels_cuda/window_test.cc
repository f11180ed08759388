// Convolutions, depthwise convolutions and pools, forward and back.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/kernels_cuda/op_case.h"
#include "tests/gpu_kernels/convolution_sizes.h"

namespace rivulet::testing {
namespace {

struct Problem {
  int64_t batch, height, width, in, out, kernel_height, kernel_width;
  int64_t stride_height = 1, stride_width = 1, dilation = 1;
  std::string padding = "SAME";

  int64_t Extent(int64_t size, int64_t window, int64_t stride) const {
    if (padding == "SAME") return (size + stride - 1) / stride;
    return (size - (window - 1) * dilation - 1) / stride + 1;
  }
  Shape Image() const { return {batch, height, width, in}; }
  Shape Result(int64_t channels) const {
    return {batch, Extent(height, kernel_height, stride_height), Extent(width, kernel_width, stride_width), channels};
  }
  Shape Filter(int64_t channels) const { return {kernel_height, kernel_width, in, channels}; }
  AttrMap Attrs() const {
    return {{"strides", std::vector<int64_t>{1, stride_height, stride_width, 1}},
            {"dilations", std::vector<int64_t>{1, dilation, dilation, 1}},
            {"padding", padding}};
  }
  std::string Name() const {
    return fmt::format("{} {} s{},{} d{} {}", Image().ToString(), Filter(out).ToString(), stride_height, stride_width,
                       dilation, padding);
  }
};

Tensor SizesOf(const Shape& shape) {
  std::vector<int32_t> sizes;
  for (const int64_t dim : shape.dims()) sizes.push_back(static_cast<int32_t>(dim));
  return Ints(sizes);
}

const std::vector<Problem>& Problems() {
  static const std::vector<Problem> problems = {
      {2, 9, 8, 3, 5, 3, 3},
      {2, 9, 8, 3, 5, 3, 3, 1, 1, 1, "VALID"},
      {1, 7, 7, 1, 33, 5, 5},
      {2, 8, 8, 4, 6, 3, 3, 2, 2},
      {1, 10, 9, 2, 7, 3, 2, 2, 1, 1, "VALID"},
      {1, 11, 11, 3, 4, 3, 3, 1, 1, 2},
      {3, 5, 5, 17, 20, 1, 1},
      {1, 6, 6, 5, 8, 1, 1, 2, 2},
      {1, 4, 4, 2, 3, 7, 7},
      {0, 5, 5, 2, 3, 3, 3},
  };
  return problems;
}

void CheckConvolution(const Problem& p, bool tf32 = false) {
  const auto floats = [&](const Shape& shape, uint32_t seed) {
    return tf32 ? RoundedToTf32(Floats(shape, seed)) : Floats(shape, seed);
  };
  const GpuOptions device{.allow_tf32 = tf32};
  CheckOnGpu({.op = "Conv2D",
              .inputs =
                  [&](uint32_t s) {
                    return std::vector{floats(p.Image(), s), floats(p.Filter(p.out), s + 9)};
                  },
              .attrs = p.Attrs(),
              .tolerance = 2e-5,
              .name = p.Name(),
              .device = device});
  CheckOnGpu({.op = "Conv2DBackpropInput",
              .inputs =
                  [&](uint32_t s) {
                    return std::vector{SizesOf(p.Image()), floats(p.Filter(p.out), s), floats(p.Result(p.out), s + 9)};
                  },
              .attrs = p.Attrs(),
              .constants = {0},
              .tolerance = 2e-5,
              .name = p.Name(),
              .device = device});
  CheckOnGpu({.op = "Conv2DBackpropFilter",
              .inputs =
                  [&](uint32_t s) {
                    return std::vector{floats(p.Image(), s), SizesOf(p.Filter(p.out)), floats(p.Result(p.out), s + 9)};
                  },
              .attrs = p.Attrs(),
              .constants = {1},
              .tolerance = 4e-5,
              .name = p.Name(),
              .device = device});
}

TEST(GpuConvolutionTest, ForwardAndBack_AnyWindow_AreTheCpus) {
  for (const Problem& p : Problems()) CheckConvolution(p);
}

TEST(GpuConvolutionTest, Tf32_OfFactorsThatItHolds_IsTheCpus) {
  for (const Problem& p : Problems()) CheckConvolution(p, true);
  CheckConvolution({2, 17, 16, 4, 70, 3, 3}, true);
  CheckConvolution({2, 17, 16, 4, 130, 1, 2}, true);
}

// More pixels than the largest tile has rows, and more channels than the widest has columns.
TEST(GpuConvolutionTest, EveryTile_IsTheCpus) {
  CheckConvolution({2, 17, 16, 4, 70, 3, 3});
  CheckConvolution({2, 17, 16, 4, 130, 1, 2});
}

// So many pixels, and so many taps, that their sums are cut into chunks.
TEST(GpuConvolutionTest, LongSums_AreTheCpus) {
  CheckConvolution({2, 24, 23, 3, 5, 3, 3});
  CheckConvolution({1, 6, 5, 70, 65, 3, 3});
}

TEST(GpuConvolutionTest, Fused_BiasAndActivation_AreTheCpus) {
  const Problem p = {2, 6, 6, 3, 5, 3, 3};
  for (const std::vector<std::string>& fused :
       std::vector<std::vector<std::string>>{{"BiasAdd"}, {"BiasAdd", "Relu"}, {"BiasAdd", "Relu6"}}) {
    AttrMap attrs = p.Attrs();
    attrs["num_args"] = int64_t{1};
    attrs["fused_ops"] = fused;
    CheckOnGpu({.op = "_FusedConv2D",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats(p.Image(), s), Floats(p.Filter(p.out), s + 9), Floats({p.out}, s + 3)};
                    },
                .attrs = attrs,
                .tolerance = 2e-5});
  }
}

TEST(GpuConvolutionTest, Doubles) {
  const Problem p = {2, 6, 7, 3, 5, 3, 3, 2, 1};
  CheckOnGpu({.op = "Conv2D",
              .inputs =
                  [&](uint32_t s) {
                    return std::vector{Doubles(p.Image(), s), Doubles(p.Filter(p.out), s + 9)};
                  },
              .attrs = p.Attrs(),
              .tolerance = 1e-13});
}

TEST(GpuConvolutionTest, GroupsAndNchw_AreRefusedByName) {
  const auto refusal = [](Shape image, AttrMap attrs) {
    return std::string(PrepareOnGpu({.op = "Conv2D",
                                     .inputs =
                                         [&](uint32_t s) {
                                           return std::vector{Floats(image, s), Floats({1, 1, 2, 4}, s)};
                                         },
                                     .attrs = std::move(attrs)})
                           .message());
  };
  AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", std::string("VALID")}};
  EXPECT_EQ(refusal({1, 3, 3, 4}, attrs),
            "a convolution of 2 groups on a GPU; there are those of one group, and depthwise ones");
  attrs["data_format"] = std::string("NCHW");
  EXPECT_EQ(refusal({1, 2, 3, 3}, attrs),
            "a convolution of NCHW images on a GPU; build the model with data_format NHWC");
}

TEST(GpuDepthwiseTest, ForwardAndBack_AnyWindow_AreTheCpus) {
  for (const Problem& p : std::vector<Problem>{{2, 9, 8, 6, 1, 3, 3},
                                               {2, 9, 8, 6, 1, 3, 3, 2, 2},
                                               {1, 7, 7, 3, 2, 3, 3, 1, 1, 1, "VALID"},
                                               {1, 11, 11, 4, 1, 3, 3, 1, 1, 2},
                                               {3, 40, 30, 2, 1, 2, 2}}) {
    const int64_t out = p.in * p.out;
    CheckOnGpu({.op = "DepthwiseConv2dNative",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats(p.Image(), s), Floats(p.Filter(p.out), s + 9)};
                    },
                .attrs = p.Attrs(),
                .tolerance = 5e-6,
                .name = p.Name()});
    CheckOnGpu({.op = "DepthwiseConv2dNativeBackpropInput",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{SizesOf(p.Image()), Floats(p.Filter(p.out), s), Floats(p.Result(out), s + 9)};
                    },
                .attrs = p.Attrs(),
                .constants = {0},
                .tolerance = 5e-6,
                .name = p.Name()});
    CheckOnGpu({.op = "DepthwiseConv2dNativeBackpropFilter",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats(p.Image(), s), SizesOf(p.Filter(p.out)), Floats(p.Result(out), s + 9)};
                    },
                .attrs = p.Attrs(),
                .constants = {1},
                .tolerance = 4e-5,
                .name = p.Name()});
  }
}

// Values that tie often, and negative ones for the gradient behind a Relu.
Tensor Ties(const Shape& shape, uint32_t seed) {
  Tensor floats = Floats(shape, seed);
  for (float& value : floats.flat<float>()) value = std::round(value * 2);
  return floats;
}

TEST(GpuPoolTest, Pools_ForwardAndBack_HaveTheCpusBits) {
  struct Pool {
    int64_t window, stride;
    std::string padding;
  };
  for (const auto& [window, stride, padding] : std::vector<Pool>{
           {2, 2, "VALID"}, {2, 2, "SAME"}, {3, 2, "SAME"}, {3, 1, "SAME"}, {3, 1, "VALID"}, {1, 2, "VALID"}}) {
    const Problem p = {2, 9, 8, 5, 5, window, window, stride, stride, 1, padding};
    const AttrMap attrs = {{"ksize", std::vector<int64_t>{1, window, window, 1}},
                           {"strides", std::vector<int64_t>{1, stride, stride, 1}},
                           {"padding", padding}};
    const std::string name = fmt::format("{} by {} {}", window, stride, padding);
    const auto image = [&](uint32_t s) { return Ties(p.Image(), s); };
    for (const char* op : {"MaxPool", "AvgPool"})
      CheckOnGpu({.op = op, .inputs = [&](uint32_t s) { return std::vector{image(s)}; }, .attrs = attrs, .name = name});
    for (const char* op : {"MaxPoolGrad", "_MaxPoolReluGrad"}) {
      CheckOnGpu({.op = op,
                  .inputs =
                      [&](uint32_t s) {
                        // The result of the pool, by the values that tie: the largest of each window.
                        const Tensor x = image(s);
                        Tensor y(DType::kFloat32, p.Result(p.in));
                        const int64_t rows = y.shape().dim(1), columns = y.shape().dim(2);
                        const auto before = [&](int64_t out, int64_t in) {
                          return padding == "SAME" ? std::max<int64_t>(0, (out - 1) * stride + window - in) / 2 : 0;
                        };
                        for (int64_t i = 0; i < y.elements(); ++i) {
                          const int64_t c = i % 5, column = i / 5 % columns, row = i / 5 / columns % rows;
                          const int64_t number = i / 5 / columns / rows;
                          float best = -1e30f;
                          for (int64_t ky = 0; ky < window; ++ky)
                            for (int64_t kx = 0; kx < window; ++kx) {
                              const int64_t at_y = row * stride - before(rows, 9) + ky;
                              const int64_t at_x = column * stride - before(columns, 8) + kx;
                              if (at_y < 0 || at_y >= 9 || at_x < 0 || at_x >= 8) continue;
                              const auto at = static_cast<size_t>(((number * 9 + at_y) * 8 + at_x) * 5 + c);
                              best = std::max(best, x.flat<float>()[at]);
                            }
                          y.flat<float>()[static_cast<size_t>(i)] = best;
                        }
                        return std::vector{x, y, Floats(y.shape(), s + 4)};
                      },
                  .attrs = attrs,
                  .name = name});
    }
    CheckOnGpu({.op = "AvgPoolGrad",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{SizesOf(p.Image()), Floats(p.Result(p.in), s)};
                    },
                .attrs = attrs,
                .constants = {0},
                .name = name});
  }
}

// As the measurement of kernels finds them again from the product that a convolution is.
TEST(ConvolutionSizesTest, Sizes_OfEveryDirection_AreTheWindows) {
  gpu::ConvolutionArguments c{};
  c.geometry.in_height = 9;
  c.geometry.in_width = 8;
  c.geometry.in_channels = gpu::Divider::Of(3);
  c.geometry.out_channels = gpu::Divider::Of(5);
  c.geometry.width = gpu::Divider::Of(2);
  c.geometry.out_height = gpu::Divider::Of(5);
  c.geometry.out_width = gpu::Divider::Of(4);
  const auto check = [&](gpu::ConvolutionDirection direction, int rows, int depth) {
    c.rows = rows;
    c.depth = depth;
    const gpu::ConvolutionSizes s = gpu::ConvolutionSizesOf(c, direction);
    EXPECT_EQ(s.batch, 7);
    EXPECT_EQ(s.height, 4);
    EXPECT_EQ(s.taps(), 4 * 2 * 3);
  };
  check(gpu::ConvolutionDirection::kForward, 7 * 5 * 4, 4 * 2 * 3);
  check(gpu::ConvolutionDirection::kInput, 7 * 9 * 8, 4 * 2 * 5);
  check(gpu::ConvolutionDirection::kFilter, 4 * 2 * 3, 7 * 5 * 4);
}

}  // namespace
}  // namespace rivulet::testing
