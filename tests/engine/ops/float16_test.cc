// The 16-bit floating types, and ops that compute in them.
#include "engine/tensor/float16.h"

#include <cmath>
#include <limits>

#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::OpRun;
using testing::RandomTensor;
using testing::RunOp;

// The nearest of all values of the type, ties to even, by looking at all of them.
template <typename T>
uint16_t NearestBySearch(double value) {
  uint16_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (uint32_t bits = 0; bits < 0x8000u; ++bits) {
    const double candidate = static_cast<float>(T::FromBits(static_cast<uint16_t>(bits)));
    if (!std::isfinite(candidate)) break;
    const double distance = std::abs(candidate - value);
    if (distance < best_distance || (distance == best_distance && bits % 2 == 0)) {
      best_distance = distance;
      best = static_cast<uint16_t>(bits);
    }
  }
  return best;
}

TEST(BFloat16, Conversion_RoundsToNearestEven) {
  EXPECT_EQ(bfloat16(1.0f).bits, 0x3F80);
  EXPECT_EQ(bfloat16(1.0f + 0x1p-8f).bits, 0x3F80);             // a tie goes to even
  EXPECT_EQ(bfloat16(1.0f + 3 * 0x1p-8f).bits, 0x3F82);         // up, too
  EXPECT_EQ(bfloat16(1.0f + 0x1p-8f + 0x1p-20f).bits, 0x3F81);  // beyond the tie
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(bfloat16(-0.0f).bits, 0x8000);
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::infinity()).bits, 0x7F80);
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(0x7F800001u)))));  // not infinity
  for (const float value : {0.1f, 3.14159f, 1e-30f, 6.5e4f, 1.00390625f, 2.5e20f})
    EXPECT_EQ(bfloat16(value).bits, NearestBySearch<bfloat16>(value)) << value;
}

TEST(Float16, Conversion_RoundsToNearestEven) {
  EXPECT_EQ(float16(1.0f).bits, 0x3C00);
  EXPECT_EQ(float16(65504.0f).bits, 0x7BFF);
  EXPECT_EQ(float16(65519.0f).bits, 0x7BFF);
  EXPECT_EQ(float16(65520.0f).bits, 0x7C00);  // a tie with 2^16, which is infinity
  EXPECT_EQ(float16(1e9f).bits, 0x7C00);
  EXPECT_EQ(float16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(float16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(float16(-0x1.8p-24f).bits, 0x8002);
  EXPECT_EQ(float16(0x1.ff8p-15f).bits, 0x03FF);
  EXPECT_EQ(float16(0x1.ffcp-15f).bits, 0x0400);
  EXPECT_TRUE(std::isnan(static_cast<float>(float16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(static_cast<float>(float16(std::bit_cast<float>(0x7F800001u)))));
  for (const float value : {0.1f, 3.14159f, 1e-6f, 5e-8f, 6.5e4f, 0.00048828125f * 1.0005f, 1.0009765625f})
    EXPECT_EQ(float16(value).bits, NearestBySearch<float16>(value)) << value;
}

template <typename T>
void ExpectEveryValueComesBack() {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const T value = T::FromBits(static_cast<uint16_t>(bits));
    if (std::isnan(static_cast<float>(value)))
      EXPECT_TRUE(std::isnan(static_cast<float>(T(static_cast<float>(value)))));
    else
      ASSERT_EQ(T(static_cast<float>(value)).bits, bits);
  }
}
TEST(BFloat16, EveryValue_ComesBackFromFloat) { ExpectEveryValueComesBack<bfloat16>(); }
TEST(Float16, EveryValue_ComesBackFromFloat) { ExpectEveryValueComesBack<float16>(); }

TEST(BFloat16, VectorConversions_AreTheScalarOnes) {
  std::vector<float> values;
  for (uint32_t i = 0; i < 4099; ++i) values.push_back(std::bit_cast<float>(i * 1048583u + 0x7F7F7F00u));
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  values.push_back(std::bit_cast<float>(0xFF800001u));
  const auto count = static_cast<int64_t>(values.size());
  testing::OnEveryTarget([&](const std::string& target) {
    std::vector<uint16_t> narrow(values.size());
    Float16From32(DType::kBFloat16, values.data(), reinterpret_cast<std::byte*>(narrow.data()), count);
    std::vector<float> wide(values.size());
    Float32From16(DType::kBFloat16, reinterpret_cast<const std::byte*>(narrow.data()), wide.data(), count);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(narrow[i], bfloat16(values[i]).bits) << target << " " << i;
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), uint32_t{narrow[i]} << 16) << target << " " << i;
    }
  });
}

TEST(Float16, VectorConversions_AreTheScalarOnes) {
  // All float16 values, and between any two neighbours a tie and what lies beside it.
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0x7C00u; ++bits) {
    const float here = float16::FromBits(static_cast<uint16_t>(bits)),
                next = bits + 1 == 0x7C00u ? 65536.0f
                                           : static_cast<float>(float16::FromBits(static_cast<uint16_t>(bits + 1)));
    const float tie = (here + next) / 2;
    for (const float value : {here, tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1e9f)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  for (const uint32_t bits :
       {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0x7F800001u, 0xFFABCDEFu, 0x7F7FFFFFu, 0x00000001u})
    values.push_back(std::bit_cast<float>(bits));
  const auto count = static_cast<int64_t>(values.size());
  testing::OnEveryTarget([&](const std::string& target) {
    std::vector<uint16_t> narrow(values.size());
    Float16From32(DType::kFloat16, values.data(), reinterpret_cast<std::byte*>(narrow.data()), count);
    std::vector<float> wide(values.size());
    Float32From16(DType::kFloat16, reinterpret_cast<const std::byte*>(narrow.data()), wide.data(), count);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(narrow[i], float16(values[i]).bits) << target << " " << values[i];
      const float expected = float16::FromBits(narrow[i]);
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(expected)) << target << " " << values[i];
    }
  });
}

template <typename T>
Tensor Narrow(const Tensor& wide) {
  Tensor narrow(kDTypeOf<T>, wide.shape());
  for (size_t i = 0; i < wide.flat<float>().size(); ++i) narrow.flat<T>()[i] = T(wide.flat<float>()[i]);
  return narrow;
}
template <typename T>
Tensor Widen(const Tensor& narrow) {
  Tensor wide(DType::kFloat32, narrow.shape());
  for (size_t i = 0; i < wide.flat<float>().size(); ++i) wide.flat<float>()[i] = narrow.flat<T>()[i];
  return wide;
}

// An op in T gives what it gives in float for the same values, rounded once.
template <typename T>
void ExpectRoundedFloat(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {},
                        std::vector<int> constants = {}) {
  SCOPED_TRACE(op);
  std::vector<Tensor> narrow, wide;
  for (const Tensor& input : inputs) {
    const bool floating = input.dtype() == DType::kFloat32;
    narrow.push_back(floating ? Narrow<T>(input) : input);
    wide.push_back(floating ? Widen<T>(narrow.back()) : input);
  }
  const StatusOr<OpRun> actual = RunOp(op, narrow, attrs, {}, constants),
                        expected = RunOp(op, wide, attrs, {}, constants);
  ASSERT_OK(actual);
  ASSERT_OK(expected);
  for (size_t port = 0; port < expected->outputs.size(); ++port) {
    const Tensor& a = actual->outputs[port];
    if (expected->outputs[port].dtype() != DType::kFloat32) {
      EXPECT_EQ(std::memcmp(a.data(), expected->outputs[port].data(), a.bytes()), 0);
      continue;
    }
    ASSERT_EQ(Name(a.dtype()), Name(kDTypeOf<T>));
    const Tensor e = Narrow<T>(expected->outputs[port]);
    for (size_t i = 0; i < e.flat<T>().size(); ++i) EXPECT_EQ(a.flat<T>()[i].bits, e.flat<T>()[i].bits) << i;
  }
}

// Every value of the type, and some gradient for each.
TEST(BFloat16, ReluOfEveryValue_IsThatOfTheFloat) {
  Tensor every(DType::kBFloat16, {65536}), wide(DType::kFloat32, {65536});
  for (uint32_t i = 0; i < 65536; ++i) {
    every.flat<bfloat16>()[i] = bfloat16::FromBits(static_cast<uint16_t>(i));
    wide.flat<float>()[i] = every.flat<bfloat16>()[i];
  }
  const auto same = [](const Tensor& narrow, const Tensor& expected) {
    for (size_t i = 0; i < 65536; ++i) {
      const float e = expected.flat<float>()[i];
      if (std::isnan(e)) {
        ASSERT_TRUE(std::isnan(static_cast<float>(narrow.flat<bfloat16>()[i])));
      } else {
        ASSERT_EQ(narrow.flat<bfloat16>()[i].bits, bfloat16(e).bits) << i;
      }
    }
  };
  const auto narrow = RunOp("Relu", {every}), expected = RunOp("Relu", {wide});
  ASSERT_OK(narrow);
  ASSERT_OK(expected);
  EXPECT_EQ(narrow->implementation.find("via float32"), std::string::npos) << narrow->implementation;
  same(narrow->outputs[0], expected->outputs[0]);
  Tensor gradient(DType::kBFloat16, {65536}), wide_gradient(DType::kFloat32, {65536});
  for (size_t i = 0; i < 65536; ++i) {
    gradient.flat<bfloat16>()[i] = bfloat16(static_cast<float>(i % 253) - 100);
    wide_gradient.flat<float>()[i] = gradient.flat<bfloat16>()[i];
  }
  const auto narrow_grad = RunOp("ReluGrad", {gradient, every}), grad = RunOp("ReluGrad", {wide_gradient, wide});
  ASSERT_OK(narrow_grad);
  ASSERT_OK(grad);
  same(narrow_grad->outputs[0], grad->outputs[0]);
}

// Products of bfloat16 sum in float32, whoever computes them: within the order of sums and one rounding.
TEST(BFloat16, ProductsAndConvolutions_AreNearThoseOfFloat) {
  const auto near = [](const std::string& op, const Tensor& a, const Tensor& b, AttrMap attrs) {
    SCOPED_TRACE(op);
    const auto narrow = RunOp(op, {Narrow<bfloat16>(a), Narrow<bfloat16>(b)}, attrs);
    const auto wide = RunOp(op, {Widen<bfloat16>(Narrow<bfloat16>(a)), Widen<bfloat16>(Narrow<bfloat16>(b))}, attrs);
    ASSERT_OK(narrow);
    ASSERT_OK(wide);
    float largest = 0;
    for (const float x : wide->outputs[0].flat<float>()) largest = std::max(largest, std::abs(x));
    for (size_t i = 0; i < wide->outputs[0].flat<float>().size(); ++i)
      ASSERT_NEAR(static_cast<float>(narrow->outputs[0].flat<bfloat16>()[i]), wide->outputs[0].flat<float>()[i],
                  largest * 0x1p-8f)
          << narrow->implementation << " " << i;
  };
  near("MatMul", RandomTensor<float>({70, 130}, 1), RandomTensor<float>({130, 90}, 2), {});
  near("MatMul", RandomTensor<float>({130, 70}, 1), RandomTensor<float>({90, 130}, 2),
       {{"transpose_a", true}, {"transpose_b", true}});
  near("MatMul", RandomTensor<float>({3, 5}, 1), RandomTensor<float>({5, 4}, 2), {});
  for (const char* format : {"NHWC", "NCHW"}) {
    const bool last = std::string(format) == "NHWC";
    for (const int64_t channels : {1, 16}) {
      near("Conv2D", RandomTensor<float>(last ? Shape{2, 9, 8, channels} : Shape{2, channels, 9, 8}, 3),
           RandomTensor<float>({3, 3, channels, 32}, 4),
           {{"strides", std::vector<int64_t>{1, 1, 1, 1}},
            {"padding", std::string("SAME")},
            {"data_format", std::string(format)}});
    }
  }
}

template <typename T>
class Low16 : public ::testing::Test {};
using Types16 = ::testing::Types<bfloat16, float16>;
TYPED_TEST_SUITE(Low16, Types16);

TYPED_TEST(Low16, OpsWithoutAKernelOfTheirOwn_RunThroughFloat) {
  const Tensor x = RandomTensor<float>({4, 6}, 1), y = RandomTensor<float>({4, 6}, 2),
               row = RandomTensor<float>({6}, 3);
  ExpectRoundedFloat<TypeParam>("AddV2", {x, y});
  ExpectRoundedFloat<TypeParam>("Mul", {x, row});
  ExpectRoundedFloat<TypeParam>("Less", {x, y});
  ExpectRoundedFloat<TypeParam>("Softmax", {x});
  ExpectRoundedFloat<TypeParam>("BiasAdd", {x, row});
  ExpectRoundedFloat<TypeParam>("BiasAdd", {RandomTensor<float>({700, 30}, 5), RandomTensor<float>({30}, 6)});
  ExpectRoundedFloat<TypeParam>("BiasAdd", {RandomTensor<float>({2, 6, 3, 3}, 5), row},
                                {{"data_format", std::string("NCHW")}});
  ExpectRoundedFloat<TypeParam>("Tanh", {x});
  ExpectRoundedFloat<TypeParam>("Sum", {x, Tensor::Of<int32_t>({1}, {1})}, {}, {1});
  ExpectRoundedFloat<TypeParam>("AddN", {x, y, x}, {{"N", int64_t{3}}});
  ExpectRoundedFloat<TypeParam>("MaxPool", {RandomTensor<float>({1, 4, 4, 2}, 4)},
                                {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                                 {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                                 {"padding", std::string("VALID")}});
}

// What stands between products: on every target, whole vectors and ends of rows, with the bits of the float32 kernels.
TEST(BFloat16, WhatStandsBetweenProducts_IsRoundedFloat) {
  testing::OnEveryTarget([](const std::string& target) {
    SCOPED_TRACE(target);
    for (const int64_t channels : {1, 3, 16, 21, 64}) {
      SCOPED_TRACE(channels);
      const Tensor image = RandomTensor<float>({2, 6, 4, channels}, 1), bias = RandomTensor<float>({channels}, 2);
      const Tensor pooled = RandomTensor<float>({2, 3, 2, channels}, 3);
      ExpectRoundedFloat<bfloat16>("BiasAdd", {image, bias});
      ExpectRoundedFloat<bfloat16>("BiasAddGrad", {RandomTensor<float>({7, 19, 4, channels}, 4)});
      for (const int64_t stride : {1, 2}) {
        const AttrMap attrs = {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                               {"strides", std::vector<int64_t>{1, stride, stride, 1}},
                               {"padding", std::string(stride == 1 ? "SAME" : "VALID")}};
        ExpectRoundedFloat<bfloat16>("MaxPool", {image}, attrs);
        ExpectRoundedFloat<bfloat16>("AvgPool", {image}, attrs);
        const Tensor gradient = stride == 1 ? RandomTensor<float>(image.shape(), 5) : pooled;
        const auto most = RunOp("MaxPool", {Narrow<bfloat16>(image)}, attrs);
        ASSERT_OK(most);
        for (const char* op : {"MaxPoolGrad", "_MaxPoolReluGrad"})
          ExpectRoundedFloat<bfloat16>(op, {image, Widen<bfloat16>(most->outputs[0]), gradient}, attrs);
        ExpectRoundedFloat<bfloat16>(
            "AvgPoolGrad", {Tensor::Of<int32_t>({4}, {2, 6, 4, static_cast<int>(channels)}), gradient}, attrs, {0});
      }
    }
  });
}

// A kernel of the type's own, and not the float32 kernel between conversions.
TEST(BFloat16, PoolsThatTile_HaveAKernelOfTheirOwn) {
  const AttrMap attrs = {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                         {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                         {"padding", std::string("VALID")}};
  const Tensor image = Narrow<bfloat16>(RandomTensor<float>({1, 4, 4, 8}, 1));
  const Tensor pooled = Narrow<bfloat16>(RandomTensor<float>({1, 2, 2, 8}, 2));
  for (const auto& run : {RunOp("MaxPool", {image}, attrs), RunOp("MaxPoolGrad", {image, pooled, pooled}, attrs)}) {
    ASSERT_OK(run);
    EXPECT_EQ(run->implementation, "hwy");
  }
}

// With bias and activation a product is rounded at most as often as by the ops apart.
TEST(BFloat16, ProductsWithBiasAndActivation_AreNearThoseOfFloat) {
  const auto near = [](const std::string& op, const Tensor& a, const Tensor& b, const Tensor& bias, AttrMap attrs) {
    for (const char* activation : {"", "Relu", "Relu6"}) {
      SCOPED_TRACE(op + activation);
      attrs["num_args"] = int64_t{1};
      std::vector<std::string> fused = {"BiasAdd"};
      if (*activation != 0) fused.emplace_back(activation);
      attrs["fused_ops"] = fused;
      std::vector<Tensor> narrow, wide;
      for (const Tensor& tensor : {a, b, bias}) {
        narrow.push_back(Narrow<bfloat16>(tensor));
        wide.push_back(Widen<bfloat16>(narrow.back()));
      }
      const auto actual = RunOp(op, narrow, attrs), expected = RunOp(op, wide, attrs);
      ASSERT_OK(actual);
      ASSERT_OK(expected);
      float largest = 0;
      for (const float x : expected->outputs[0].flat<float>()) largest = std::max(largest, std::abs(x));
      for (size_t i = 0; i < expected->outputs[0].flat<float>().size(); ++i)
        ASSERT_NEAR(static_cast<float>(actual->outputs[0].flat<bfloat16>()[i]), expected->outputs[0].flat<float>()[i],
                    largest * 0x1p-7f)
            << actual->implementation << " " << i;
    }
  };
  near("_FusedMatMul", RandomTensor<float>({10, 130}, 1), RandomTensor<float>({130, 90}, 2),
       RandomTensor<float>({90}, 3), {});
  near("_FusedMatMul", RandomTensor<float>({70, 130}, 1), RandomTensor<float>({130, 90}, 2),
       RandomTensor<float>({90}, 3), {});
  near("_FusedMatMul", RandomTensor<float>({3, 4}, 1), RandomTensor<float>({4, 5}, 2), RandomTensor<float>({5}, 3), {});
  for (const char* format : {"NHWC", "NCHW"}) {
    const bool last = std::string(format) == "NHWC";
    near("_FusedConv2D", RandomTensor<float>(last ? Shape{2, 9, 8, 16} : Shape{2, 16, 9, 8}, 3),
         RandomTensor<float>({3, 3, 16, 32}, 4), RandomTensor<float>({32}, 5),
         {{"strides", std::vector<int64_t>{1, 1, 1, 1}},
          {"padding", std::string("SAME")},
          {"data_format", std::string(format)}});
  }
}

TYPED_TEST(Low16, OpsThatMoveElements_MoveTheBits) {
  const Tensor x = RandomTensor<float>({4, 6}, 1);
  ExpectRoundedFloat<TypeParam>("Transpose", {x, Tensor::Of<int32_t>({2}, {1, 0})}, {}, {1});
  ExpectRoundedFloat<TypeParam>("GatherV2", {x, Tensor::Of<int32_t>({3}, {2, 0, 2}), Tensor::Scalar<int32_t>(0)}, {},
                                {2});
  const auto run = RunOp("Transpose", {Narrow<TypeParam>(x), Tensor::Of<int32_t>({2}, {1, 0})}, {}, {}, {1});
  ASSERT_OK(run);
  EXPECT_EQ(run->implementation.find("via float32"), std::string::npos) << run->implementation;
}

TYPED_TEST(Low16, Implementation_SaysThatItRunsThroughFloat) {
  const Tensor x = Narrow<TypeParam>(RandomTensor<float>({4, 6}, 1));
  const auto run = RunOp("Tanh", {x});
  ASSERT_OK(run);
  EXPECT_NE(run->implementation.find(" via float32"), std::string::npos) << run->implementation;
}

TYPED_TEST(Low16, UniformNumbers_StayBelowOne) {
  Graph graph;
  const Scope scope(graph);
  const Output drawn =
      scope.Op("RandomUniform", {scope.Const(Tensor::Of<int32_t>({1}, {20000}))}, {{"dtype", kDTypeOf<TypeParam>}});
  ASSERT_OK(scope.status());
  const auto run = testing::RunGraph(graph, {}, {drawn.name()});
  ASSERT_OK(run);
  double sum = 0;
  for (const TypeParam value : run->front().template flat<TypeParam>()) {
    ASSERT_LT(static_cast<float>(value), 1.0f);
    ASSERT_GE(static_cast<float>(value), 0.0f);
    sum += value;
  }
  EXPECT_NEAR(sum / 20000, 0.5, 0.01);
}

template <typename From, typename To>
void ExpectCast(const std::vector<From>& from, const std::vector<To>& to) {
  const auto count = static_cast<int64_t>(from.size());
  const auto run = RunOp("Cast", {Tensor::Of<From>(Shape({count}), from)}, {{"DstT", kDTypeOf<To>}});
  ASSERT_OK(run);
  EXPECT_EQ(std::memcmp(run->outputs[0].data(), to.data(), to.size() * sizeof(To)), 0)
      << Name(kDTypeOf<From>) << " to " << Name(kDTypeOf<To>);
}

TEST(Cast, SixteenBitFloats_ConvertBothWaysWithEveryType) {
  const std::vector<bfloat16> b = {bfloat16(1.5f), bfloat16(-2.0f), bfloat16(300.0f)};
  ExpectCast<bfloat16, float>(b, {1.5f, -2.0f, 300.0f});
  ExpectCast<bfloat16, double>(b, {1.5, -2.0, 300.0});
  ExpectCast<bfloat16, float16>(b, {float16(1.5f), float16(-2.0f), float16(300.0f)});
  ExpectCast<bfloat16, int32_t>(b, {1, -2, 300});
  ExpectCast<bfloat16, uint8_t>(b, {1, 0, 255});
  ExpectCast<bfloat16, int8_t>(b, {1, -2, 127});
  ExpectCast<float, bfloat16>({1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f},
                              {bfloat16::FromBits(0x3F80), bfloat16::FromBits(0x3F82)});
  ExpectCast<double, float16>({0.1, 1e9}, {float16(0.1f), float16::FromBits(0x7C00)});
  ExpectCast<int64_t, bfloat16>({7, -1}, {bfloat16(7.0f), bfloat16(-1.0f)});
  ExpectCast<int16_t, uint64_t>({7, 0}, {7, 0});
  ExpectCast<float16, bfloat16>({float16(0.1f)}, {bfloat16(static_cast<float>(float16(0.1f)))});
}

}  // namespace
}  // namespace rivulet
