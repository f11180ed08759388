// Filter gradients by the matrix unit, against those of the rounded tensors in float64.
#include "engine/kernels/cpu/tile_conv.h"

#include <cmath>

#include "engine/kernels/cpu/tile_dense.h"
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
