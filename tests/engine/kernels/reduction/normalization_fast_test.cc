// Normalisations and activations on every instruction set: the same bits, and close to plain loops in double.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "engine/tensor/float16.h"
#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

// Runs the op on every target; all must give the bits of the first, which are returned.
std::vector<Tensor> SameOnEveryTarget(const std::string& op, const std::vector<Tensor>& inputs, const AttrMap& attrs,
                                      const KernelPolicy& policy = {}) {
  std::vector<Tensor> first;
  OnEveryTarget([&](const std::string& target) {
    const auto run = RunOp(op, inputs, attrs, policy, {}, /*misalign=*/sizeof(double));
    ASSERT_OK(run) << op << " on " << target;
    if (first.empty()) first = run->outputs;
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_TRUE(first[i].bytes() == 0 || std::memcmp(first[i].data(), run->outputs[i].data(), first[i].bytes()) == 0)
          << op << " output " << i << " on " << target;
  });
  return first;
}

template <typename T>
Tensor Shifted(Shape shape, uint32_t seed, T by) {
  Tensor tensor = RandomTensor<T>(std::move(shape), seed);
  for (T& value : tensor.flat<T>()) value += by;
  return tensor;
}

// Mean and variance in double of the elements that `same` tells to belong together.
struct Moments {
  double mean = 0, variance = 0;
};
template <typename F>
Moments MomentsOf(const std::vector<double>& x, F belongs) {
  double sum = 0, squares = 0, count = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (belongs(i)) sum += x[i], ++count;
  for (size_t i = 0; i < x.size(); ++i)
    if (belongs(i)) squares += (x[i] - sum / count) * (x[i] - sum / count);
  return {sum / count, squares / count};
}

template <typename T>
void CheckBatchNorm(int64_t rows, int64_t channels, bool channels_first) {
  // The mean is a thousand times the deviation: a sum of squares would lose it in float.
  const Shape shape = channels_first ? Shape{2, channels, rows} : Shape{rows, channels};
  const Tensor x = Shifted<T>(shape, 1, T{600}), scale = RandomTensor<T>({channels}, 2),
               offset = RandomTensor<T>({channels}, 3);
  const Tensor zeros(kDTypeOf<T>, Shape({channels}));
  const AttrMap attrs = {{"data_format", std::string(channels_first ? "NCHW" : "NHWC")}, {"epsilon", 1e-5f}};
  const auto outputs = SameOnEveryTarget("FusedBatchNormV3", {x, scale, offset, zeros, zeros}, attrs);
  ASSERT_EQ(outputs.size(), 6u);
  const std::vector<double> values = AsDoubles<T>(x), s = AsDoubles<T>(scale), o = AsDoubles<T>(offset);
  const auto channel = [&](size_t i) {
    return channels_first ? i / static_cast<size_t>(rows) % static_cast<size_t>(channels)
                          : i % static_cast<size_t>(channels);
  };
  std::vector<double> y(values.size());
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    const Moments m = MomentsOf(values, [&](size_t i) { return channel(i) == c; });
    EXPECT_NEAR(static_cast<double>(outputs[3].flat<T>()[c]), m.mean, 600 * (sizeof(T) == 4 ? 4e-7 : 1e-15));
    EXPECT_NEAR(static_cast<double>(outputs[4].flat<T>()[c]), m.variance, sizeof(T) == 4 ? 2e-5 : 1e-12);
    for (size_t i = 0; i < values.size(); ++i)
      if (channel(i) == c) y[i] = (values[i] - m.mean) / std::sqrt(m.variance + double{1e-5f}) * s[c] + o[c];
  }
  ExpectNear<T>(outputs[0], y, sizeof(T) == 4 ? 6e-4 : 1e-11, "batch norm");

  const Tensor dy = RandomTensor<T>(shape, 4);
  const Tensor reserve(kDTypeOf<T>, Shape({0}));
  const auto grads = SameOnEveryTarget("FusedBatchNormGradV3", {dy, x, scale, outputs[3], outputs[4], reserve}, attrs);
  ASSERT_EQ(grads.size(), 5u);
  // Along x and along a constant the gradient vanishes, by what normalisation takes away.
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    double sum = 0, along = 0;
    for (size_t i = 0; i < values.size(); ++i)
      if (channel(i) == c) {
        sum += static_cast<double>(grads[0].flat<T>()[i]);
        along += static_cast<double>(grads[0].flat<T>()[i]) * (values[i] - 600);
      }
    const double root = std::sqrt(static_cast<double>(values.size()));
    EXPECT_NEAR(sum, 0, (sizeof(T) == 4 ? 1e-3 : 1e-10) * root);
    EXPECT_NEAR(along, 0, 1e-3 * root);  // but for epsilon
  }
}

TEST(BatchNorm, EveryTarget_SameBitsAndExactStatistics) {
  for (const int64_t channels : {1, 3, 16, 70, 133}) {
    CheckBatchNorm<float>(600, channels, false);
    CheckBatchNorm<double>(40, channels, false);
  }
  CheckBatchNorm<float>(5000, 3, true);
  CheckBatchNorm<float>(49, 20, true);
  CheckBatchNorm<double>(37, 5, true);
}

// What the pass fuse_normalization makes is what the two ops give one after the other, to the bit, infinities, NaNs and
// values at the activation's edges among it.
template <typename T>
void CheckActivated(const std::string& activation, int64_t rows, int64_t channels, bool channels_first, bool odd) {
  const Shape shape = channels_first ? Shape{2, channels, rows} : Shape{rows, channels};
  Tensor x = RandomTensor<T>(shape, 1), scale = RandomTensor<T>({channels}, 2);
  for (T& value : scale.flat<T>()) value *= T{6};  // values below 0, and above 6
  const Tensor offset = Shifted<T>({channels}, 3, T{2}), dy = RandomTensor<T>(shape, 4);
  scale.flat<T>()[0] = T{0};  // a whole channel of its offset
  if (odd) {
    x.flat<T>()[1] = std::numeric_limits<T>::infinity();
    x.flat<T>()[x.flat<T>().size() - 1] = std::numeric_limits<T>::quiet_NaN();
  }
  const Tensor zeros(kDTypeOf<T>, Shape({channels})), reserve(kDTypeOf<T>, Shape({0}));
  const AttrMap plain = {{"data_format", std::string(channels_first ? "NCHW" : "NHWC")}};
  AttrMap fused = plain;
  fused["activation_mode"] = activation;
  const auto same = [&](const Tensor& one, const Tensor& other, const std::string& what) {
    EXPECT_EQ(std::memcmp(one.data(), other.data(), one.bytes()), 0)
        << what << " " << activation << " " << rows << "x" << channels << (channels_first ? " NCHW" : "");
  };
  const auto apart = RunOp("FusedBatchNormV3", {x, scale, offset, zeros, zeros}, plain);
  ASSERT_OK(apart);
  const auto activated = RunOp(activation, {apart->outputs[0]});
  ASSERT_OK(activated);
  const auto together = SameOnEveryTarget("_FusedBatchNormEx", {x, scale, offset, zeros, zeros}, fused);
  same(together[0], activated->outputs[0], "y");
  for (size_t i = 1; i < 5; ++i) same(together[i], apart->outputs[i], "statistics");
  const Tensor &mean = apart->outputs[3], &variance = apart->outputs[4];
  const auto passed = RunOp(activation + "Grad", {dy, activated->outputs[0]});
  ASSERT_OK(passed);
  const auto gradients = RunOp("FusedBatchNormGradV3", {passed->outputs[0], x, scale, mean, variance, reserve}, plain);
  ASSERT_OK(gradients);
  const auto fused_gradients =
      SameOnEveryTarget("_FusedBatchNormGradEx", {dy, x, scale, mean, variance, reserve, offset}, fused);
  for (size_t i = 0; i < 3; ++i) same(fused_gradients[i], gradients->outputs[i], "gradient");
}

TEST(BatchNorm, ActivationInOne_HasTheBitsOfTheTwo) {
  for (const std::string activation : {"Relu", "Relu6"}) {
    for (const bool odd : {false, true}) {
      for (const int64_t channels : {1, 7, 16, 70, 133}) CheckActivated<float>(activation, 300, channels, false, odd);
      CheckActivated<double>(activation, 40, 9, false, odd);
      CheckActivated<float>(activation, 49, 20, true, odd);
      CheckActivated<float>(activation, 5000, 3, true, odd);
      CheckActivated<double>(activation, 37, 5, true, odd);
    }
  }
}

// From 32 MiB on, where its lines are aligned, the result goes past the caches.
TEST(BatchNorm, VastImages_HaveTheBitsOfThoseThatGoThroughTheCaches) {
  // Outside training a row knows nothing of others: so a vast image of equal parts must have the part's result in each,
  // and each target makes one vast image alone.
  constexpr int64_t kChannels = 32, kRows = 1 << 12, kParts = 72, kLast = 1;
  const Tensor part = RandomTensor<float>({kRows, kChannels}, 1);
  Tensor x(DType::kFloat32, {kParts * kRows + kLast, kChannels});
  for (size_t at = 0; at < x.bytes(); at += part.bytes())
    std::memcpy(x.data() + at, part.data(), std::min(part.bytes(), x.bytes() - at));
  std::vector<Tensor> of_channels;
  for (uint32_t i = 2; i < 6; ++i) of_channels.push_back(Shifted<float>({kChannels}, i, 1.5f));
  const AttrMap attrs = {{"data_format", std::string("NHWC")}, {"epsilon", 1e-5f}, {"is_training", false}};
  const auto normalized = [&](const Tensor& image) {
    std::vector<Tensor> inputs = {image};
    inputs.insert(inputs.end(), of_channels.begin(), of_channels.end());
    return RunOp("FusedBatchNormV3", inputs, attrs);
  };
  OnEveryTarget([&](const std::string& target) {
    const auto vast = normalized(x), near = normalized(part);
    ASSERT_OK(vast) << target;
    ASSERT_OK(near) << target;
    ASSERT_EQ(vast->outputs[0].bytes(), x.bytes());
    ASSERT_GE(x.bytes(), size_t{32} << 20);
    for (size_t at = 0; at < x.bytes(); at += part.bytes())
      ASSERT_EQ(
          std::memcmp(vast->outputs[0].data() + at, near->outputs[0].data(), std::min(part.bytes(), x.bytes() - at)), 0)
          << target << " at " << at;
  });
}

TEST(BatchNorm, GradientThroughAnActivationOutsideTraining_IsRefused) {
  const Tensor x = RandomTensor<float>({4, 3}, 1), channels = RandomTensor<float>({3}, 2);
  const Tensor reserve(DType::kFloat32, Shape({0}));
  const auto run = RunOp("_FusedBatchNormGradEx", {x, x, channels, channels, channels, reserve, channels},
                         {{"activation_mode", std::string("Relu")}, {"is_training", false}});
  EXPECT_THAT(run, StatusIs(absl::StatusCode::kUnimplemented));
}

template <typename T>
void CheckRows(int64_t rows, int64_t width) {
  const Tensor x = Shifted<T>({rows, width}, 1, T{50}), dy = RandomTensor<T>({rows, width}, 2),
               scale = RandomTensor<T>({width}, 3), offset = RandomTensor<T>({width}, 4);
  const auto forward = SameOnEveryTarget("LayerNorm", {x, scale, offset}, {});
  ASSERT_EQ(forward.size(), 3u);
  const std::vector<double> values = AsDoubles<T>(x);
  std::vector<double> y(values.size());
  for (int64_t row = 0; row < rows; ++row) {
    const auto within = [&](size_t i) { return static_cast<int64_t>(i) / width == row; };
    const Moments m = MomentsOf(values, within);
    for (size_t i = 0; i < values.size(); ++i)
      if (within(i)) {
        const size_t column = i % static_cast<size_t>(width);
        y[i] = (values[i] - m.mean) / std::sqrt(m.variance + double{1e-5f}) *
                   static_cast<double>(scale.flat<T>()[column]) +
               static_cast<double>(offset.flat<T>()[column]);
      }
  }
  ExpectNear<T>(forward[0], y, sizeof(T) == 4 ? (width == 1 ? 1e-6 : 1e-4) : 1e-12, "layer norm");
  SameOnEveryTarget("LayerNormGrad", {dy, x, scale, forward[1], forward[2]}, {});
  const auto rms = SameOnEveryTarget("RmsNorm", {x, scale}, {});
  ASSERT_EQ(rms.size(), 2u);
  SameOnEveryTarget("RmsNormGrad", {dy, x, scale, rms[1]}, {});
}

TEST(LayerNorm, EveryTarget_SameBits) {
  for (const int64_t width : {1, 7, 16, 33, 768}) CheckRows<float>(5, width);
  CheckRows<float>(2, 10000);
  CheckRows<float>(200, 9);
  CheckRows<double>(3, 61);
}

TEST(GroupNorm, EveryTarget_SameBits) {
  for (const std::string format : {"NHWC", "NCHW"}) {
    const Shape shape = format == "NHWC" ? Shape{2, 9, 5, 12} : Shape{2, 12, 9, 5};
    const Tensor x = RandomTensor<float>(shape, 1), dy = RandomTensor<float>(shape, 2);
    const Tensor scale = RandomTensor<float>({12}, 3), offset = RandomTensor<float>({12}, 4);
    const AttrMap attrs = {{"num_groups", int64_t{4}}, {"data_format", format}};
    const auto forward = SameOnEveryTarget("GroupNorm", {x, scale, offset}, attrs);
    ASSERT_EQ(forward.size(), 3u);
    SameOnEveryTarget("GroupNormGrad", {dy, x, scale, forward[1], forward[2]}, attrs);
  }
}

TEST(Activations, EveryTarget_SameBits) {
  Tensor x = RandomTensor<float>({1037}, 1);
  for (float& value : x.flat<float>()) value *= 8;
  Tensor wide = RandomTensor<double>({131}, 1);
  for (double& value : wide.flat<double>()) value *= 8;
  for (const std::string op : {"Relu6", "LeakyRelu", "Elu", "Selu", "Softsign"}) {
    SameOnEveryTarget(op, {x}, {});
    SameOnEveryTarget(op, {wide}, {});
    SameOnEveryTarget(op + "Grad", {x, x}, {});
    SameOnEveryTarget(op + "Grad", {wide, wide}, {});
  }
  for (const bool approximate : {false, true}) {
    const AttrMap attrs = {{"approximate", approximate}};
    SameOnEveryTarget("Gelu", {x}, attrs, {.portable = true});
    SameOnEveryTarget("Gelu", {wide}, attrs);
    SameOnEveryTarget("GeluGrad", {x, x}, attrs, {.portable = true});
    SameOnEveryTarget("GeluGrad", {wide, wide}, attrs);
  }
  SameOnEveryTarget("Erf", {x}, {});
  SameOnEveryTarget("Erfc", {x}, {});
}

TEST(BatchNorm, SixteenBitImages_KeepStatisticsInFloat) {
  const Tensor x = RandomTensor<float>({2, 3, 3, 5}, 1), scale = RandomTensor<float>({5}, 2);
  Tensor narrow(DType::kBFloat16, x.shape()), whole(DType::kFloat32, x.shape());
  Float16From32(DType::kBFloat16, x.flat<float>().data(), narrow.data(), x.elements());
  Float32From16(DType::kBFloat16, narrow.data(), whole.flat<float>().data(), x.elements());
  for (const bool training : {true, false}) {
    const AttrMap attrs = {{"is_training", training}};
    const Tensor ones = Tensor::Of<float>({5}, {1, 1, 1, 1, 1});
    const auto run = RunOp("FusedBatchNormV3", {narrow, scale, scale, scale, ones}, attrs);
    ASSERT_OK(run);
    const auto expected = RunOp("FusedBatchNormV3", {whole, scale, scale, scale, ones}, attrs).value().outputs;
    EXPECT_EQ(Name(run->outputs[0].dtype()), "bfloat16");
    for (size_t i = 1; i < 5; ++i)
      EXPECT_EQ(AsDoubles<float>(run->outputs[i]), AsDoubles<float>(expected[i])) << "output " << i;
    const Tensor none(DType::kFloat32, Shape({0}));
    const auto grad = RunOp("FusedBatchNormGradV3", {narrow, narrow, scale, expected[3], expected[4], none}, attrs);
    ASSERT_OK(grad);
    EXPECT_EQ(Name(grad->outputs[0].dtype()), "bfloat16");
    EXPECT_EQ(Name(grad->outputs[1].dtype()), "float32");
  }
}

// No examples, or no channels: nothing is read or written, and gradients of parameters are 0.
TEST(Normalisations, EmptyTensors_GiveEmptyOnes) {
  const Tensor none(DType::kFloat32, Shape({0})), ones = Tensor::Of<float>({2}, {1, 1});
  const Tensor no_rows(DType::kFloat32, Shape({0, 3, 2})), no_channels(DType::kFloat32, Shape({3, 4, 0}));
  const auto batch = RunOp("FusedBatchNormV3", {no_rows, ones, ones, ones, ones}, {{"exponential_avg_factor", 0.5f}});
  ASSERT_OK(batch);
  EXPECT_EQ(AsDoubles<float>(batch->outputs[3]), (std::vector<double>{0, 0}));
  EXPECT_OK(RunOp("FusedBatchNormV3", {no_channels, none, none, none, none}));
  const auto grad = RunOp("FusedBatchNormGradV3", {no_rows, no_rows, ones, ones, ones, none});
  ASSERT_OK(grad);
  EXPECT_EQ(AsDoubles<float>(grad->outputs[1]), (std::vector<double>{0, 0}));
  EXPECT_OK(RunOp("FusedBatchNormGradV3", {no_channels, no_channels, none, none, none, none}));
  EXPECT_OK(RunOp("LayerNorm", {no_rows, ones, ones}));
  EXPECT_OK(RunOp("RmsNorm", {no_rows, ones}));
  EXPECT_OK(RunOp("GroupNorm", {no_rows, ones, ones}, {{"num_groups", int64_t{2}}}));
  const auto statistics =
      RunOp("GroupNormGrad",
            {no_rows, no_rows, ones, Tensor(DType::kFloat32, Shape({0, 2})), Tensor(DType::kFloat32, Shape({0, 2}))},
            {{"num_groups", int64_t{2}}});
  ASSERT_OK(statistics);
  EXPECT_EQ(AsDoubles<float>(statistics->outputs[1]), (std::vector<double>{0, 0}));
  EXPECT_THAT(Message(RunOp("LayerNorm", {no_channels, none, none}).status()), ::testing::HasSubstr("are empty"));
  EXPECT_THAT(RunOp("InstanceNorm", {no_channels, none, none}), StatusIs(absl::StatusCode::kInvalidArgument));
}

// What is not finite stays with its row, example or channel.
TEST(Normalisations, NotFinite_StaysWithItsStatistics) {
  Tensor x = RandomTensor<float>({4, 6, 2}, 1);
  x.flat<float>()[3] = std::numeric_limits<float>::quiet_NaN();  // example 0, pixel 1, channel 1
  const Tensor ones = Tensor::Of<float>({2}, {1, 1});
  const auto nan_at = [](const Tensor& y, auto wanted) {
    for (size_t i = 0; i < y.flat<float>().size(); ++i)
      EXPECT_EQ(std::isnan(y.flat<float>()[i]), wanted(i)) << "element " << i;
  };
  nan_at(RunOp("LayerNorm", {x, ones, ones}).value().outputs[0], [](size_t i) { return i == 2 || i == 3; });
  nan_at(RunOp("FusedBatchNormV3", {x, ones, ones, ones, ones}).value().outputs[0],
         [](size_t i) { return i % 2 == 1; });
  nan_at(RunOp("GroupNorm", {x, ones, ones}, {{"num_groups", int64_t{1}}}).value().outputs[0],
         [](size_t i) { return i < 12; });
  nan_at(RunOp("InstanceNorm", {x, ones, ones}).value().outputs[0], [](size_t i) { return i < 12 && i % 2 == 1; });
}

TEST(Normalisations, ShapesThatDoNotFit_AreRefusedByName) {
  const Tensor x = RandomTensor<float>({2, 3, 6}, 1), six = RandomTensor<float>({6}, 2),
               five = RandomTensor<float>({5}, 3);
  const auto refused = [](const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs,
                          const std::string& why) {
    EXPECT_THAT(Message(RunOp(op, inputs, std::move(attrs)).status()), ::testing::HasSubstr(why));
  };
  refused("LayerNorm", {x, five, six}, {}, "scale is [5], but x has [6]");
  refused("LayerNorm", {x, six, six}, {{"begin_norm_axis", int64_t{3}}}, "begin_norm_axis 3 is outside [-3, 3)");
  refused("RmsNorm", {x, six}, {{"begin_norm_axis", int64_t{-4}}}, "begin_norm_axis -4 is outside");
  refused("GroupNorm", {x, six, six}, {{"num_groups", int64_t{4}}}, "6 channels cannot be divided into num_groups = 4");
  refused("GroupNorm", {x, six, five}, {{"num_groups", int64_t{2}}}, "offset is [5]");
  refused("GroupNorm", {x, six, six}, {{"num_groups", int64_t{0}}}, "num_groups");
  refused("FusedBatchNormV3", {x, six, six, five, six}, {}, "mean is [5]");
  refused("FusedBatchNormV3", {x, six, six, Tensor(DType::kFloat32, Shape({0})), six},
          {{"exponential_avg_factor", 0.5f}}, "mean is [0]");
  refused("FusedBatchNormV3", {six, six, six, six, six}, {}, "axis of examples");
}

TEST(Softmax, EveryTarget_SameBits) {
  for (const int64_t classes : {1, 2, 10, 33, 512, 10007}) {
    Tensor x = RandomTensor<float>({3, classes}, 1), labels = RandomTensor<float>({3, classes}, 2);
    for (float& value : x.flat<float>()) value *= 20;
    const Tensor classes_of = Tensor::Of<int64_t>({3}, {0, classes - 1, classes / 2});
    SameOnEveryTarget("LogSoftmax", {x}, {});
    SameOnEveryTarget("SoftmaxCrossEntropyWithLogits", {x, labels}, {});
    SameOnEveryTarget("SparseSoftmaxCrossEntropyWithLogits", {x, classes_of}, {});
    const auto softmax = SameOnEveryTarget("Softmax", {x}, {});
    ASSERT_EQ(softmax.size(), 1u);
    for (int row = 0; row < 3; ++row) {
      const auto p = softmax[0].flat<float>().subspan(static_cast<size_t>(row * classes), static_cast<size_t>(classes));
      EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1, 1e-6);
    }
  }
}

TEST(Softmax, NotFinite_MakesItsRowNaNAndNoOther) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  Tensor x(DType::kFloat32, Shape({4, 20}));
  x.flat<float>()[7] = kNaN;
  x.flat<float>()[20 + 19] = kInf;
  x.flat<float>()[40 + 3] = -kInf;
  for (const std::string op : {"Softmax", "LogSoftmax"}) {
    const Tensor y = RunOp(op, {x}).value().outputs[0];
    for (size_t i = 0; i < 80; ++i) {
      const float value = y.flat<float>()[i];
      EXPECT_EQ(std::isnan(value), i < 40) << op << " element " << i;
      EXPECT_TRUE(op != "Softmax" || i != 43 || value == 0.0f);
    }
  }
}

// Both forms and their gradients over the whole range, with every set of kernels, against those of doubles.
TEST(Gelu, WholeRange_IsAsGoodAsRoundingAllows) {
  constexpr int kCount = 40001;
  Tensor x(DType::kFloat32, Shape({kCount})), wide(DType::kFloat64, Shape({kCount})), ones(DType::kFloat32, x.shape()),
      wide_ones(DType::kFloat64, x.shape());
  for (size_t i = 0; i < kCount; ++i) {
    x.flat<float>()[i] = (static_cast<float>(i) - 20000) * 5e-4f;
    wide.flat<double>()[i] = static_cast<double>(x.flat<float>()[i]);
    ones.flat<float>()[i] = 1, wide_ones.flat<double>()[i] = 1;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor special = Tensor::Of<float>({5}, {infinity, -infinity, std::nanf(""), -1e30f, 0});
  for (const bool approximate : {false, true}) {
    const AttrMap attrs = {{"approximate", approximate}};
    const Tensor y = RunOp("Gelu", {wide}, attrs).value().outputs[0];
    const Tensor slope = RunOp("GeluGrad", {wide_ones, wide}, attrs).value().outputs[0];
    for (const bool portable : {false, true}) {
      OnEveryTarget([&](const std::string& target) {
        const KernelPolicy policy = {.portable = portable};
        const Tensor forward = RunOp("Gelu", {x}, attrs, policy).value().outputs[0];
        const Tensor backward = RunOp("GeluGrad", {ones, x}, attrs, policy).value().outputs[0];
        double worst = 0, worst_slope = 0;
        for (size_t i = 0; i < kCount; ++i) {
          const double expected = y.flat<double>()[i];
          worst = std::max(worst, std::abs(static_cast<double>(forward.flat<float>()[i]) - expected) /
                                      std::max(1.0, std::abs(expected)));
          worst_slope =
              std::max(worst_slope, std::abs(static_cast<double>(backward.flat<float>()[i]) - slope.flat<double>()[i]));
        }
        EXPECT_LE(worst, 2e-7) << target;
        // The formula with tanh loses digits where its slope is near 0; the pieces that some targets have do not.
        const bool built = (HWY_TARGETS & HWY_AVX2) != 0;  // a sanitizer's build may have the baseline alone
        const bool pieces = built && !portable && (target == "AVX2" || target == "AVX3");
        EXPECT_LE(worst_slope, pieces ? 1.5e-7 : 1.5e-6) << target;
        const Tensor edges = RunOp("Gelu", {special}, attrs, policy).value().outputs[0];
        const float* edge = edges.flat<float>().data();
        EXPECT_TRUE(edge[0] == infinity && edge[1] == 0 && std::isnan(edge[2]) && edge[3] == 0 && edge[4] == 0)
            << target;
        const Tensor one = Tensor::Of<float>({5}, {1, 1, 1, 1, 1});
        const Tensor slopes = RunOp("GeluGrad", {one, special}, attrs, policy).value().outputs[0];
        const float* at = slopes.flat<float>().data();
        EXPECT_TRUE(at[0] == 1 && at[1] == 0 && std::isnan(at[2]) && at[3] == 0 && at[4] == 0.5f) << target;
      });
    }
  }
}

// erf and erfc over the whole range, against the C library's in double.
TEST(Erf, WholeRange_IsWithinAFewUnits) {
  Tensor x(DType::kFloat32, Shape({24001})), wide(DType::kFloat64, Shape({24001}));
  for (int i = 0; i <= 24000; ++i) {
    wide.flat<double>()[static_cast<size_t>(i)] = (i - 12000) * 1e-3 + 1e-5;
    x.flat<float>()[static_cast<size_t>(i)] = static_cast<float>((i - 12000) * 1e-3 + 1e-5);
  }
  const auto run = [](const std::string& op, const Tensor& in) { return RunOp(op, {in}).value().outputs[0]; };
  const Tensor erf = run("Erf", x), erfc = run("Erfc", x), wide_erf = run("Erf", wide), wide_erfc = run("Erfc", wide);
  for (size_t i = 0; i <= 24000; ++i) {
    const double v = wide.flat<double>()[i], f = static_cast<double>(x.flat<float>()[i]);
    EXPECT_NEAR(wide_erf.flat<double>()[i], std::erf(v), 4e-16 * std::abs(std::erf(v))) << v;
    EXPECT_NEAR(wide_erfc.flat<double>()[i], std::erfc(v), 1.5e-15 * std::erfc(v)) << v;
    EXPECT_NEAR(static_cast<double>(erf.flat<float>()[i]), std::erf(f), 2.5e-7 * std::abs(std::erf(f))) << f;
    if (std::erfc(f) > 1e-36) {
      EXPECT_NEAR(static_cast<double>(erfc.flat<float>()[i]), std::erfc(f), 1e-6 * std::erfc(f)) << f;
    }
  }
}

}  // namespace
}  // namespace rivulet::testing
