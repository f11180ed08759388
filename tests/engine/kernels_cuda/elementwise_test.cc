// Elementwise functions, casts and selects.
#include <gtest/gtest.h>

#include <limits>

#include "tests/engine/kernels_cuda/op_case.h"

namespace rivulet::testing {
namespace {

constexpr double kExact = 0, kFew = 4e-7, kFewDouble = 1e-14;

// Random values, and what is not one.
Tensor Awkward(DType dtype, Shape shape, uint32_t seed, double scale = 1, double shift = 0) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double special[] = {0.0, -0.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(), 1.0, -1.0};
  const Tensor floats = Floats(shape, seed);
  Tensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const auto at = static_cast<size_t>(i);
    const double value = at % 16 < 7 ? special[at % 16] : static_cast<double>(floats.flat<float>()[at]) * scale + shift;
    if (dtype == DType::kFloat32)
      tensor.flat<float>()[at] = static_cast<float>(value);
    else
      tensor.flat<double>()[at] = value;
  }
  return tensor;
}

struct Function {
  const char* op;
  double of_floats, of_doubles;  // tolerances
  double scale = 4, shift = 0;
  AttrMap attrs = {};
};

TEST(GpuElementwiseTest, UnaryFunctions_AreTheCpus) {
  const std::vector<Function> functions = {
      {"Neg", kExact, kExact},
      {"Abs", kExact, kExact},
      {"Sign", kExact, kExact},
      {"Square", kExact, kExact},
      {"Sqrt", kExact, kExact, 2, 2},
      {"Rsqrt", kFew, kFewDouble, 2, 2.5},
      {"Reciprocal", kExact, kExact},
      {"Inv", kExact, kExact},
      {"Floor", kExact, kExact},
      {"Ceil", kExact, kExact},
      {"Round", kExact, kExact},
      {"Rint", kExact, kExact},
      {"Exp", kFew, kFewDouble},
      {"Expm1", kFew, kFewDouble},
      {"Log", kFew, kFewDouble, 2, 2.5},
      {"Log1p", kFew, kFewDouble, 2, 2},
      {"Tanh", kFew, kFewDouble},
      {"Sigmoid", kFew, kFewDouble, 20},
      {"Softplus", kFew, kFewDouble, 20},
      {"Softsign", kExact, kExact},
      {"Erf", kFew, kFewDouble},
      {"Relu", kExact, kExact},
      {"Relu6", kExact, kExact, 10},
      {"LeakyRelu", kExact, kExact, 4, 0, {{"alpha", 0.3f}}},
      {"Elu", kFew, kFewDouble},
      {"Selu", kFew, kFewDouble},
  };
  for (const Function& f : functions) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      CheckOnGpu({.op = f.op,
                  .inputs =
                      [&](uint32_t seed) {
                        return std::vector{Awkward(dtype, {5, 67}, seed, f.scale, f.shift)};
                      },
                  .attrs = f.attrs,
                  .tolerance = dtype == DType::kFloat32 ? f.of_floats : f.of_doubles,
                  .name = dtype == DType::kFloat32 ? "float" : "double"});
    }
  }
}

// Infinity times zero is NaN in the formula; the CPU's polynomial goes to the limit.
TEST(GpuElementwiseTest, Gelu_BothFormulas_AreTheCpus) {
  for (const bool approximate : {false, true}) {
    const AttrMap attrs = {{"approximate", approximate}};
    CheckOnGpu({.op = "Gelu",
                .inputs =
                    [](uint32_t seed) {
                      return std::vector{Floats({3, 100}, seed)};
                    },
                .attrs = attrs,
                .tolerance = 5e-7});
    CheckOnGpu({.op = "GeluGrad",
                .inputs =
                    [](uint32_t seed) {
                      return std::vector{Floats({3, 100}, seed), Floats({3, 100}, seed + 9)};
                    },
                .attrs = attrs,
                .tolerance = 1e-6});
  }
}

TEST(GpuElementwiseTest, Integers_WrapAround) {
  for (const DType dtype : {DType::kInt32, DType::kInt64}) {
    const int64_t low = std::numeric_limits<int32_t>::min(), high = std::numeric_limits<int32_t>::max();
    for (const char* op : {"Neg", "Abs", "Sign", "Square"})
      CheckOnGpu({.op = op, .inputs = [&](uint32_t s) { return std::vector{Integers(dtype, {33}, s, low, high)}; }});
    for (const char* op : {"AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference", "Less", "Equal"})
      CheckOnGpu({.op = op, .inputs = [&](uint32_t s) {
                    return std::vector{Integers(dtype, {33}, s, low, high), Integers(dtype, {33}, s + 5, low, high)};
                  }});
  }
  for (const char* op : {"AddV2", "Sub", "Mul", "Maximum", "NotEqual", "GreaterEqual"})
    CheckOnGpu(
        {.op = op, .inputs = [&](uint32_t s) {
           return std::vector{Integers(DType::kUint8, {33}, s, 0, 256), Integers(DType::kUint8, {33}, s + 5, 0, 256)};
         }});
}

TEST(GpuElementwiseTest, BinaryFunctions_AreTheCpus) {
  const std::vector<Function> functions = {
      {"AddV2", kExact, kExact},
      {"Add", kExact, kExact},
      {"Sub", kExact, kExact},
      {"Mul", kExact, kExact},
      {"RealDiv", kExact, kExact},
      {"Div", kExact, kExact},
      {"DivNoNan", kExact, kExact},
      {"Maximum", kExact, kExact},
      {"Minimum", kExact, kExact},
      {"SquaredDifference", 0, 0},
      {"MulNoNan", kExact, kExact},
      {"Pow", kFew, kFewDouble},
      {"Equal", kExact, kExact},
      {"NotEqual", kExact, kExact},
      {"Less", kExact, kExact},
      {"LessEqual", kExact, kExact},
      {"Greater", kExact, kExact},
      {"GreaterEqual", kExact, kExact},
      {"TanhGrad", kExact, kExact},
      {"SigmoidGrad", kFew, kFewDouble},
      {"SoftplusGrad", kFew, kFewDouble},
      {"SqrtGrad", kExact, kExact},
      {"RsqrtGrad", kFew, kFewDouble},
      {"ReciprocalGrad", kFew, kFewDouble},
      {"InvGrad", kFew, kFewDouble},
      {"SoftsignGrad", kFew, kFewDouble},
      {"ReluGrad", kExact, kExact},
      {"Relu6Grad", kExact, kExact},
      {"EluGrad", kExact, kExact},
      {"SeluGrad", kExact, kExact},
      {"LeakyReluGrad", kExact, kExact, 4, 0, {{"alpha", 0.3f}}},
  };
  for (const Function& f : functions) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      CheckOnGpu({.op = f.op,
                  .inputs =
                      [&](uint32_t seed) {
                        // Shifted by one, so that each special value meets others.
                        return std::vector{Awkward(dtype, {4, 31}, seed), Awkward(dtype, {4, 31}, seed + 7, 2, 0.5)};
                      },
                  .attrs = f.attrs,
                  .tolerance = dtype == DType::kFloat32 ? f.of_floats : f.of_doubles,
                  .name = dtype == DType::kFloat32 ? "float" : "double"});
    }
  }
}

TEST(GpuElementwiseTest, Broadcast_AnyAxes_IsTheCpus) {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{7, 33}, {33}},      {{7, 33}, {7, 1}},      {{}, {5, 3}},
      {{1}, {1}},           {{6, 1, 5}, {1, 4, 1}}, {{2, 3, 4, 5}, {3, 1, 5}},
      {{0, 4}, {4}},        {{3, 0}, {3, 1}},       {{2, 1, 2, 1, 2}, {1, 3, 1, 3, 1}},
      {{300, 3}, {300, 3}},
  };
  for (const auto& [a, b] : shapes) {
    CheckOnGpu({.op = "Sub",
                .inputs =
                    [&](uint32_t seed) {
                      return std::vector{Floats(a, seed), Floats(b, seed + 4)};
                    },
                .name = a.ToString() + b.ToString()});
    CheckOnGpu({.op = "Less",
                .inputs =
                    [&](uint32_t seed) {
                      return std::vector{Floats(a, seed), Floats(b, seed + 4)};
                    },
                .name = a.ToString() + b.ToString()});
  }
}

TEST(GpuElementwiseTest, BiasAdd_BothLayouts_HasTheCpusBits) {
  CheckOnGpu({.op = "BiasAdd", .inputs = [](uint32_t s) {
                return std::vector{Floats({3, 4, 5, 7}, s), Floats({7}, s + 1)};
              }});
  CheckOnGpu({.op = "BiasAdd",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Floats({3, 4, 5, 7}, s), Floats({4}, s + 1)};
                  },
              .attrs = {{"data_format", std::string("NCHW")}}});
}

TEST(GpuElementwiseTest, Logic_Choices_AndBounds) {
  const auto bools = [](uint32_t seed) { return Integers(DType::kBool, {5, 7}, seed, 0, 2); };
  for (const char* op : {"LogicalAnd", "LogicalOr", "Equal", "NotEqual"})
    CheckOnGpu({.op = op, .inputs = [&](uint32_t seed) { return std::vector{bools(seed), bools(seed + 3)}; }});
  CheckOnGpu({.op = "LogicalNot", .inputs = [&](uint32_t seed) { return std::vector{bools(seed)}; }});
  CheckOnGpu({.op = "SelectV2", .inputs = [&](uint32_t seed) {
                return std::vector{bools(seed), Floats({7}, seed), Floats({5, 1}, seed + 1)};
              }});
  CheckOnGpu(
      {.op = "Select", .inputs = [&](uint32_t seed) {
         return std::vector{Integers(DType::kBool, {5}, seed, 0, 2), Doubles({5, 7}, seed), Doubles({5, 7}, seed + 1)};
       }});
  CheckOnGpu({.op = "ClipByValue", .inputs = [&](uint32_t seed) {
                return std::vector{Awkward(DType::kFloat32, {40}, seed), Tensor::Scalar<float>(-0.5f),
                                   Tensor::Scalar<float>(0.25f)};
              }});
}

TEST(GpuElementwiseTest, AddN_AnyNumber_SumsInOrder) {
  for (const size_t count : {1u, 2u, 8u, 9u, 20u})
    CheckOnGpu({.op = "AddN",
                .inputs =
                    [&](uint32_t seed) {
                      std::vector<Tensor> inputs;
                      for (size_t i = 0; i < count; ++i)
                        inputs.push_back(Floats({3, 50}, seed + static_cast<uint32_t>(i)));
                      return inputs;
                    },
                .attrs = {{"N", static_cast<int64_t>(count)}},
                .name = fmt::format("{}", count)});
}

TEST(GpuElementwiseTest, Cast_EveryPair_IsTheCpus) {
  const std::vector<DType> types = {DType::kFloat32, DType::kFloat64, DType::kInt32,
                                    DType::kInt64,   DType::kUint8,   DType::kBool};
  for (const DType from : types) {
    for (const DType to : types) {
      CheckOnGpu({.op = "Cast",
                  .inputs =
                      [&](uint32_t seed) {
                        if (from == DType::kFloat32 || from == DType::kFloat64)
                          return std::vector{Awkward(from, {64}, seed, 1e12)};
                        const bool small = from == DType::kBool || from == DType::kUint8;
                        return std::vector{Integers(from, {64}, seed, small ? 0 : -70000,
                                                    from == DType::kBool ? 2
                                                    : small              ? 256
                                                                         : 70000)};
                      },
                  .attrs = {{"DstT", to}},
                  .name = fmt::format("{} to {}", Name(from), Name(to))});
    }
  }
}

TEST(GpuElementwiseTest, Cast_TypeWithoutOne_SaysTheMend) {
  const Status status = PrepareOnGpu({.op = "Cast",
                                      .inputs = [](uint32_t seed) { return std::vector{Floats({4}, seed)}; },
                                      .attrs = {{"DstT", DType::kUint16}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "a cast from or to uint16 on a GPU; cast on the CPU, before it is fed");
}

}  // namespace
}  // namespace rivulet::testing
