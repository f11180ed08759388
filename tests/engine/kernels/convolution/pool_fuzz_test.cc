// Pools of random shapes and options against plain loops over windows, in both layouts.
#include <cmath>
#include <limits>
#include <random>

#include "tests/engine/kernels/convolution/window_problem.h"
#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

struct Pooling : WindowProblem {
  bool ceil_mode, count_padding;
  int64_t channels;

  Shape Image(int64_t height, int64_t width) const { return WindowProblem::Image(height, width, channels); }
  AttrMap Attrs() const {
    AttrMap attrs = WindowAttrs();
    attrs["ksize"] = ByAxis(y.window, x.window);
    attrs["_dilations"] = ByAxis(y.dilation, x.dilation);
    attrs["_ceil_mode"] = ceil_mode;
    return attrs;
  }
  std::string Name() const {
    return fmt::format("{} {}{} batch {} channels {}; {}", nchw ? "NCHW" : "NHWC", padding, ceil_mode ? " ceil" : "",
                       batch, channels, AxisNames());
  }
};

WindowAxis RandomAxis(std::mt19937& random, const std::string& padding, bool ceil_mode) {
  const auto from = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
  };
  while (true) {
    WindowAxis a{from(1, 9), 0, from(1, 4), from(1, 3), from(1, 2), 0, 0};
    const int64_t reach = (a.window - 1) * a.dilation + 1;
    if (padding == "SAME") {
      a.out = (a.in + a.stride - 1) / a.stride;
      const int64_t total = std::max<int64_t>(0, (a.out - 1) * a.stride + reach - a.in);
      a.before = total / 2;
      a.after = total - total / 2;
    } else {
      if (padding == "EXPLICIT") {
        a.before = from(0, 2);
        a.after = from(0, 2);
      }
      if (a.in + a.before + a.after < reach) continue;
      const int64_t rest = a.in + a.before + a.after - reach;
      a.out = (ceil_mode ? (rest + a.stride - 1) / a.stride : rest / a.stride) + 1;
      if (ceil_mode && (a.out - 1) * a.stride >= a.in + a.before) --a.out;
    }
    // Each window must hold a pixel.
    bool all = true;
    for (int64_t out = 0; out < a.out; ++out) {
      bool any = false;
      for (int64_t k = 0; k < a.window; ++k) {
        const int64_t at = out * a.stride - a.before + k * a.dilation;
        any = any || (at >= 0 && at < a.in);
      }
      all = all && any;
    }
    if (all) return a;
  }
}

Pooling RandomPooling(uint32_t seed) {
  std::mt19937 random(seed);
  Pooling p;
  p.nchw = random() % 2 == 0;
  p.padding = std::vector<std::string>{"SAME", "VALID", "EXPLICIT"}[random() % 3];
  p.ceil_mode = random() % 2 == 0;
  p.count_padding = random() % 2 == 0;
  p.batch = 1 + random() % 2;
  p.channels = std::vector<int64_t>{1, 3, 8, 16, 21}[random() % 5];
  p.y = RandomAxis(random, p.padding, p.ceil_mode);
  p.x = RandomAxis(random, p.padding, p.ceil_mode);
  return p;
}

template <typename T>
void Check(uint32_t seed, double epsilon) {
  const Pooling p = RandomPooling(seed);
  SCOPED_TRACE(p.Name());
  const Tensor image = RandomTensor<T>(p.Image(p.y.in, p.x.in), 1);
  const Tensor gradient = RandomTensor<T>(p.Image(p.y.out, p.x.out), 2);
  const Tensor picks = RandomTensor<T>(image.shape(), 3);
  const std::vector<double> x = AsDoubles<T>(image), g = AsDoubles<T>(gradient), dd = AsDoubles<T>(picks);
  std::vector<double> largest(g.size()), mean(g.size()), picked(g.size());
  std::vector<double> to_largest(x.size(), 0), to_positive(x.size(), 0), shared(x.size(), 0);
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t c = 0; c < p.channels; ++c)
      for (int64_t oy = 0; oy < p.y.out; ++oy)
        for (int64_t ox = 0; ox < p.x.out; ++ox) {
          const size_t out = p.At(b, oy, ox, c, p.y.out, p.x.out, p.channels);
          std::vector<size_t> pixels;
          int64_t counted = 0;
          for (int64_t ky = 0; ky < p.y.window; ++ky)
            for (int64_t kx = 0; kx < p.x.window; ++kx) {
              const int64_t iy = oy * p.y.stride - p.y.before + ky * p.y.dilation;
              const int64_t ix = ox * p.x.stride - p.x.before + kx * p.x.dilation;
              counted += iy < p.y.in + p.y.after && ix < p.x.in + p.x.after;
              if (iy >= 0 && iy < p.y.in && ix >= 0 && ix < p.x.in)
                pixels.push_back(p.At(b, iy, ix, c, p.y.in, p.x.in, p.channels));
            }
          size_t best = pixels.front();
          double sum = 0;
          for (size_t pixel : pixels) {
            if (x[pixel] > x[best]) best = pixel;
            sum += x[pixel];
          }
          const double count = p.count_padding ? static_cast<double>(counted) : static_cast<double>(pixels.size());
          largest[out] = x[best];
          mean[out] = sum / count;
          picked[out] = dd[best];
          to_largest[best] += g[out];
          if (x[best] > 0) to_positive[best] += g[out];
          for (size_t pixel : pixels) shared[pixel] += g[out] / count;
        }
  AttrMap average = p.Attrs(), picking = p.Attrs();
  for (AttrMap* attrs : {&average, &picking}) {
    if (const auto amounts = attrs->find("explicit_paddings"); amounts != attrs->end()) {
      (*attrs)["_explicit_paddings"] = amounts->second;
      attrs->erase("explicit_paddings");
    }
  }
  average["_count_include_pad"] = p.count_padding;
  const auto expect = [&](const StatusOr<OpRun>& run, const std::vector<double>& expected, double tolerance,
                          const std::string& what) {
    ASSERT_OK(run) << what;
    ExpectNear<T>(run->outputs[0], expected, tolerance, what);
  };
  const double few = 20 * epsilon;
  const auto pooled = RunOp("MaxPool", {image}, p.Attrs());
  expect(pooled, largest, 0, "MaxPool");
  ASSERT_OK(pooled);
  const Tensor top = pooled->outputs[0];
  expect(RunOp("MaxPoolGrad", {image, top, gradient}, p.Attrs()), to_largest, few, "MaxPoolGrad");
  expect(RunOp("MaxPoolGradGrad", {image, top, picks}, picking), picked, 0, "MaxPoolGradGrad");
  // What Relu leaves of the image has the same largest elements where they are positive.
  Tensor positive(image.dtype(), image.shape()), positive_top(top.dtype(), top.shape());
  for (size_t i = 0; i < x.size(); ++i) positive.flat<T>()[i] = std::max<T>(std::as_const(image).flat<T>()[i], 0);
  for (size_t i = 0; i < g.size(); ++i) positive_top.flat<T>()[i] = std::max<T>(std::as_const(top).flat<T>()[i], 0);
  expect(RunOp("_MaxPoolReluGrad", {positive, positive_top, gradient}, p.Attrs()), to_positive, few,
         "_MaxPoolReluGrad");
  expect(RunOp("AvgPool", {image}, average), mean, few, "AvgPool");
  std::vector<int32_t> sizes(image.shape().dims().begin(), image.shape().dims().end());
  expect(RunOp("AvgPoolGrad", {Tensor::Of<int32_t>({4}, std::span<const int32_t>(sizes)), gradient}, average, {}, {0}),
         shared, few, "AvgPoolGrad");
}

TEST(PoolFuzz, Float32_IsThePlainPool) {
  for (uint32_t seed = 0; seed < 150; ++seed) Check<float>(seed, 1.2e-7);
}

TEST(PoolFuzz, Float64_IsThePlainPool) {
  for (uint32_t seed = 1000; seed < 1060; ++seed) Check<double>(seed, 3e-16);
}

TEST(PoolFuzz, OnEveryTarget_IsThePlainPool) {
  OnEveryTarget([](const std::string& target) {
    SCOPED_TRACE(target);
    for (uint32_t seed = 2000; seed < 2040; ++seed) Check<float>(seed, 1.2e-7);
  });
}

TEST(PoolFuzz, NaN_WinsAMaximum) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::string format : {"NHWC", "NCHW"}) {
    for (const auto& values : {std::vector<float>{nan, 1, 2}, {1, nan, 2}, {1, 2, nan}}) {
      const bool nchw = format == "NCHW";
      const Tensor image =
          Tensor::Of<float>(nchw ? Shape({1, 1, 1, 3}) : Shape({1, 1, 3, 1}), std::span<const float>(values));
      const std::vector<int64_t> size = nchw ? std::vector<int64_t>{1, 1, 1, 3} : std::vector<int64_t>{1, 1, 3, 1};
      const auto run = RunOp("MaxPool", {image},
                             {{"ksize", size},
                              {"strides", std::vector<int64_t>{1, 1, 1, 1}},
                              {"padding", std::string("VALID")},
                              {"data_format", format}});
      ASSERT_OK(run);
      EXPECT_TRUE(std::isnan(std::as_const(run->outputs[0]).flat<float>()[0]));
    }
  }
}

}  // namespace
}  // namespace rivulet::testing
