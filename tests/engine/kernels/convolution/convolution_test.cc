// Conv2D and its gradients against plain float64 loops.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  int64_t batch, height, width, in, out, k_height, k_width, stride;
  std::string padding;
  int64_t dilation = 1;
  int64_t right = 1;  // of explicit padding
  std::string Name() const {
    return fmt::format("{}x{}x{}x{} by {}x{} to {}, stride {}, dilation {}, {} {}", batch, height, width, in, k_height,
                       k_width, out, stride, dilation, padding, right);
  }
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {10, 28, 28, 1, 32, 5, 5, 1, "SAME"},
      {2, 14, 14, 32, 64, 5, 5, 1, "SAME"},
      {2, 13, 14, 17, 40, 3, 3, 1, "VALID"},
      {1, 9, 10, 24, 33, 3, 3, 1, "EXPLICIT"},
      {1, 1, 1, 1, 1, 1, 1, 1, "VALID"},
      {3, 7, 5, 3, 2, 3, 2, 1, "VALID"},
      {2, 8, 9, 5, 7, 3, 3, 2, "SAME"},
      {2, 9, 8, 4, 16, 2, 2, 2, "SAME"},
      {1, 11, 10, 3, 10, 4, 3, 3, "VALID"},
      {2, 6, 6, 16, 17, 1, 1, 1, "SAME"},
      {1, 12, 12, 8, 8, 3, 3, 1, "SAME", 2},
      {2, 5, 5, 2, 1, 3, 3, 1, "SAME"},
      {2, 5, 6, 3, 4, 3, 3, 1, "EXPLICIT"},
      {2, 7, 14, 16, 6, 5, 5, 1, "SAME"},
      {2, 6, 14, 6, 16, 5, 5, 1, "SAME"},
      {1, 5, 31, 9, 8, 3, 2, 1, "VALID"},
      {1, 4, 15, 3, 12, 2, 3, 1, "SAME", 2},
      // Padded far beyond what a window reaches: much of the result comes of no pixel.
      {2, 4, 16, 3, 8, 3, 3, 1, "EXPLICIT", 1, 40},
  };
  return cases;
}

struct Geometry {
  int64_t out_height, out_width, top, left;
  explicit Geometry(const Case& c) {
    const auto axis = [&](int64_t in, int64_t k, int64_t before, int64_t after, int64_t* pad) {
      const int64_t reach = (k - 1) * c.dilation + 1;
      if (c.padding == "SAME") {
        const int64_t out = (in + c.stride - 1) / c.stride;
        *pad = std::max<int64_t>(0, (out - 1) * c.stride + reach - in) / 2;
        return out;
      }
      *pad = c.padding == "EXPLICIT" ? before : 0;
      return (in + (c.padding == "EXPLICIT" ? before + after : 0) - reach) / c.stride + 1;
    };
    out_height = axis(c.height, c.k_height, 1, 2, &top);
    out_width = axis(c.width, c.k_width, 0, c.right, &left);
  }
};

AttrMap Attrs(const Case& c, bool nchw = false) {
  const std::vector<int64_t> strides =
      nchw ? std::vector<int64_t>{1, 1, c.stride, c.stride} : std::vector<int64_t>{1, c.stride, c.stride, 1};
  const std::vector<int64_t> dilations =
      nchw ? std::vector<int64_t>{1, 1, c.dilation, c.dilation} : std::vector<int64_t>{1, c.dilation, c.dilation, 1};
  AttrMap attrs = {{"strides", strides}, {"dilations", dilations}, {"padding", c.padding}};
  if (c.padding == "EXPLICIT") {
    attrs["explicit_paddings"] =
        nchw ? std::vector<int64_t>{0, 0, 0, 0, 1, 2, 0, c.right} : std::vector<int64_t>{0, 0, 1, 2, 0, c.right, 0, 0};
  }
  if (nchw) attrs["data_format"] = std::string("NCHW");
  return attrs;
}

// Calls f(input, filter, output) with the flat indices of every product of the convolution.
template <typename F>
void ForEachProduct(const Case& c, F f) {
  const Geometry g(c);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t oy = 0; oy < g.out_height; ++oy)
      for (int64_t ox = 0; ox < g.out_width; ++ox)
        for (int64_t ky = 0; ky < c.k_height; ++ky)
          for (int64_t kx = 0; kx < c.k_width; ++kx) {
            const int64_t iy = oy * c.stride - g.top + ky * c.dilation, ix = ox * c.stride - g.left + kx * c.dilation;
            if (iy < 0 || iy >= c.height || ix < 0 || ix >= c.width) continue;
            for (int64_t i = 0; i < c.in; ++i)
              for (int64_t o = 0; o < c.out; ++o)
                f(static_cast<size_t>(((b * c.height + iy) * c.width + ix) * c.in + i),
                  static_cast<size_t>(((ky * c.k_width + kx) * c.in + i) * c.out + o),
                  static_cast<size_t>(((b * g.out_height + oy) * g.out_width + ox) * c.out + o));
          }
}

template <typename T>
struct Problem {
  Tensor image, filter, gradient;
  std::vector<double> x, w, g;
  explicit Problem(const Case& c)
      : image(RandomTensor<T>({c.batch, c.height, c.width, c.in}, 1)),
        filter(RandomTensor<T>({c.k_height, c.k_width, c.in, c.out}, 2)),
        gradient(RandomTensor<T>({c.batch, Geometry(c).out_height, Geometry(c).out_width, c.out}, 3)),
        x(AsDoubles<T>(image)),
        w(AsDoubles<T>(filter)),
        g(AsDoubles<T>(gradient)) {}
};

Tensor Sizes(const Shape& shape) {
  std::vector<int32_t> sizes(shape.dims().begin(), shape.dims().end());
  return Tensor::Of<int32_t>({4}, std::span<const int32_t>(sizes));
}

template <typename T>
void CheckAll(const Case& c, KernelPolicy policy, double epsilon) {
  const Problem<T> p(c);
  std::vector<double> y(p.g.size(), 0), dx(p.x.size(), 0), dw(p.w.size(), 0);
  ForEachProduct(c, [&](size_t in, size_t filter, size_t out) {
    y[out] += p.x[in] * p.w[filter];
    dx[in] += p.g[out] * p.w[filter];
    dw[filter] += p.g[out] * p.x[in];
  });
  const double taps = static_cast<double>(c.k_height * c.k_width);
  const auto forward = RunOp("Conv2D", {p.image, p.filter}, Attrs(c), policy);
  ASSERT_OK(forward);
  ExpectNear<T>(forward->outputs[0], y, epsilon * (taps * static_cast<double>(c.in) + 1), "forward " + c.Name());
  const auto input =
      RunOp("Conv2DBackpropInput", {Sizes(p.image.shape()), p.filter, p.gradient}, Attrs(c), policy, {0});
  ASSERT_OK(input);
  ExpectNear<T>(input->outputs[0], dx, epsilon * (taps * static_cast<double>(c.out) + 1), "input " + c.Name());
  const auto filter =
      RunOp("Conv2DBackpropFilter", {p.image, Sizes(p.filter.shape()), p.gradient}, Attrs(c), policy, {1});
  ASSERT_OK(filter);
  const double pixels = static_cast<double>(p.gradient.elements()) / static_cast<double>(c.out);
  // By fewer multiplications what rounding may have made is 0: some 1e-4 of the mean gradient.
  const double zeroed = filter->implementation.find("winograd") != std::string::npos ? 40 : 1;
  ExpectNear<T>(filter->outputs[0], dw, zeroed * epsilon * (pixels + 1), "filter " + c.Name());
}

TEST(Conv2D, Float32_IsTheFloat64Convolution) {
  for (const Case& c : Cases()) CheckAll<float>(c, {}, 1.2e-7);
}

TEST(Conv2D, PortableFloat32_IsTheFloat64Convolution) {
  KernelPolicy portable;
  portable.portable = true;
  for (const Case& c : Cases()) CheckAll<float>(c, portable, 1.2e-7);
}

TEST(Conv2D, Float64_IsTheFloat64Convolution) {
  for (const Case& c : Cases()) CheckAll<double>(c, {}, 3e-16);
}

Tensor ToNchw(const Tensor& nhwc) {
  const Shape& s = nhwc.shape();
  Tensor nchw(nhwc.dtype(), {s.dim(0), s.dim(3), s.dim(1), s.dim(2)});
  const int64_t pixels = s.dim(1) * s.dim(2), channels = s.dim(3);
  for (int64_t b = 0; b < s.dim(0); ++b)
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t c = 0; c < channels; ++c)
        nchw.flat<float>()[static_cast<size_t>((b * channels + c) * pixels + p)] =
            std::as_const(nhwc).flat<float>()[static_cast<size_t>((b * pixels + p) * channels + c)];
  return nchw;
}

TEST(Conv2D, Nchw_IsTheNhwcConvolutionTransposed) {
  for (const Case& c : Cases()) {
    const Problem<float> p(c);
    const Tensor image = ToNchw(p.image), gradient = ToNchw(p.gradient);
    const auto compare = [&](const StatusOr<OpRun>& nhwc, const StatusOr<OpRun>& nchw, bool is_image) {
      ASSERT_OK(nhwc);
      ASSERT_OK(nchw);
      const Tensor expected = is_image ? ToNchw(nhwc->outputs[0]) : nhwc->outputs[0];
      ExpectNear<float>(nchw->outputs[0], AsDoubles<float>(expected), 0, c.Name());
    };
    compare(RunOp("Conv2D", {p.image, p.filter}, Attrs(c)), RunOp("Conv2D", {image, p.filter}, Attrs(c, true)), true);
    compare(RunOp("Conv2DBackpropInput", {Sizes(p.image.shape()), p.filter, p.gradient}, Attrs(c), {}, {0}),
            RunOp("Conv2DBackpropInput", {Sizes(image.shape()), p.filter, gradient}, Attrs(c, true), {}, {0}), true);
    compare(RunOp("Conv2DBackpropFilter", {p.image, Sizes(p.filter.shape()), p.gradient}, Attrs(c), {}, {1}),
            RunOp("Conv2DBackpropFilter", {image, Sizes(p.filter.shape()), gradient}, Attrs(c, true), {}, {1}), false);
  }
}

std::vector<StatusOr<OpRun>> AllThree(const Case& c) {
  const Problem<float> p(c);
  return {RunOp("Conv2D", {p.image, p.filter}, Attrs(c)),
          RunOp("Conv2DBackpropInput", {Sizes(p.image.shape()), p.filter, p.gradient}, Attrs(c), {}, {0}),
          RunOp("Conv2DBackpropFilter", {p.image, Sizes(p.filter.shape()), p.gradient}, Attrs(c), {}, {1})};
}

TEST(Conv2D, ManyChannels_UseOneDnnAndNeverItsReference) {
  for (const StatusOr<OpRun>& run : AllThree({2, 14, 14, 32, 64, 5, 5, 2, "SAME"})) {
    ASSERT_OK(run);
    EXPECT_THAT(run->implementation, HasSubstr("dnnl"));
    EXPECT_THAT(run->implementation, Not(HasSubstr("ref")));
  }
}

TEST(Conv2D, FewChannelsOfResult_LieInPlanes) {
  const auto forward = AllThree({2, 7, 14, 16, 6, 5, 5, 1, "SAME"}),
             backward = AllThree({2, 6, 14, 6, 16, 5, 5, 1, "SAME"});
  ASSERT_OK(forward[0]);
  ASSERT_OK(backward[1]);
  EXPECT_EQ(forward[0]->implementation, "hwy planar");
  EXPECT_EQ(backward[1]->implementation, "hwy planar");
}

// A channel more is another way to put the channels of a pixel side by side, and one more row another tile.
TEST(Conv2D, PlanesOfOneToEightChannelsOnEveryTarget_AreTheFloat64Convolution) {
  OnEveryTarget([](const std::string& target) {
    SCOPED_TRACE(target);
    for (int64_t channels = 1; channels <= 8; ++channels) {
      CheckAll<float>({2, 6 + channels % 2, 15, 4, channels, 5, 5, 1, "SAME"}, {}, 1.2e-7);
      CheckAll<float>({1, 5, 16 + channels, channels, 9, 3, 3, 1, "VALID"}, {}, 1.2e-7);
      CheckAll<float>({1, 9, 32, 3, channels, 3, 3, 1, "EXPLICIT", 2, 5}, {}, 1.2e-7);
    }
  });
}

// What padding hides of a window's rows is left out: an infinite weight meets pixels alone.
TEST(Conv2D, InfiniteWeightOverPaddedRows_MeetsNoPadding) {
  Tensor image(DType::kFloat32, Shape{1, 2, 16, 1}), filter(DType::kFloat32, Shape{25, 1, 1, 1});
  std::ranges::fill(image.flat<float>(), 1.0f);
  std::ranges::fill(filter.flat<float>(), 0.0f);
  filter.flat<float>()[0] = std::numeric_limits<float>::infinity();  // eleven rows above each pixel, or more: padding
  const Case c = {1, 2, 16, 1, 1, 25, 1, 1, "SAME"};
  const auto run = RunOp("Conv2D", {image, filter}, Attrs(c));
  ASSERT_OK(run);
  EXPECT_EQ(run->implementation, "hwy planar");
  for (float y : run->outputs[0].flat<float>()) EXPECT_EQ(y, 0.0f);
}

// The filters of one channel, few enough for a vector, are summed over whole windows or some of their rows at a time.
TEST(Conv2D, FewFiltersOfOneChannelOnEveryTarget_AreTheFloat64Convolution) {
  OnEveryTarget([](const std::string& target) {
    SCOPED_TRACE(target);
    for (int64_t filters : {1, 2, 4, 6, 8, 11, 16, 17}) {
      CheckAll<float>({2, 9, 28, 1, filters, 5, 5, 1, "SAME"}, {}, 1.2e-7);
      CheckAll<float>({3, 8, 18, 1, filters, 3, 3, 1, "VALID"}, {}, 1.2e-7);
      CheckAll<float>({1, 6, 13, 1, filters, 4, 3, 1, "EXPLICIT", 1, 1}, {}, 1.2e-7);
      CheckAll<float>({2, 9, 11, 1, filters, 5, 5, 1, "SAME"}, {}, 1.2e-7);
      CheckAll<float>({3, 8, 7, 1, filters, 3, 3, 2, "VALID"}, {}, 1.2e-7);
      CheckAll<float>({2, 9, 8, 1, filters, 7, 5, 1, "VALID"}, {}, 1.2e-7);
      CheckAll<float>({1, 6, 7, 1, filters, 4, 3, 1, "EXPLICIT", 1, 1}, {}, 1.2e-7);
    }
  });
}

TEST(Conv2D, OneInputChannel_NeverUsesLoops) {
  for (const StatusOr<OpRun>& run : AllThree(Cases()[0])) {
    ASSERT_OK(run);
    EXPECT_NE(run->implementation, "loops");
  }
}

TEST(Conv2D, DirectOnEveryTarget_IsTheFloat64Convolution) {
  OnEveryTarget([](const std::string& target) {
    for (const Case& c : Cases()) {
      SCOPED_TRACE(target);
      CheckAll<float>(c, {}, 1.2e-7);
    }
  });
}

TEST(Conv2D, PortablePolicy_UsesNoLibrary) {
  KernelPolicy portable;
  portable.portable = true;
  const Problem<float> p(Cases()[1]);
  const auto run = RunOp("Conv2D", {p.image, p.filter}, Attrs(Cases()[1]), portable);
  ASSERT_OK(run);
  EXPECT_EQ(run->implementation, "portable patches");
}

}  // namespace
}  // namespace rivulet::testing
