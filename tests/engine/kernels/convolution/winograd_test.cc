// Winograd convolutions compared with plain float64 loops and direct float32 sums: edges, tails, exactness, the spread
// of a NaN, and the supported shapes.
#include "engine/kernels/cpu/convolution/winograd.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/cpu/convolution/choose.h"
#include "engine/kernels/cpu/convolution/conv_loops.h"
#include "engine/kernels/cpu/convolution/dnnl_convolution.h"
#include "engine/kernels/cpu/convolution/epilogue.h"
#include "tests/engine/kernels/convolution/convolution_reference.h"
#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void ExpectConvolution(const Window& w) {
  const Tensors tensors(w);
  for (const ConvDirection direction : kDirections) {
    const std::optional<Prepared> prepared = WinogradConvolution(direction, w);
    ASSERT_TRUE(prepared.has_value()) << NameOf(w);
    const Error error = ErrorOf(Convolve(*prepared, tensors, direction), Expected(w, tensors, direction));
    // The transforms alone lose some units of the last place of the largest terms, however few are summed; and of a
    // filter's gradient what rounding may have made is 0.
    const double most = direction == ConvDirection::kBackwardFilter ? 2e-5 : 4e-6;
    EXPECT_LE(error.most, most) << NameOf(w) << ", direction " << static_cast<int>(direction);
  }
}

// Tiles that hang over every edge, vectors and register blocks that are not full, images smaller than a tile, blocks of
// tiles that end inside an image.
TEST(Winograd, EveryTarget_IsTheFloat64Convolution) {
  OnEveryTarget([](const std::string& target) {
    SCOPED_TRACE(target);
    for (const int64_t window : {3, 5}) {
      for (int64_t side = 1; side <= 9; ++side) ExpectConvolution(Same(2, side, 3, 5, window));
      for (const int64_t channels : {1, 4, 15, 16, 17, 33}) {
        ExpectConvolution(Same(1, 6, channels, 18, window));
        ExpectConvolution(Same(1, 6, 18, channels, window));
      }
      ExpectConvolution(WindowOf(3, 13, 7, 20, 24, window, 0, 0));           // VALID
      ExpectConvolution(WindowOf(1, window, window, 16, 16, window, 0, 0));  // one output
      ExpectConvolution(WindowOf(2, 6, 11, 9, 8, window, 1, 3));             // more after than before
      ExpectConvolution(WindowOf(1, 4, 9, 9, 8, window, window + 3, 2));     // windows that see padding alone
      ExpectConvolution(Same(10, 10, 16, 32, window));
    }
  });
}

// What the header promises, at shapes of the presets (fewer filters: the float64 loops are slow). Direct sums are the
// library's where it is fast: it adds them in several parts, which loses less than one sum in order.
TEST(Winograd, Errors_AreWithinFiveTimesThoseOfDirectSums) {
  EnterWorkerThread();
  for (const Window& w : {Same(10, 14, 32, 16, 5), Same(10, 32, 16, 16, 3), Same(10, 16, 32, 16, 3),
                          Same(10, 8, 64, 32, 3), WindowOf(10, 26, 26, 32, 16, 3, 0, 0)}) {
    const Tensors tensors(w);
    for (const ConvDirection direction : kDirections) {
      const std::vector<double> expected = Expected(w, tensors, direction);
      std::optional<Prepared> direct = DnnlConvolution(direction, w);
      if (!direct) direct = ConvolutionByLoops<float>(direction, w);
      const Error of_direct = ErrorOf(Convolve(*direct, tensors, direction), expected);
      const Error error = ErrorOf(Convolve(*WinogradConvolution(direction, w), tensors, direction), expected);
      EXPECT_LE(error.mean, 5 * of_direct.mean) << NameOf(w) << ", direction " << static_cast<int>(direction);
      EXPECT_LE(error.most, 5 * of_direct.most) << NameOf(w) << ", direction " << static_cast<int>(direction);
    }
  }
}

TEST(Winograd, Bits_DependOnNothingButTheInputs) {
  const Window w = WindowOf(3, 13, 9, 20, 24, 3, 1, 1);
  const Tensors tensors(w);
  for (const ConvDirection direction : kDirections) {
    const std::optional<Prepared> prepared = WinogradConvolution(direction, w);
    const Tensor first = Convolve(*prepared, tensors, direction), again = Convolve(*prepared, tensors, direction);
    EXPECT_EQ(std::memcmp(first.data(), again.data(), first.bytes()), 0);
  }
}

// A tile's outputs are all NaN where any of its pixels is, and no other's change by a bit. With 3×3 and padding 1 the
// tile of outputs (0..3, 0..3) sees pixels up to (4, 4), and that of (4..7, 4..7) sees them from (3, 3) on.
TEST(Winograd, NanInAnImage_SpreadsOverTheTilesThatSeeItAndNoFurther) {
  const Window w = Same(2, 12, 16, 16, 3);
  Tensors tensors(w);
  const std::optional<Prepared> prepared = WinogradConvolution(ConvDirection::kForward, w);
  const Tensor clean = Convolve(*prepared, tensors, ConvDirection::kForward);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    tensors.image.flat<float>()[(2 * 12 + 2) * 16 + 3] = bad;  // of the first image; the first tile alone sees it
    const Tensor dirty = Convolve(*prepared, tensors, ConvDirection::kForward);
    for (int64_t pixel = 0; pixel < 2 * 12 * 12; ++pixel) {
      const bool seen = pixel / 12 < 4 && pixel % 12 < 4;
      for (int64_t filter = 0; filter < 16; ++filter) {
        const auto at = static_cast<size_t>(pixel * 16 + filter);
        const float value = std::as_const(dirty).flat<float>()[at];
        if (seen) {
          EXPECT_TRUE(std::isnan(value)) << pixel;
        } else {
          EXPECT_EQ(value, std::as_const(clean).flat<float>()[at]) << pixel;
        }
      }
    }
  }
}

// A filter's infinity is met by every tile, so that its channel has no number left; other channels keep their bits.
TEST(Winograd, InfinityInAFilter_IsAllOfItsChannel) {
  const Window w = Same(1, 8, 16, 16, 5);
  Tensors tensors(w);
  const std::optional<Prepared> prepared = WinogradConvolution(ConvDirection::kForward, w);
  const Tensor clean = Convolve(*prepared, tensors, ConvDirection::kForward);
  tensors.filter.flat<float>()[(7 * 16 + 5) * 16 + 9] = std::numeric_limits<float>::infinity();  // to channel 9
  const Tensor dirty = Convolve(*prepared, tensors, ConvDirection::kForward);
  for (size_t i = 0; i < clean.flat<float>().size(); ++i) {
    const float value = std::as_const(dirty).flat<float>()[i];
    if (i % 16 == 9) {
      EXPECT_FALSE(std::isfinite(value)) << i;
    } else {
      EXPECT_EQ(value, std::as_const(clean).flat<float>()[i]) << i;
    }
  }
}

// And in a gradient: the filter's has a NaN for each window that met it, at least.
TEST(Winograd, NanInAGradient_ReachesTheFilterAndTheImage) {
  const Window w = Same(1, 8, 16, 16, 3);
  Tensors tensors(w);
  tensors.gradient.flat<float>()[(4 * 8 + 4) * 16 + 7] = std::numeric_limits<float>::quiet_NaN();
  const Tensor filter =
      Convolve(*WinogradConvolution(ConvDirection::kBackwardFilter, w), tensors, ConvDirection::kBackwardFilter);
  for (size_t i = 0; i < 9 * 16 * 16; ++i)
    EXPECT_EQ(std::isnan(std::as_const(filter).flat<float>()[i]), i % 16 == 7) << i;
  const Tensor image =
      Convolve(*WinogradConvolution(ConvDirection::kBackwardInput, w), tensors, ConvDirection::kBackwardInput);
  for (int64_t y = 3; y <= 5; ++y)
    for (int64_t x = 3; x <= 5; ++x)
      EXPECT_TRUE(std::isnan(std::as_const(image).flat<float>()[static_cast<size_t>((y * 8 + x) * 16)])) << y << x;
}

TEST(Winograd, ShapesOfThePresets_TakeIt) {
  for (const Window& w : {Same(10, 14, 32, 64, 5), Same(10, 32, 16, 16, 3), Same(10, 16, 32, 32, 3),
                          Same(10, 8, 64, 64, 3), WindowOf(10, 30, 30, 32, 64, 3, 0, 0)})
    for (const ConvDirection direction : kDirections) EXPECT_TRUE(PaysWinograd(direction, w)) << NameOf(w);
}

TEST(Winograd, WhatDirectSumsAreAsFastAt_IsLeftToThem) {
  for (const Window& w : {Same(10, 28, 1, 32, 5), Same(10, 32, 8, 8, 3), Same(1, 4, 64, 64, 3),
                          WindowOf(10, 14, 14, 6, 16, 5, 0, 0), Same(1, 4, 512, 512, 3)})
    for (const ConvDirection direction : kDirections) EXPECT_FALSE(PaysWinograd(direction, w)) << NameOf(w);
}

// Outputs that are pooled before they reach memory have the bits of MaxPool of those that do; a last row or column that
// fills no window is left out, and a NaN is its window's largest.
TEST(Winograd, Pooled_HasMaxPoolsBitsOnEveryTarget) {
  OnEveryTarget([](const std::string& target) {
    for (const Window& w : {Same(2, 14, 4, 20, 5), Same(3, 12, 16, 16, 3), Same(1, 9, 5, 33, 3), Same(2, 7, 3, 6, 5),
                            WindowOf(2, 11, 8, 6, 16, 3, 0, 0), Same(1, 2, 4, 4, 3)}) {
      Tensors tensors(w);
      tensors.image.flat<float>()[1] = std::numeric_limits<float>::quiet_NaN();
      Tensor bias = RandomTensor<float>({w.out_channels}, 4);
      for (const auto activation : {FusedOps::Activation::kNone, FusedOps::Activation::kRelu}) {
        const FusedOps fused = {.bias = true, .activation = activation};
        const Tensor whole =
            Convolve(*WinogradConvolution(ConvDirection::kForward, w, fused), tensors, ConvDirection::kForward, &bias);
        const auto expected = RunOp("MaxPool", {whole},
                                    {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                                     {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                                     {"padding", std::string("VALID")}});
        ASSERT_OK(expected);
        // What is written beyond the pooled outputs would be seen here.
        const Tensor pooled = Convolve(*WinogradConvolution(ConvDirection::kForward, w, fused, /*pooled=*/true),
                                       tensors, ConvDirection::kForward, &bias);
        EXPECT_EQ(std::memcmp(pooled.data(), expected->outputs[0].data(), expected->outputs[0].bytes()), 0)
            << target << " " << NameOf(w);
        for (size_t i = expected->outputs[0].flat<float>().size(); i < pooled.flat<float>().size(); ++i)
          ASSERT_EQ(std::as_const(pooled).flat<float>()[i], 0.0f) << NameOf(w);
      }
    }
  });
}

TEST(Winograd, PooledGradientsAndPoolsWithoutABias_AreRefused) {
  const Window w = Same(2, 14, 32, 32, 3);
  EXPECT_FALSE(WinogradConvolution(ConvDirection::kForward, w, {}, /*pooled=*/true).has_value());
  EXPECT_FALSE(WinogradConvolution(ConvDirection::kBackwardInput, w, {.bias = true}, /*pooled=*/true).has_value());
}

TEST(Winograd, OtherWindows_AreRefused) {
  std::vector<Window> windows(7, Same(10, 16, 32, 32, 3));
  windows[0].stride_height = 2;
  windows[1].stride_width = 2;
  windows[2].dilation_height = 2;
  windows[3].dilation_width = 2;
  windows[4].groups = 2;
  windows[5].width = 1;
  windows[6].height = windows[6].width = 7;
  for (const Window& w : windows)
    for (const ConvDirection direction : kDirections)
      EXPECT_FALSE(WinogradConvolution(direction, w).has_value()) << NameOf(w);
}

// Adam divides a gradient by its size: rounding in the place of an exact 0 would be a whole step. Images are 0 in every
// second channel's left half and outputs' gradients in the right half, so that most weights of these meet no product.
TEST(Winograd, FilterGradientsThatNoProductReaches_AreZero) {
  for (const Window& w : {Same(4, 14, 16, 16, 5), Same(4, 16, 16, 16, 3)}) {
    Tensors tensors(w);
    const int64_t half = w.in_width / 2;
    for (int64_t pixel = 0; pixel < w.batch * w.in_height * w.in_width; ++pixel) {
      for (int64_t channel = 0; channel < 16; ++channel) {
        const auto at = static_cast<size_t>(pixel * 16 + channel);
        if (channel % 2 == 1 && pixel % w.in_width < half) tensors.image.flat<float>()[at] = 0;
        if (pixel % w.in_width >= half - w.width) tensors.gradient.flat<float>()[at] = 0;
      }
    }
    const Tensor result =
        Convolve(*WinogradConvolution(ConvDirection::kBackwardFilter, w), tensors, ConvDirection::kBackwardFilter);
    const std::vector<double> expected = Expected(w, tensors, ConvDirection::kBackwardFilter);
    size_t zeros = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] != 0) continue;
      ++zeros;
      EXPECT_EQ(result.flat<float>()[i], 0.0f) << NameOf(w) << ": " << i;
    }
    EXPECT_GT(zeros, expected.size() / 4) << NameOf(w);
  }
}

// A bias and an activation that are applied before outputs reach memory have the bits of a pass over them.
TEST(Winograd, FusedOps_AreTheEpiloguesArithmetic) {
  EnterWorkerThread();
  using Activation = FusedOps::Activation;
  for (const Window& w : {WindowOf(2, 9, 7, 16, 20, 3, 1, 1), WindowOf(2, 9, 7, 16, 32, 5, 0, 0)}) {
    Tensors tensors(w);
    for (float& x : tensors.image.flat<float>()) x *= 3;  // outputs above 6
    tensors.image.flat<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    Tensor bias = RandomTensor<float>({w.out_channels}, 4);
    const Tensor plain = Convolve(*WinogradConvolution(ConvDirection::kForward, w), tensors, ConvDirection::kForward);
    for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kRelu6}) {
      for (const bool with_bias : {true, false}) {
        const FusedOps fused = {with_bias, activation};
        Tensor expected(DType::kFloat32, plain.shape());  // copies of a tensor share its memory
        std::ranges::copy(plain.flat<float>(), expected.flat<float>().begin());
        ApplyEpilogue<float>(fused, bias.flat<float>().data(), expected.flat<float>().data(),
                             w.batch * w.out_height * w.out_width, w.out_channels);
        const std::optional<Prepared> prepared = WinogradConvolution(ConvDirection::kForward, w, fused);
        const Tensor actual = Convolve(*prepared, tensors, ConvDirection::kForward, &bias);
        EXPECT_EQ(std::memcmp(actual.data(), expected.data(), expected.bytes()), 0)
            << NameOf(w) << " " << static_cast<int>(activation) << with_bias;
      }
    }
  }
}

// In a program: the native policy takes it, in both layouts and with the same bits, the portable one never.
TEST(Winograd, Programs_TakeItWhereTheyMay) {
  const Tensor image = RandomTensor<float>({10, 16, 16, 32}, 1), filter = RandomTensor<float>({3, 3, 32, 32}, 2);
  const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", std::string("SAME")}};
  const auto native = RunOp("Conv2D", {image, filter}, attrs);
  ASSERT_OK(native);
  EXPECT_EQ(native->implementation, "hwy winograd 4x4");
  const auto unaligned = RunOp("Conv2D", {image, filter}, attrs, {}, {}, /*misalign=*/4);
  ASSERT_OK(unaligned);
  EXPECT_EQ(std::memcmp(native->outputs[0].data(), unaligned->outputs[0].data(), native->outputs[0].bytes()), 0);
  KernelPolicy portable;
  portable.portable = true;
  const auto other = RunOp("Conv2D", {image, filter}, attrs, portable);
  ASSERT_OK(other);
  EXPECT_THAT(other->implementation, Not(HasSubstr("winograd")));
  ExpectNear<float>(native->outputs[0], AsDoubles<float>(other->outputs[0]), 1e-4, "portable");
}

}  // namespace
}  // namespace rivulet::testing
