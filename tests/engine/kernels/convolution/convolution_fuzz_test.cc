// Full, grouped and depthwise convolutions of random shapes, and their gradients, against plain float64 loops: every
// padding, stride, dilation and layout, on every instruction set and with the portable kernels.
#include <random>

#include "engine/kernels/cpu/convolution/depthwise.h"
#include "engine/kernels/cpu/convolution/direct_conv.h"
#include "tests/engine/kernels/convolution/window_problem.h"
#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

struct Problem : WindowProblem {
  bool depthwise;
  int64_t groups, group_in, group_out;

  int64_t in_channels() const { return groups * group_in; }
  int64_t out_channels() const { return groups * group_out; }
  std::string op(const std::string& suffix) const { return (depthwise ? "DepthwiseConv2dNative" : "Conv2D") + suffix; }
  Shape in() const { return Image(y.in, x.in, in_channels()); }
  Shape out() const { return Image(y.out, x.out, out_channels()); }
  Shape filter() const {
    return depthwise ? Shape({y.window, x.window, in_channels(), group_out})
                     : Shape({y.window, x.window, group_in, out_channels()});
  }
  AttrMap Attrs() const {
    AttrMap attrs = WindowAttrs();
    attrs["dilations"] = ByAxis(y.dilation, x.dilation);
    return attrs;
  }
  std::string Name() const {
    return fmt::format("{}{} {} batch {} groups {} of {} to {}; {}", op(""), nchw ? " NCHW" : "", padding, batch,
                       groups, group_in, group_out, AxisNames());
  }
  // f(input, filter, output) with the flat indices of every product.
  template <typename F>
  void ForEachProduct(F f) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t oy = 0; oy < y.out; ++oy)
        for (int64_t ox = 0; ox < x.out; ++ox)
          for (int64_t ky = 0; ky < y.window; ++ky)
            for (int64_t kx = 0; kx < x.window; ++kx) {
              const int64_t iy = oy * y.stride - y.before + ky * y.dilation;
              const int64_t ix = ox * x.stride - x.before + kx * x.dilation;
              if (iy < 0 || iy >= y.in || ix < 0 || ix >= x.in) continue;
              for (int64_t o = 0; o < out_channels(); ++o)
                for (int64_t i = 0; i < group_in; ++i)
                  f(At(b, iy, ix, o / group_out * group_in + i, y.in, x.in, in_channels()),
                    // The same bytes for [y, x, in, multiplier], where group_in is 1.
                    static_cast<size_t>(((ky * x.window + kx) * group_in + i) * out_channels() + o),
                    At(b, oy, ox, o, y.out, x.out, out_channels()));
            }
  }
};

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t From(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(engine_() % static_cast<uint32_t>(high - low + 1));
  }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[From(0, static_cast<int64_t>(values.size()) - 1)];
  }

 private:
  std::mt19937 engine_;
};

WindowAxis RandomAxis(Random& random, const std::string& padding, int64_t most) {
  while (true) {
    WindowAxis a{random.From(1, most),
                 0,
                 random.From(1, 5),
                 random.OneOf<int64_t>({1, 1, 2, 2, 3}),
                 random.OneOf<int64_t>({1, 1, 1, 2, 3}),
                 0,
                 0};
    const int64_t reach = (a.window - 1) * a.dilation + 1;
    if (padding == "SAME") {
      a.out = (a.in + a.stride - 1) / a.stride;
      const int64_t total = std::max<int64_t>(0, (a.out - 1) * a.stride + reach - a.in);
      a.before = total / 2;
      a.after = total - total / 2;
      return a;
    }
    if (padding == "EXPLICIT") {
      a.before = random.From(0, 4);  // beyond the window at times
      a.after = random.From(0, 4);
    }
    if (a.in + a.before + a.after < reach) continue;
    a.out = (a.in + a.before + a.after - reach) / a.stride + 1;
    return a;
  }
}

Problem RandomProblem(uint32_t seed) {
  Random random(seed);
  Problem p;
  p.padding = random.OneOf<std::string>({"SAME", "VALID", "EXPLICIT"});
  p.depthwise = random.From(0, 1) == 1;
  p.nchw = random.From(0, 1) == 1;
  p.batch = random.From(1, 3);
  p.groups =
      p.depthwise ? random.OneOf<int64_t>({1, 2, 5, 8, 16, 19, 40, 53}) : random.OneOf<int64_t>({1, 1, 1, 2, 3, 4});
  p.group_in = p.depthwise ? 1 : random.OneOf<int64_t>({1, 2, 3, 4, 8, 17});
  p.group_out = p.depthwise ? random.OneOf<int64_t>({1, 1, 1, 2, 3}) : random.OneOf<int64_t>({1, 2, 5, 8, 16, 20});
  const int64_t most = p.depthwise && p.nchw ? 70 : 13;
  p.y = RandomAxis(random, p.padding, 12);
  p.x = RandomAxis(random, p.padding, most);
  return p;
}

Tensor Sizes(const Shape& shape) {
  std::vector<int32_t> sizes(shape.dims().begin(), shape.dims().end());
  return Tensor::Of<int32_t>({4}, std::span<const int32_t>(sizes));
}

template <typename T>
void Check(const Problem& p, KernelPolicy policy, double epsilon, const std::string& target) {
  const Tensor image = RandomTensor<T>(p.in(), 1), filter = RandomTensor<T>(p.filter(), 2);
  const Tensor gradient = RandomTensor<T>(p.out(), 3);
  const std::vector<double> x = AsDoubles<T>(image), w = AsDoubles<T>(filter), g = AsDoubles<T>(gradient);
  std::vector<double> y(g.size(), 0), dx(x.size(), 0), dw(w.size(), 0);
  p.ForEachProduct([&](size_t in, size_t tap, size_t out) {
    y[out] += x[in] * w[tap];
    dx[in] += g[out] * w[tap];
    dw[tap] += g[out] * x[in];
  });
  const auto expect = [&](const StatusOr<OpRun>& run, const std::vector<double>& expected, int64_t terms,
                          const std::string& what) {
    ASSERT_OK(run) << what << " " << p.Name();
    // By fewer multiplications what rounding may have made of a filter's gradient is 0.
    const bool zeroed = what == "filter" && run->implementation.find("winograd") != std::string::npos;
    ExpectNear<T>(run->outputs[0], expected, (zeroed ? 40 : 1) * epsilon * static_cast<double>(terms + 1),
                  fmt::format("{} {} {}; {}", target, run->implementation, what, p.Name()));
  };
  const int64_t taps = p.y.window * p.x.window;
  expect(RunOp(p.op(""), {image, filter}, p.Attrs(), policy), y, taps * p.group_in, "forward");
  expect(RunOp(p.op("BackpropInput"), {Sizes(p.in()), filter, gradient}, p.Attrs(), policy, {0}), dx,
         taps * p.group_out, "input");
  expect(RunOp(p.op("BackpropFilter"), {image, Sizes(p.filter()), gradient}, p.Attrs(), policy, {1}), dw,
         p.batch * p.y.out * p.x.out, "filter");
}

TEST(ConvolutionFuzz, Float32_IsTheFloat64Convolution) {
  for (uint32_t seed = 0; seed < 150; ++seed) Check<float>(RandomProblem(seed), {}, 1.2e-7, "");
}

TEST(ConvolutionFuzz, Float32OnEveryTarget_IsTheFloat64Convolution) {
  OnEveryTarget([](const std::string& target) {
    for (uint32_t seed = 1000; seed < 1040; ++seed) Check<float>(RandomProblem(seed), {}, 1.2e-7, target);
  });
}

TEST(ConvolutionFuzz, Portable_IsTheFloat64Convolution) {
  KernelPolicy portable;
  portable.portable = true;
  for (uint32_t seed = 2000; seed < 2040; ++seed) Check<float>(RandomProblem(seed), portable, 1.2e-7, "portable");
}

TEST(ConvolutionFuzz, Float64_IsTheFloat64Convolution) {
  for (uint32_t seed = 3000; seed < 3040; ++seed) Check<double>(RandomProblem(seed), {}, 3e-16, "float64");
}

// Our depthwise kernels by themselves, also where a program would choose the library's.
TEST(ConvolutionFuzz, OwnDepthwiseOnEveryTarget_IsTheFloat64Convolution) {
  OnEveryTarget([](const std::string& target) {
    int served = 0;
    for (uint32_t seed = 6000; seed < 6120; ++seed) {
      const Problem p = RandomProblem(seed);
      if (!p.depthwise || p.group_out != 1) continue;
      Window w;
      w.batch = p.batch;
      w.in_height = p.y.in;
      w.in_width = p.x.in;
      w.out_height = p.y.out;
      w.out_width = p.x.out;
      w.in_channels = w.out_channels = w.groups = p.groups;
      w.height = p.y.window;
      w.width = p.x.window;
      w.stride_height = p.y.stride;
      w.stride_width = p.x.stride;
      w.dilation_height = p.y.dilation;
      w.dilation_width = p.x.dilation;
      w.pad_top = p.y.before;
      w.pad_bottom = p.y.after;
      w.pad_left = p.x.before;
      w.pad_right = p.x.after;
      w.nchw = p.nchw;
      const Tensor image = RandomTensor<float>(p.in(), 1), filter = RandomTensor<float>(p.filter(), 2);
      const Tensor gradient = RandomTensor<float>(p.out(), 3);
      const auto x = AsDoubles<float>(image), f = AsDoubles<float>(filter), g = AsDoubles<float>(gradient);
      std::vector<double> y(g.size(), 0), dx(x.size(), 0), dw(f.size(), 0);
      p.ForEachProduct([&](size_t in, size_t tap, size_t out) {
        y[out] += x[in] * f[tap];
        dx[in] += g[out] * f[tap];
        dw[tap] += g[out] * x[in];
      });
      const auto check = [&](ConvDirection direction, const Tensor& first, const Tensor& second,
                             const std::vector<double>& expected, double terms) {
        const auto prepared = DepthwiseConvolution(direction, w);
        if (!prepared) return;
        ++served;
        AlignedBuffer result(expected.size() * sizeof(float)), scratch(prepared->scratch_bytes);
        std::memset(result.data(), 0xFF, result.size());
        std::memset(scratch.data(), 0xFF, scratch.size());
        std::byte* const inputs[] = {const_cast<Tensor&>(first).data(), const_cast<Tensor&>(second).data()};
        std::byte* const outputs[] = {result.data()};
        KernelContext context;
        context.inputs = inputs;
        context.outputs = outputs;
        context.scratch = scratch.data();
        ASSERT_EQ(prepared->kernel->Run(context), absl::OkStatus());
        Tensor actual(DType::kFloat32, Shape({static_cast<int64_t>(expected.size())}));
        std::memcpy(actual.data(), result.data(), actual.bytes());
        ExpectNear<float>(actual, expected, 1.2e-7 * (terms + 1), target + " " + p.Name());
      };
      const double taps = static_cast<double>(p.y.window * p.x.window);
      check(ConvDirection::kForward, image, filter, y, taps);
      check(ConvDirection::kBackwardInput, filter, gradient, dx, taps);
      check(ConvDirection::kBackwardFilter, image, gradient, dw, static_cast<double>(p.batch * p.y.out * p.x.out));
    }
    EXPECT_GT(served, 60) << target;
  });
}

// From 32 MiB on, where its lines are aligned, a result goes past the caches.
TEST(DepthwiseConvolution, VastImages_HaveTheBitsOfThoseThatGoThroughTheCaches) {
  const Shape images({1, 512, 512, 32}), window({3, 3, 32, 1});
  const Tensor image = RandomTensor<float>(images, 1), filter = RandomTensor<float>(window, 2);
  const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", std::string("SAME")}};
  const Tensor sizes = Tensor::Of<int32_t>({4}, {1, 512, 512, 32});
  OnEveryTarget([&](const std::string& target) {
    const auto check = [&](const std::string& op, const std::vector<Tensor>& inputs, std::vector<int> constants) {
      const auto aligned = RunOp(op, inputs, attrs, {}, constants);
      const auto apart = RunOp(op, inputs, attrs, {}, constants, /*misalign=*/sizeof(float));
      ASSERT_OK(aligned) << target;
      ASSERT_OK(apart) << target;
      EXPECT_THAT(aligned->implementation, ::testing::HasSubstr("hwy depthwise"));
      EXPECT_EQ(std::memcmp(aligned->outputs[0].data(), apart->outputs[0].data(), image.bytes()), 0) << op << target;
    };
    check("DepthwiseConv2dNative", {image, filter}, {});
    check("DepthwiseConv2dNativeBackpropInput", {sizes, filter, image}, {0});
  });
}

// A fused convolution gives the bits of its parts.
template <typename T>
void CheckFused(uint32_t seed, KernelPolicy policy) {
  Problem p = RandomProblem(seed);
  if (p.depthwise) p.depthwise = false;  // depthwise by its channels, which a grouped convolution may be
  const Tensor image = RandomTensor<T>(p.in(), 1), filter = RandomTensor<T>(p.filter(), 2);
  const Tensor bias = RandomTensor<T>({p.out_channels()}, 3);
  const AttrMap layout = {{"data_format", std::string(p.nchw ? "NCHW" : "NHWC")}};
  for (const std::vector<std::string>& fused :
       std::vector<std::vector<std::string>>{{"BiasAdd"}, {"Relu"}, {"BiasAdd", "Relu"}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", p.Name(), fused.front(), fused.back()));
    const auto plain = RunOp("Conv2D", {image, filter}, p.Attrs(), policy);
    ASSERT_OK(plain);
    Tensor expected = plain->outputs[0];
    std::vector<Tensor> inputs = {image, filter};
    if (fused.front() == "BiasAdd") {
      inputs.push_back(bias);
      const auto added = RunOp("BiasAdd", {expected, bias}, layout, policy);
      ASSERT_OK(added);
      expected = added->outputs[0];
    }
    if (fused.back() == "Relu") {
      const auto positive = RunOp("Relu", {expected}, {}, policy);
      ASSERT_OK(positive);
      expected = positive->outputs[0];
    }
    AttrMap attrs = p.Attrs();
    attrs["fused_ops"] = fused;
    attrs["num_args"] = static_cast<int64_t>(inputs.size() - 2);
    const auto run = RunOp("_FusedConv2D", inputs, attrs, policy);
    ASSERT_OK(run);
    SCOPED_TRACE(plain->implementation + " and " + run->implementation);
    ExpectNear<T>(run->outputs[0], AsDoubles<T>(expected), 0, "fused");
    if (!std::is_same_v<T, float> || p.nchw || p.y.out < 2 || p.x.out < 2) continue;
    const auto largest = RunOp("MaxPool", {expected},
                               {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                                {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                                {"padding", std::string("VALID")}},
                               policy);
    ASSERT_OK(largest);
    const auto pooled = RunOp("_FusedConv2DMaxPool", inputs, attrs, policy);
    ASSERT_OK(pooled);
    SCOPED_TRACE(pooled->implementation);
    ExpectNear<T>(pooled->outputs[0], AsDoubles<T>(largest->outputs[0]), 0, "pooled");
  }
}

TEST(ConvolutionFuzz, FusedFloat32_HasTheBitsOfItsParts) {
  for (uint32_t seed = 4000; seed < 4060; ++seed) CheckFused<float>(seed, {});
}

TEST(ConvolutionFuzz, FusedPortableAndFloat64_HaveTheBitsOfTheirParts) {
  KernelPolicy portable;
  portable.portable = true;
  for (uint32_t seed = 5000; seed < 5020; ++seed) {
    CheckFused<float>(seed, portable);
    CheckFused<double>(seed, {});
  }
}

TEST(ConvolutionFuzz, FusedRelu6_EndsAtSix) {
  const Tensor image = Tensor::Of<float>({1, 1, 3, 1}, {-1, 2, 4}), filter = Tensor::Of<float>({1, 1, 1, 1}, {2});
  const auto run = RunOp("_FusedConv2D", {image, filter, Tensor::Of<float>({1}, {1})},
                         {{"strides", std::vector<int64_t>{1, 1, 1, 1}},
                          {"padding", std::string("SAME")},
                          {"num_args", int64_t{1}},
                          {"fused_ops", std::vector<std::string>{"BiasAdd", "Relu6"}}});
  ASSERT_OK(run);
  ExpectNear<float>(run->outputs[0], {0, 5, 6}, 0, "relu6");
}

// Of 4×4 pixels under a window of 3×3 the first row and column see padding with the window's first tap.
TEST(DirectConvolution, InfiniteWeight_IsNanWhereItMeetsPaddingAlone) {
  Window w;
  w.batch = w.in_channels = w.out_channels = 1;
  w.in_height = w.in_width = w.out_height = w.out_width = 4;
  w.height = w.width = 3;
  w.pad_top = w.pad_bottom = w.pad_left = w.pad_right = 1;
  std::vector<float> image(16, 1.0f), filter(9, 1.0f), result(16);
  filter[0] = std::numeric_limits<float>::infinity();
  const std::optional<Prepared> prepared = DirectConvolution(ConvDirection::kForward, w);
  ASSERT_TRUE(prepared.has_value());
  AlignedBuffer scratch(prepared->scratch_bytes);
  std::byte* const in[] = {reinterpret_cast<std::byte*>(image.data()), reinterpret_cast<std::byte*>(filter.data())};
  std::byte* const out[] = {reinterpret_cast<std::byte*>(result.data())};
  KernelContext context;
  context.inputs = in;
  context.outputs = out;
  context.scratch = scratch.data();
  ASSERT_OK(prepared->kernel->Run(context));
  for (size_t i = 0; i < result.size(); ++i) {
    const bool meets_padding = i < 4 || i % 4 == 0;
    EXPECT_EQ(std::isnan(result[i]), meets_padding) << i;
    EXPECT_EQ(std::isinf(result[i]), !meets_padding) << i;
  }
}

// The kernel that makes one image after the other, the one that pools in its registers, and one that does neither.
TEST(PooledConvolution, EachWay_HasTheBitsOfItsParts) {
  struct Sizes {
    Shape image, filter;
    std::string implementation;
  };
  const AttrMap pool = {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                        {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                        {"padding", std::string("VALID")}};
  for (const Sizes& sizes : {Sizes{{3, 9, 10, 6}, {5, 5, 6, 16}, "hwy direct, pool"},
                             Sizes{{3, 16, 16, 32}, {3, 3, 32, 32}, "hwy winograd 4x4, epilogue and pool inside"},
                             Sizes{{3, 28, 28, 1}, {5, 5, 1, 6}, "hwy planar, epilogue inside, pool"}}) {
    Tensor image = RandomTensor<float>(sizes.image, 1);
    image.flat<float>()[40] = std::numeric_limits<float>::quiet_NaN();
    const Tensor filter = RandomTensor<float>(sizes.filter, 2), bias = RandomTensor<float>({sizes.filter.dim(3)}, 3);
    const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}},
                           {"padding", std::string("VALID")},
                           {"num_args", int64_t{1}},
                           {"fused_ops", std::vector<std::string>{"BiasAdd", "Relu"}}};
    const auto convolution = RunOp("_FusedConv2D", {image, filter, bias}, attrs);
    ASSERT_OK(convolution);
    const auto expected = RunOp("MaxPool", {convolution->outputs[0]}, pool);
    ASSERT_OK(expected);
    const auto actual = RunOp("_FusedConv2DMaxPool", {image, filter, bias}, attrs);
    ASSERT_OK(actual);
    EXPECT_EQ(actual->implementation, sizes.implementation);
    EXPECT_EQ(actual->outputs[0].shape(), expected->outputs[0].shape());
    EXPECT_EQ(std::memcmp(actual->outputs[0].data(), expected->outputs[0].data(), expected->outputs[0].bytes()), 0)
        << sizes.implementation;
  }
}

// Planes, whose rows have bias and activation done before channels come side by side, and unpadded images of few
// channels, which have them done image by image.
TEST(FusedConvolution, OfFewChannelsOnEveryTarget_HasTheBitsOfItsParts) {
  struct Sizes {
    Shape image, filter;
    std::string padding, implementation;
  };
  OnEveryTarget([](const std::string& target) {
    for (const Sizes& sizes : {Sizes{{2, 7, 28, 1}, {5, 5, 1, 6}, "SAME", "hwy planar, epilogue inside"},
                               Sizes{{1, 6, 18, 3}, {3, 3, 3, 5}, "VALID", "hwy planar, epilogue inside"},
                               Sizes{{2, 9, 10, 6}, {5, 5, 6, 16}, "VALID", "hwy direct"}}) {
      Tensor image = RandomTensor<float>(sizes.image, 1);
      image.flat<float>()[40] = std::numeric_limits<float>::quiet_NaN();
      const Tensor filter = RandomTensor<float>(sizes.filter, 2),
                   bias = RandomTensor<float>(Shape({sizes.filter.dim(3)}), 3);
      AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", sizes.padding}};
      const auto sums = RunOp("Conv2D", {image, filter}, attrs);
      ASSERT_OK(sums);
      const auto biased = RunOp("BiasAdd", {sums->outputs[0], bias});
      ASSERT_OK(biased);
      attrs["num_args"] = int64_t{1};
      for (const std::string activation : {"", "Relu", "Relu6"}) {
        std::vector<std::string> ops = {"BiasAdd"};
        if (!activation.empty()) ops.push_back(activation);
        attrs["fused_ops"] = ops;
        const auto fused = RunOp("_FusedConv2D", {image, filter, bias}, attrs);
        ASSERT_OK(fused);
        EXPECT_EQ(fused->implementation, sizes.implementation);
        Tensor expected = biased->outputs[0];
        if (!activation.empty()) {
          const auto activated = RunOp(activation, {biased->outputs[0]});
          ASSERT_OK(activated);
          expected = activated->outputs[0];
        }
        EXPECT_EQ(std::memcmp(fused->outputs[0].data(), expected.data(), expected.bytes()), 0)
            << target << " " << sizes.implementation << " " << activation;
      }
    }
  });
}

TEST(ConvolutionFuzz, InputSizesOfHeightAndWidth_AreTheWholeShape) {
  const Tensor filter = RandomTensor<float>({3, 3, 2, 4}, 1), gradient = RandomTensor<float>({2, 3, 4, 4}, 2);
  const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 2, 2, 1}}, {"padding", std::string("SAME")}};
  const auto four =
      RunOp("Conv2DBackpropInput", {Tensor::Of<int32_t>({4}, {2, 6, 7, 2}), filter, gradient}, attrs, {}, {0});
  const auto two = RunOp("Conv2DBackpropInput", {Tensor::Of<int32_t>({2}, {6, 7}), filter, gradient}, attrs, {}, {0});
  ASSERT_OK(four);
  ASSERT_OK(two);
  EXPECT_EQ(two->outputs[0].shape(), Shape({2, 6, 7, 2}));
  ExpectNear<float>(two->outputs[0], AsDoubles<float>(four->outputs[0]), 0, "two sizes");
}

}  // namespace
}  // namespace rivulet::testing
