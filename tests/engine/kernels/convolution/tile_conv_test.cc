// Convolutions by the matrix unit and their gradients, against those of the rounded tensors in float64.
#include "engine/kernels/cpu/convolution/tile_conv.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/cpu/vector/has_tiles.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

struct FilterCase {
  int64_t batch, height, width, in, out, window_y, window_x, stride;
  const char* padding;
  bool nchw = false;
};

std::string Named(const FilterCase& c) {
  return fmt::format("{}x{}x{}x{} window {}x{} to {}, stride {}, {}{}", c.batch, c.height, c.width, c.in, c.window_y,
                     c.window_x, c.out, c.stride, c.padding, c.nchw ? ", NCHW" : "");
}

int64_t OutputSize(int64_t size, int64_t window, int64_t stride, std::string_view padding) {
  return padding == "SAME" ? (size + stride - 1) / stride : (size - window) / stride + 1;
}

int64_t PadBefore(int64_t size, int64_t out, int64_t window, int64_t stride, std::string_view padding) {
  return padding == "SAME" ? std::max<int64_t>(0, (out - 1) * stride + window - size) / 2 : 0;
}

Tensor RoundedTensor(Shape shape, uint32_t seed) {
  const Tensor wide = RandomTensor<float>(shape, seed);
  Tensor narrow(DType::kBFloat16, shape);
  for (size_t i = 0; i < wide.flat<float>().size(); ++i) narrow.flat<bfloat16>()[i] = bfloat16(wide.flat<float>()[i]);
  return narrow;
}

void CheckFilterGradient(const FilterCase& c) {
  SCOPED_TRACE(Named(c));
  const int64_t out_height = OutputSize(c.height, c.window_y, c.stride, c.padding),
                out_width = OutputSize(c.width, c.window_x, c.stride, c.padding);
  const int64_t top = PadBefore(c.height, out_height, c.window_y, c.stride, c.padding),
                left = PadBefore(c.width, out_width, c.window_x, c.stride, c.padding);
  const auto shape = [&](int64_t height, int64_t width, int64_t channels) {
    return c.nchw ? Shape{c.batch, channels, height, width} : Shape{c.batch, height, width, channels};
  };
  const auto at = [&](int64_t b, int64_t y, int64_t x, int64_t channel, int64_t height, int64_t width,
                      int64_t channels) {
    return static_cast<size_t>(c.nchw ? ((b * channels + channel) * height + y) * width + x
                                      : ((b * height + y) * width + x) * channels + channel);
  };
  const Tensor image = RoundedTensor(shape(c.height, c.width, c.in), 1);
  const Tensor gradient = RoundedTensor(shape(out_height, out_width, c.out), 2);
  const std::vector<int32_t> sizes = {static_cast<int32_t>(c.window_y), static_cast<int32_t>(c.window_x),
                                      static_cast<int32_t>(c.in), static_cast<int32_t>(c.out)};
  const int64_t s = c.stride;
  const auto run = RunOp("Conv2DBackpropFilter", {image, Tensor::Of<int32_t>({4}, std::span(sizes)), gradient},
                         {{"strides", c.nchw ? std::vector<int64_t>{1, 1, s, s} : std::vector<int64_t>{1, s, s, 1}},
                          {"padding", std::string(c.padding)},
                          {"data_format", std::string(c.nchw ? "NCHW" : "NHWC")}},
                         {}, {1});
  ASSERT_OK(run);
  EXPECT_TRUE(run->implementation.starts_with("amx")) << run->implementation;
  const auto of = [](const Tensor& tensor, size_t i) {
    return static_cast<double>(static_cast<float>(tensor.flat<bfloat16>()[i]));
  };
  size_t result = 0;
  for (int64_t ky = 0; ky < c.window_y; ++ky)
    for (int64_t kx = 0; kx < c.window_x; ++kx)
      for (int64_t in = 0; in < c.in; ++in)
        for (int64_t out = 0; out < c.out; ++out, ++result) {
          double sum = 0, size = 0;
          for (int64_t b = 0; b < c.batch; ++b)
            for (int64_t oy = 0; oy < out_height; ++oy)
              for (int64_t ox = 0; ox < out_width; ++ox) {
                const int64_t y = oy * s + ky - top, x = ox * s + kx - left;
                if (y < 0 || y >= c.height || x < 0 || x >= c.width) continue;
                const double term = of(image, at(b, y, x, in, c.height, c.width, c.in)) *
                                    of(gradient, at(b, oy, ox, out, out_height, out_width, c.out));
                sum += term;
                size += std::abs(term);
              }
          ASSERT_NEAR(of(run->outputs[0], result), sum, std::abs(sum) * 0x1p-8 + size * 0x1p-20)
              << ky << " " << kx << " " << in << " " << out;
        }
}

TEST(TileFilterGradient, EveryGeometry_IsTheSum) {
  EnterWorkerThread();
  if (!HasTiles()) GTEST_SKIP() << "this processor has no matrix unit for bfloat16";
  for (const FilterCase& c : std::vector<FilterCase>{{2, 14, 14, 16, 33, 5, 5, 1, "SAME"},
                                                     {3, 9, 8, 16, 32, 3, 3, 1, "SAME"},
                                                     {1, 30, 21, 16, 17, 3, 3, 1, "VALID"},
                                                     {2, 8, 8, 40, 24, 3, 3, 1, "SAME"},
                                                     {3, 4, 4, 33, 33, 3, 3, 1, "SAME"},
                                                     {1, 40, 30, 16, 16, 3, 2, 1, "VALID"},
                                                     {2, 15, 16, 16, 48, 3, 3, 2, "SAME"},
                                                     {2, 15, 17, 24, 32, 5, 3, 3, "VALID"},
                                                     {2, 16, 16, 32, 16, 1, 1, 2, "SAME"},
                                                     {2, 70, 9, 16, 16, 1, 1, 1, "SAME"},
                                                     {1, 3, 600, 16, 16, 3, 3, 1, "SAME"},
                                                     {2, 14, 14, 16, 16, 3, 3, 1, "SAME", true}})
    CheckFilterGradient(c);
}

Window WindowOf(const FilterCase& c) {
  Window w;
  w.batch = c.batch, w.in_height = c.height, w.in_width = c.width, w.in_channels = c.in, w.out_channels = c.out;
  w.height = c.window_y, w.width = c.window_x, w.stride_height = w.stride_width = c.stride;
  w.out_height = OutputSize(c.height, c.window_y, c.stride, c.padding);
  w.out_width = OutputSize(c.width, c.window_x, c.stride, c.padding);
  w.pad_top = PadBefore(c.height, w.out_height, c.window_y, c.stride, c.padding);
  w.pad_left = PadBefore(c.width, w.out_width, c.window_x, c.stride, c.padding);
  return w;
}

// f(image's element, filter's, result's) for every product of a convolution.
template <class F>
void ForEachProduct(const Window& w, F f) {
  for (int64_t b = 0; b < w.batch; ++b)
    for (int64_t oy = 0; oy < w.out_height; ++oy)
      for (int64_t ox = 0; ox < w.out_width; ++ox)
        for (int64_t ky = 0; ky < w.height; ++ky)
          for (int64_t kx = 0; kx < w.width; ++kx) {
            const int64_t y = oy * w.stride_height + ky - w.pad_top, x = ox * w.stride_width + kx - w.pad_left;
            if (y < 0 || y >= w.in_height || x < 0 || x >= w.in_width) continue;
            const int64_t pixel = (b * w.in_height + y) * w.in_width + x, tap = ky * w.width + kx;
            const int64_t result = (b * w.out_height + oy) * w.out_width + ox;
            for (int64_t in = 0; in < w.in_channels; ++in)
              for (int64_t out = 0; out < w.out_channels; ++out)
                f(static_cast<size_t>(pixel * w.in_channels + in),
                  static_cast<size_t>((tap * w.in_channels + in) * w.out_channels + out),
                  static_cast<size_t>(result * w.out_channels + out));
          }
}

std::vector<double> ExactOf(const Tensor& tensor) {
  std::vector<double> exact;
  for (const bfloat16 x : tensor.flat<bfloat16>()) exact.push_back(static_cast<double>(static_cast<float>(x)));
  return exact;
}

Tensor RunKernel(const Prepared& prepared, std::vector<Tensor> inputs, const Shape& output) {
  Tensor result(DType::kBFloat16, output);
  std::vector<std::byte*> addresses;
  for (Tensor& input : inputs) addresses.push_back(input.data());
  std::byte* const outputs[] = {result.data()};
  AlignedBuffer scratch(prepared.scratch_bytes);
  KernelContext context;
  context.inputs = addresses;
  context.outputs = outputs;
  context.scratch = scratch.data();
  EXPECT_OK(prepared.kernel->Run(context));
  return result;
}

void ExpectRoundedSums(const Tensor& actual, const std::vector<double>& sums, const std::vector<double>& sizes) {
  for (size_t i = 0; i < sums.size(); ++i)
    ASSERT_NEAR(static_cast<double>(static_cast<float>(actual.flat<bfloat16>()[i])), sums[i],
                std::abs(sums[i]) * 0x1p-8 + sizes[i] * 0x1p-20)
        << i;
}

TEST(TileConvolution, EveryGeometry_IsTheSumForwardAndBackward) {
  EnterWorkerThread();
  if (!HasTiles()) GTEST_SKIP() << "this processor has no matrix unit for bfloat16";
  for (const FilterCase& c : std::vector<FilterCase>{{2, 14, 14, 32, 33, 5, 5, 1, "SAME"},
                                                     {2, 9, 8, 16, 32, 3, 3, 1, "SAME"},
                                                     {1, 13, 35, 16, 28, 3, 3, 1, "VALID"},
                                                     {1, 12, 20, 32, 32, 3, 3, 1, "VALID"},
                                                     {1, 8, 8, 40, 24, 3, 3, 1, "SAME"},
                                                     {2, 7, 7, 48, 32, 3, 3, 1, "SAME"},
                                                     {1, 20, 17, 12, 16, 3, 5, 1, "VALID"},
                                                     {2, 15, 16, 16, 48, 3, 3, 2, "SAME"},
                                                     {1, 15, 35, 22, 32, 5, 3, 3, "VALID"}}) {
    SCOPED_TRACE(Named(c));
    const Window w = WindowOf(c);
    const Shape images{w.batch, w.in_height, w.in_width, w.in_channels};
    const Shape results{w.batch, w.out_height, w.out_width, w.out_channels};
    const Tensor image = RoundedTensor(images, 1), bias = RoundedTensor({w.out_channels}, 4);
    const Tensor filter = RoundedTensor({w.height, w.width, w.in_channels, w.out_channels}, 2);
    const Tensor gradient = RoundedTensor(results, 3);
    const std::vector<double> x = ExactOf(image), f = ExactOf(filter), g = ExactOf(gradient), b = ExactOf(bias);
    std::vector<double> sums(g.size(), 0), sizes(g.size(), 1), image_sums(x.size(), 0), image_sizes(x.size(), 0);
    ForEachProduct(w, [&](size_t pixel, size_t weight, size_t result) {
      sums[result] += x[pixel] * f[weight];
      sizes[result] += std::abs(x[pixel] * f[weight]);
      image_sums[pixel] += g[result] * f[weight];
      image_sizes[pixel] += std::abs(g[result] * f[weight]);
    });
    const auto forward = TileConvolution(ConvDirection::kForward, w);
    ASSERT_TRUE(forward);
    ExpectRoundedSums(RunKernel(*forward, {image, filter}, results), sums, sizes);
    std::vector<double> finished = sums;
    for (size_t i = 0; i < finished.size(); ++i) finished[i] = std::clamp(finished[i] + b[i % b.size()], 0.0, 6.0);
    const auto fused =
        TileConvolution(ConvDirection::kForward, w, {.bias = true, .activation = FusedOps::Activation::kRelu6});
    ASSERT_TRUE(fused);
    ExpectRoundedSums(RunKernel(*fused, {image, filter, bias}, results), finished, sizes);
    const auto backward = TileConvolution(ConvDirection::kBackwardInput, w);
    ASSERT_EQ(backward.has_value(), c.stride == 1);
    if (backward) ExpectRoundedSums(RunKernel(*backward, {filter, gradient}, images), image_sums, image_sizes);
  }
}

TEST(TileConvolution, NotANumber_StaysOne) {
  EnterWorkerThread();
  if (!HasTiles()) GTEST_SKIP() << "this processor has no matrix unit for bfloat16";
  const Window w = WindowOf({1, 8, 8, 32, 16, 3, 3, 1, "SAME"});
  Tensor image = RoundedTensor({1, 8, 8, 32}, 1);
  image.flat<bfloat16>()[0] = bfloat16(std::numeric_limits<float>::quiet_NaN());
  const auto fused =
      TileConvolution(ConvDirection::kForward, w, {.bias = false, .activation = FusedOps::Activation::kRelu6});
  ASSERT_TRUE(fused);
  const Tensor result = RunKernel(*fused, {image, RoundedTensor({3, 3, 32, 16}, 2)}, {1, 8, 8, 16});
  for (size_t i = 0; i < 16; ++i) EXPECT_TRUE(std::isnan(static_cast<float>(result.flat<bfloat16>()[i])));
  EXPECT_FALSE(std::isnan(static_cast<float>(result.flat<bfloat16>()[3 * 8 * 16])));
}

// Neither few channels nor groups are for it.
TEST(TileFilterGradient, OtherConvolutions_AreDeclined) {
  Window w{.batch = 1,
           .in_height = 8,
           .in_width = 8,
           .in_channels = 1,
           .out_height = 8,
           .out_width = 8,
           .out_channels = 1,
           .height = 3,
           .width = 3,
           .pad_top = 1,
           .pad_bottom = 1,
           .pad_left = 1,
           .pad_right = 1};
  EXPECT_FALSE(TileFilterGradient(w));
  w.in_channels = w.out_channels = 32;
  EXPECT_EQ(TileFilterGradient(w).has_value(), HasTiles());
  w.groups = 2;
  EXPECT_FALSE(TileFilterGradient(w));
}

}  // namespace
}  // namespace rivulet::testing
