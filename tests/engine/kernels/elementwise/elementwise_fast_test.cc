// Pools, bias, relu and the sparse cross-entropy on every instruction set, against plain loops.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

struct PoolCase {
  int64_t batch, height, width, channels, size, stride;
  std::string padding;
};

const std::vector<PoolCase>& PoolCases() {
  static const std::vector<PoolCase> cases = {{2, 28, 28, 32, 2, 2, "SAME"}, {1, 7, 7, 64, 2, 2, "SAME"},
                                              {1, 7, 9, 3, 2, 2, "VALID"},   {2, 6, 6, 17, 3, 2, "SAME"},
                                              {1, 5, 5, 1, 3, 1, "SAME"},    {1, 8, 8, 10, 3, 1, "VALID"},
                                              {1, 4, 4, 33, 4, 4, "VALID"}};
  return cases;
}

// Calls f(output pixel, input pixels of its window) with offsets of channel 0.
template <typename F>
void ForEachWindow(const PoolCase& c, F f) {
  const auto axis = [&](int64_t in, int64_t* pad) {
    const int64_t out = c.padding == "SAME" ? (in + c.stride - 1) / c.stride : (in - c.size) / c.stride + 1;
    *pad = c.padding == "SAME" ? std::max<int64_t>(0, (out - 1) * c.stride + c.size - in) / 2 : 0;
    return out;
  };
  int64_t top = 0, left = 0;
  const int64_t height = axis(c.height, &top), width = axis(c.width, &left);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        std::vector<size_t> taps;
        for (int64_t ky = 0; ky < c.size; ++ky)
          for (int64_t kx = 0; kx < c.size; ++kx) {
            const int64_t iy = y * c.stride - top + ky, ix = x * c.stride - left + kx;
            if (iy < 0 || iy >= c.height || ix < 0 || ix >= c.width) continue;
            taps.push_back(static_cast<size_t>(((b * c.height + iy) * c.width + ix) * c.channels));
          }
        f(static_cast<size_t>(((b * height + y) * width + x) * c.channels), taps,
          Shape({c.batch, height, width, c.channels}));
      }
}

template <typename T>
void CheckPools(const PoolCase& c, const std::string& target) {
  const Tensor image = RandomTensor<T>({c.batch, c.height, c.width, c.channels}, 1);
  const std::vector<double> x = AsDoubles<T>(image);
  Shape pooled;
  ForEachWindow(c, [&](size_t, const std::vector<size_t>&, const Shape& shape) { pooled = shape; });
  const Tensor gradient = RandomTensor<T>(pooled, 2);
  const std::vector<double> g = AsDoubles<T>(gradient);
  std::vector<double> max(g.size()), average(g.size()), max_grad(x.size(), 0), average_grad(x.size(), 0);
  ForEachWindow(c, [&](size_t out, const std::vector<size_t>& taps, const Shape&) {
    for (size_t channel = 0; channel < static_cast<size_t>(c.channels); ++channel) {
      size_t best = taps[0] + channel;
      double sum = 0;
      for (const size_t tap : taps) {
        if (x[tap + channel] > x[best]) best = tap + channel;
        sum += x[tap + channel];
        average_grad[tap + channel] += g[out + channel] / static_cast<double>(taps.size());
      }
      max[out + channel] = x[best];
      max_grad[best] += g[out + channel];
      average[out + channel] = sum / static_cast<double>(taps.size());
    }
  });
  const AttrMap attrs = {{"ksize", std::vector<int64_t>{1, c.size, c.size, 1}},
                         {"strides", std::vector<int64_t>{1, c.stride, c.stride, 1}},
                         {"padding", c.padding}};
  const double tolerance = sizeof(T) == 4 ? 1e-5 : 1e-14;
  const auto max_run = RunOp("MaxPool", {image}, attrs);
  ASSERT_OK(max_run);
  ExpectNear<T>(max_run->outputs[0], max, 0, target + " MaxPool");
  const auto max_grad_run = RunOp("MaxPoolGrad", {image, max_run->outputs[0], gradient}, attrs);
  ASSERT_OK(max_grad_run);
  ExpectNear<T>(max_grad_run->outputs[0], max_grad, tolerance, target + " MaxPoolGrad");
  const auto average_run = RunOp("AvgPool", {image}, attrs);
  ASSERT_OK(average_run);
  ExpectNear<T>(average_run->outputs[0], average, tolerance, target + " AvgPool");
  std::vector<int32_t> sizes(image.shape().dims().begin(), image.shape().dims().end());
  const auto average_grad_run =
      RunOp("AvgPoolGrad", {Tensor::Of<int32_t>({4}, std::span<const int32_t>(sizes)), gradient}, attrs, {}, {0});
  ASSERT_OK(average_grad_run);
  ExpectNear<T>(average_grad_run->outputs[0], average_grad, tolerance, target + " AvgPoolGrad");
}

TEST(Pooling, OnEveryTarget_IsThePlainLoops) {
  OnEveryTarget([](const std::string& target) {
    for (const PoolCase& c : PoolCases()) {
      CheckPools<float>(c, target);
      CheckPools<double>(c, target);
    }
  });
}

TEST(Pooling, MaxPoolGradOfEqualElements_GoesToTheFirst) {
  const Tensor image = Tensor::Of<float>({1, 2, 2, 1}, {3, 3, 3, 3});
  const auto run =
      RunOp("MaxPoolGrad", {image, Tensor::Of<float>({1, 1, 1, 1}, {3}), Tensor::Of<float>({1, 1, 1, 1}, {7})},
            {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
             {"strides", std::vector<int64_t>{1, 2, 2, 1}},
             {"padding", std::string("VALID")}});
  ASSERT_OK(run);
  ExpectNear<float>(run->outputs[0], {7, 0, 0, 0}, 0, "gradient");
}

template <typename T>
void CheckBias(int64_t rows, int64_t channels, const std::string& target) {
  const Tensor value = RandomTensor<T>({rows, channels}, 1), bias = RandomTensor<T>({channels}, 2);
  const std::vector<double> v = AsDoubles<T>(value), b = AsDoubles<T>(bias);
  std::vector<double> sum(v.size()), gradient(b.size(), 0);
  for (size_t i = 0; i < v.size(); ++i) {
    sum[i] = static_cast<double>(static_cast<T>(v[i] + b[i % b.size()]));
    gradient[i % b.size()] += v[i];
  }
  const auto add = RunOp("BiasAdd", {value, bias});
  ASSERT_OK(add);
  ExpectNear<T>(add->outputs[0], sum, 0, target + " BiasAdd");
  const auto grad = RunOp("BiasAddGrad", {value});
  ASSERT_OK(grad);
  ExpectNear<T>(grad->outputs[0], gradient, (sizeof(T) == 4 ? 1e-6 : 1e-15) * static_cast<double>(rows + 2),
                target + " BiasAddGrad");
}

TEST(Bias, OnEveryTarget_IsThePlainLoops) {
  OnEveryTarget([](const std::string& target) {
    for (const auto& [rows, channels] :
         std::vector<std::pair<int64_t, int64_t>>{{10, 10}, {7, 32}, {1000, 33}, {1, 1}, {259, 3}}) {
      CheckBias<float>(rows, channels, target);
      CheckBias<double>(rows, channels, target);
    }
  });
}

TEST(Bias, OnEveryTarget_GradientHasTheSameBits) {
  const Tensor value = RandomTensor<float>({777, 19}, 5);
  std::vector<double> first;
  OnEveryTarget([&](const std::string& target) {
    const auto run = RunOp("BiasAddGrad", {value});
    ASSERT_OK(run);
    if (first.empty()) first = AsDoubles<float>(run->outputs[0]);
    ExpectNear<float>(run->outputs[0], first, 0, target);
  });
}

// Many bytes are walked row by row. What a column sums to cannot tell: the same column of a narrow value is walked
// down.
TEST(Bias, OnEveryTarget_GradientOfWideRowsHasTheBitsOfNarrowOnes) {
  for (const int64_t rows : {800, 515, 263}) {
    const int64_t channels = (int64_t{1} << 20) / rows, narrow = 20;
    const Tensor value = RandomTensor<float>({rows, channels}, 5);
    for (const int64_t first : {int64_t{0}, channels / 2, channels - narrow}) {
      Tensor some(DType::kFloat32, {rows, narrow});
      for (int64_t row = 0; row < rows; ++row)
        std::copy_n(value.flat<float>().data() + row * channels + first, narrow,
                    some.flat<float>().data() + row * narrow);
      OnEveryTarget([&](const std::string& target) {
        const auto wide = RunOp("BiasAddGrad", {value}), down = RunOp("BiasAddGrad", {some});
        ASSERT_OK(wide);
        ASSERT_OK(down);
        EXPECT_THAT(down->outputs[0].flat<float>(), ::testing::ElementsAreArray(wide->outputs[0].flat<float>().subspan(
                                                        static_cast<size_t>(first), static_cast<size_t>(narrow))))
            << rows << " rows on " << target;
      });
    }
  }
  CheckBias<double>(400, 700, "double");
}

TEST(Bias, Nchw_AddsPerChannel) {
  const Tensor value = Tensor::Of<float>({1, 2, 1, 2}, {1, 2, 3, 4}), bias = Tensor::Of<float>({2}, {10, 20});
  const auto add = RunOp("BiasAdd", {value, bias}, {{"data_format", std::string("NCHW")}});
  ASSERT_OK(add);
  ExpectNear<float>(add->outputs[0], {11, 12, 23, 24}, 0, "BiasAdd");
  const auto grad = RunOp("BiasAddGrad", {value}, {{"data_format", std::string("NCHW")}});
  ASSERT_OK(grad);
  ExpectNear<float>(grad->outputs[0], {3, 7}, 0, "BiasAddGrad");
}

TEST(Relu, OnEveryTarget_PassesWhatIsPositive) {
  OnEveryTarget([](const std::string& target) {
    for (const int64_t size : {1, 2, 15, 16, 17, 100}) {
      const Tensor x = RandomTensor<float>({size}, 1), g = RandomTensor<float>({size}, 2);
      std::vector<double> relu = AsDoubles<float>(x), grad = AsDoubles<float>(g);
      for (size_t i = 0; i < relu.size(); ++i) {
        if (relu[i] <= 0) grad[i] = 0;
        relu[i] = std::max(0.0, relu[i]);
      }
      const auto forward = RunOp("Relu", {x}, {}, {}, {}, 4);
      ASSERT_OK(forward);
      ExpectNear<float>(forward->outputs[0], relu, 0, target);
      const auto backward = RunOp("ReluGrad", {g, x}, {}, {}, {}, 4);
      ASSERT_OK(backward);
      ExpectNear<float>(backward->outputs[0], grad, 0, target);
    }
  });
}

TEST(Relu, NaN_StaysNaN) {
  OnEveryTarget([](const std::string& target) {
    const auto run = RunOp("Relu", {Tensor::Of<float>({2}, {std::numeric_limits<float>::quiet_NaN(), -1})});
    ASSERT_OK(run);
    EXPECT_TRUE(std::isnan(run->outputs[0].flat<float>()[0])) << target;
    EXPECT_EQ(run->outputs[0].flat<float>()[1], 0) << target;
  });
}

template <typename T>
void CheckCrossEntropy(double spread, double tolerance) {
  constexpr int64_t kRows = 37, kClasses = 13;
  Tensor logits = RandomTensor<T>({kRows, kClasses}, 1);
  for (T& x : logits.flat<T>()) x = static_cast<T>(x * spread);
  Tensor labels(DType::kInt64, {kRows});
  for (int64_t row = 0; row < kRows; ++row) labels.flat<int64_t>()[static_cast<size_t>(row)] = row * 5 % kClasses;
  const std::vector<double> x = AsDoubles<T>(logits);
  std::vector<double> loss, gradient;
  for (int64_t row = 0; row < kRows; ++row) {
    const double* at = x.data() + row * kClasses;
    const int64_t label = row * 5 % kClasses;
    const double most = *std::max_element(at, at + kClasses);
    double sum = 0;
    for (int64_t i = 0; i < kClasses; ++i) sum += std::exp(at[i] - most);
    loss.push_back(std::log(sum) + most - at[label]);
    for (int64_t i = 0; i < kClasses; ++i) gradient.push_back(std::exp(at[i] - most) / sum - (i == label ? 1 : 0));
  }
  const auto run = RunOp("SparseSoftmaxCrossEntropyWithLogits", {logits, labels});
  ASSERT_OK(run);
  ExpectNear<T>(run->outputs[0], loss, tolerance * (spread + 1), "loss");
  ExpectNear<T>(run->outputs[1], gradient, tolerance, "gradient");
}

TEST(SparseSoftmaxCrossEntropy, RandomLogits_GiveLossAndGradient) {
  for (const double spread : {1e-3, 1.0, 30.0, 1000.0}) {
    CheckCrossEntropy<float>(spread, 1e-6);
    CheckCrossEntropy<double>(spread, 1e-14);
  }
}

TEST(SparseSoftmaxCrossEntropy, LabelOutOfRange_NamesLabelRangeAndRow) {
  const Tensor logits = RandomTensor<float>({3, 10}, 1);
  for (const int64_t label : {int64_t{-1}, int64_t{10}, int64_t{1} << 40}) {
    const auto run = RunOp("SparseSoftmaxCrossEntropyWithLogits", {logits, Tensor::Of<int64_t>({3}, {0, 9, label})});
    EXPECT_THAT(run, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(std::string(run.status().message()),
                HasSubstr(fmt::format("label {} in row 2 is outside 0 to 9", label)));
    EXPECT_THAT(std::string(run.status().message()), HasSubstr("'op'"));
  }
}

TEST(SparseSoftmaxCrossEntropy, Int32Labels_AreTaken) {
  const auto run =
      RunOp("SparseSoftmaxCrossEntropyWithLogits", {Tensor::Of<float>({1, 2}, {0, 0}), Tensor::Of<int32_t>({1}, {1})});
  ASSERT_OK(run);
  ExpectNear<float>(run->outputs[0], {std::log(2.0)}, 1e-7, "loss");
  ExpectNear<float>(run->outputs[1], {0.5, -0.5}, 1e-7, "gradient");
}

}  // namespace
}  // namespace rivulet::testing
