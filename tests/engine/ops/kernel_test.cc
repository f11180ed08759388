// Kernels at the limits of their inputs: values unknown to shape functions, empty tensors, NaN, wrap-around, and the
// bits of random numbers.
#include <cmath>
#include <limits>

#include "engine/base/math.h"
#include "engine/graph/scope.h"
#include "engine/layers/dropout.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using testing::CompiledGraph;
using ::testing::ElementsAre;
using testing::ErrorOf;
using testing::EvaluateOp;
using ::testing::HasSubstr;
using testing::RunGraph;
using testing::Values;
using testing::VectorOf;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(IntegerArithmetic, WrapsAroundAndRefusesDivisionByZero) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min(), kMax = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(Values<int32_t>(EvaluateOp("AddV2", {VectorOf<int32_t>({kMax}), VectorOf<int32_t>({1})})),
              ElementsAre(kMin));
  EXPECT_THAT(Values<int32_t>(EvaluateOp("Mul", {VectorOf<int32_t>({kMin}), VectorOf<int32_t>({-1})})),
              ElementsAre(kMin));
  EXPECT_THAT(Values<int32_t>(EvaluateOp("Div", {VectorOf<int32_t>({kMin, -7}), VectorOf<int32_t>({-1, 2})})),
              ElementsAre(kMin, -3));
  EXPECT_THAT(Values<int32_t>(EvaluateOp("FloorDiv", {VectorOf<int32_t>({-7, 7}), VectorOf<int32_t>({2, -2})})),
              ElementsAre(-4, -4));
  EXPECT_THAT(Values<int32_t>(EvaluateOp("Neg", {VectorOf<int32_t>({kMin})})), ElementsAre(kMin));
  EXPECT_THAT(ErrorOf(EvaluateOp("Div", {VectorOf<int32_t>({1, 2}), VectorOf<int32_t>({1, 0})})),
              HasSubstr("divided by 0"));
  EXPECT_THAT(ErrorOf(EvaluateOp("FloorDiv", {VectorOf<int64_t>({1}), VectorOf<int64_t>({0})})),
              HasSubstr("divided by 0"));
}

TEST(Maximum, NaN_Stays) {
  const auto larger =
      Values<float>(EvaluateOp("Maximum", {VectorOf<float>({kNan, 1, 2}), VectorOf<float>({0, kNan, 3})}));
  ASSERT_EQ(larger.size(), 3u);
  EXPECT_TRUE(std::isnan(larger[0]) && std::isnan(larger[1]));
  EXPECT_EQ(larger[2], 3);
  const auto most = Values<float>(EvaluateOp("Max", {VectorOf<float>({1, kNan, 2}), VectorOf<int32_t>({0})}, {}, {1}));
  EXPECT_TRUE(std::isnan(most[0]));
}

TEST(Cast, FloatsBeyondTheRange_AreClamped) {
  constexpr auto kMin = std::numeric_limits<int32_t>::min();
  constexpr auto kMax = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(Values<int32_t>(EvaluateOp("Cast", {VectorOf<float>({3e9f, -3e9f, kInf, -kInf, kNan, -2147483648.0f})},
                                         {{"DstT", DType::kInt32}})),
              ElementsAre(kMax, kMin, kMax, kMin, 0, kMin));
  EXPECT_THAT(Values<int64_t>(
                  EvaluateOp("Cast", {VectorOf<double>({1e19, -1e19, 9007199254740993.0})}, {{"DstT", DType::kInt64}})),
              ElementsAre(std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), 9007199254740992));
  EXPECT_THAT(
      Values<uint8_t>(EvaluateOp("Cast", {VectorOf<float>({-1, 255.9f, 256, 3.7f})}, {{"DstT", DType::kUint8}})),
      ElementsAre(0, 255, 255, 3));
}

TEST(Reduction, NothingToReduce_GivesTheNeutralElement) {
  const Tensor empty(DType::kFloat32, Shape({2, 0}));
  const Tensor axis = VectorOf<int32_t>({1});
  EXPECT_THAT(Values<float>(EvaluateOp("Sum", {empty, axis}, {}, {1})), ElementsAre(0, 0));
  EXPECT_THAT(Values<float>(EvaluateOp("Prod", {empty, axis}, {}, {1})), ElementsAre(1, 1));
  EXPECT_THAT(Values<float>(EvaluateOp("Max", {empty, axis}, {}, {1})), ElementsAre(-kInf, -kInf));
  const auto mean = Values<float>(EvaluateOp("Mean", {empty, axis}, {}, {1}));
  EXPECT_TRUE(std::isnan(mean[0]) && std::isnan(mean[1]));
}

TEST(Reduction, AxesKnownOnlyAtRunTime_AreRefused) {
  EXPECT_THAT(ErrorOf(EvaluateOp("Sum", {VectorOf<float>({1, 2}), VectorOf<int32_t>({0})})), HasSubstr("Sum"));
}

TEST(EmptyTensors, PassThroughEveryKindOfKernel) {
  const Tensor empty(DType::kFloat32, Shape({0, 3}));
  EXPECT_THAT(Values<float>(EvaluateOp("AddV2", {empty, VectorOf<float>({1, 2, 3})})), ElementsAre());
  EXPECT_THAT(Values<float>(EvaluateOp("Exp", {empty})), ElementsAre());
  EXPECT_THAT(Values<float>(EvaluateOp("Softmax", {empty})), ElementsAre());
  EXPECT_THAT(Values<float>(EvaluateOp("Transpose", {empty, VectorOf<int32_t>({1, 0})}, {}, {1})), ElementsAre());
  EXPECT_THAT(Values<float>(EvaluateOp("Sum", {empty, VectorOf<int32_t>({0})}, {}, {1})), ElementsAre(0, 0, 0));
  EXPECT_THAT(Values<float>(EvaluateOp("Pad", {empty, Tensor::Of<int32_t>({2, 2}, {1, 0, 0, 0})}, {}, {1})),
              ElementsAre(0, 0, 0));
  EXPECT_THAT(Values<float>(EvaluateOp("Tile", {empty, VectorOf<int32_t>({2, 1})}, {}, {1})), ElementsAre());
}

TEST(Gather, IndexOutOfRange_IsRefusedByItsPosition) {
  const Tensor params = VectorOf<float>({10, 20, 30}), axis = Tensor::Scalar<int32_t>(0);
  EXPECT_THAT(Values<float>(EvaluateOp("GatherV2", {params, VectorOf<int32_t>({2, 0}), axis}, {}, {2})),
              ElementsAre(30, 10));
  EXPECT_THAT(ErrorOf(EvaluateOp("GatherV2", {params, VectorOf<int32_t>({0, 3}), axis}, {}, {2})),
              HasSubstr("index 3 at position 1 is outside [0, 3)"));
  EXPECT_THAT(ErrorOf(EvaluateOp("GatherV2", {params, VectorOf<int64_t>({-1}), axis}, {}, {2})),
              HasSubstr("index -1 at position 0 is outside [0, 3)"));
}

TEST(UnsortedSegmentSum, IdBeyondTheSegments_IsRefused) {
  EXPECT_THAT(
      ErrorOf(EvaluateOp("UnsortedSegmentSum",
                         {VectorOf<float>({1, 2}), VectorOf<int32_t>({0, 2}), Tensor::Scalar<int32_t>(2)}, {}, {2})),
      HasSubstr("segment id 2 at position 1 is not below num_segments = 2"));
}

TEST(OneHot, IndexOutside_MarksNothing) {
  EXPECT_THAT(Values<float>(EvaluateOp("OneHot",
                                       {VectorOf<int64_t>({1, -1, 5}), Tensor::Scalar<int32_t>(2), Tensor::Scalar(1.0f),
                                        Tensor::Scalar(0.0f)},
                                       {}, {1, 2, 3})),
              ElementsAre(0, 1, 0, 0, 0, 0));
}

TEST(InvertPermutation, NoPermutation_IsRefused) {
  EXPECT_THAT(ErrorOf(EvaluateOp("InvertPermutation", {VectorOf<int32_t>({0, 0})})), HasSubstr("entry 1 is 0"));
  EXPECT_THAT(ErrorOf(EvaluateOp("InvertPermutation", {VectorOf<int32_t>({0, 2})})), HasSubstr("entry 1 is 2"));
}

TEST(Softmax, LargeLogits_DoNotOverflow) {
  EXPECT_THAT(Values<float>(EvaluateOp("Softmax", {Tensor::Of<float>({1, 2}, {1000, 1000})})), ElementsAre(0.5f, 0.5f));
  EXPECT_THAT(Values<float>(EvaluateOp("LogSoftmax", {Tensor::Of<float>({1, 2}, {0, 1000})})), ElementsAre(-1000, 0));
}

TEST(Sum, OfAMillionFloats_IsRoundedOnce) {
  // 0.1f a million times: carried in float the sum would be off by hundreds.
  const Tensor x = VectorOf<float>(std::vector<float>(1000000, 0.1f));
  EXPECT_THAT(Values<float>(EvaluateOp("Sum", {x, VectorOf<int32_t>({0})}, {}, {1})),
              ElementsAre(static_cast<float>(1e6 * static_cast<double>(0.1f))));
}

TEST(AddN, OutputInThePlaceOfAnInputUsedTwice_IsRight) {
  // y is read three times by one node, in whose place the sum may be written.
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {2});
  const Output y = scope.Op("Neg", {x});
  const Output sum = scope.Op("AddN", {y, y, scope.Op("Identity", {y})});
  const auto result = RunGraph(graph, {{"x", VectorOf<float>({1, -2})}}, {sum.name()});
  EXPECT_THAT(Values<float>(result), ElementsAre(-3, 6));
}

// --- Random numbers.

StatusOr<std::vector<Tensor>> RunRandom(const std::string& op, Shape shape, DType dtype, uint64_t step,
                                        const StreamKey& stream) {
  Graph graph;
  Scope scope(graph);
  Tensor dims(DType::kInt64, Shape({shape.rank()}));
  std::copy(shape.dims().begin(), shape.dims().end(), dims.flat<int64_t>().begin());
  std::vector<Output> inputs = {scope.Const(dims)};
  if (op.starts_with("Stateless")) inputs.push_back(scope.Const(VectorOf<int64_t>({static_cast<int64_t>(step), 5})));
  const Output out = scope.Op(op, inputs, {{"dtype", dtype}});
  RIVULET_RETURN_IF_ERROR(scope.status());
  return RunGraph(graph, {}, {out.name()}, stream, step);
}

TEST(RandomUniform, ElementIsWordOfTheStream) {
  StreamKey stream;
  stream.key = {{1, 2}};
  stream.ordinal = 3;
  stream.round = 4;
  stream.purpose = 5;
  const auto values = Values<float>(RunRandom("RandomUniform", {6}, DType::kFloat32, 7, stream));
  for (uint64_t i = 0; i < 6; ++i) {
    const PhiloxBlock block = stream.Block((uint64_t{7} << 24) + i / 4, 0);
    EXPECT_EQ(values[i], UniformFloat(block[i % 4])) << i;
  }
}

TEST(RandomOps, StepAndStream_DecideAllThatIsDrawn) {
  for (const std::string op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal"}) {
    StreamKey stream, other;
    other.round = 1;
    const auto first = Values<float>(RunRandom(op, {8}, DType::kFloat32, 0, stream));
    EXPECT_EQ(first, Values<float>(RunRandom(op, {8}, DType::kFloat32, 0, stream))) << op;
    EXPECT_NE(first, Values<float>(RunRandom(op, {8}, DType::kFloat32, 1, stream))) << op;
    EXPECT_NE(first, Values<float>(RunRandom(op, {8}, DType::kFloat32, 0, other))) << op;
    EXPECT_THAT(ErrorOf(RunRandom(op, {8}, DType::kFloat32, uint64_t{1} << 24, stream)), HasSubstr("beyond"));
  }
}

TEST(RandomOps, TwoInOneGraph_Differ) {
  Graph graph;
  Scope scope(graph);
  const Output shape = scope.Const(VectorOf<int32_t>({4}));
  const Output a = scope.Op("RandomUniform", {shape}, {{"dtype", DType::kFloat32}});
  const Output b = scope.Op("RandomUniform", {shape}, {{"dtype", DType::kFloat32}});
  const auto both = RunGraph(graph, {}, {a.name(), b.name()});
  EXPECT_NE(Values<float>(both, 0), Values<float>(both, 1));
  // Pruning one changes nothing of the other.
  EXPECT_EQ(Values<float>(RunGraph(graph, {}, {b.name()})), Values<float>(both, 1));
}

template <typename T>
void ExpectMoments(const std::string& op, DType dtype, double mean, double deviation, double low, double high) {
  const auto values = Values<T>(RunRandom(op, {200, 500}, dtype, 3, {}));
  double sum = 0, squares = 0;
  for (T v : values) {
    sum += static_cast<double>(v);
    squares += static_cast<double>(v) * static_cast<double>(v);
    ASSERT_TRUE(static_cast<double>(v) >= low && static_cast<double>(v) < high) << op << " drew " << v;
  }
  const double n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, mean, 5 * deviation / std::sqrt(n)) << op;
  EXPECT_NEAR(std::sqrt(squares / n - (sum / n) * (sum / n)), deviation, 0.01 * deviation) << op;
}

TEST(RandomOps, MomentsAndRanges_AreTheDistributions) {
  for (const std::string prefix : {"", "Stateless"}) {
    const std::string normal = prefix.empty() ? "RandomStandardNormal" : "StatelessRandomNormal";
    ExpectMoments<float>(prefix + "RandomUniform", DType::kFloat32, 0.5, std::sqrt(1.0 / 12), 0, 1);
    ExpectMoments<double>(prefix + "RandomUniform", DType::kFloat64, 0.5, std::sqrt(1.0 / 12), 0, 1);
    ExpectMoments<float>(normal, DType::kFloat32, 0, 1, -8, 8);
    ExpectMoments<double>(normal, DType::kFloat64, 0, 1, -9, 9);
    // The deviation of a normal distribution cut at 2: sqrt(1 - 4 phi(2) / (2 Phi(2) - 1)).
    ExpectMoments<float>(prefix + "TruncatedNormal", DType::kFloat32, 0, 0.8796256610342398, -2.0001, 2.0001);
  }
}

TEST(Dropout, KeptElementsAreScaled_AndTheMaskChangesWithTheStep) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {-1, 100});
  const Output y = Dropout(scope, x, 0.75f);
  ASSERT_OK(scope.status());
  const testing::Feeds feeds = {
      {"x", Tensor::Of<float>({100, 100}, std::span<const float>(std::vector<float>(10000, 1.0f)))}};
  const auto first = Values<float>(RunGraph(graph, feeds, {y.name()}, {}, 0));
  int kept = 0;
  for (float v : first) {
    ASSERT_TRUE(v == 0 || v == 4) << v;
    kept += v != 0;
  }
  EXPECT_NEAR(kept, 2500, 5 * std::sqrt(10000 * 0.25 * 0.75));
  EXPECT_NE(first, Values<float>(RunGraph(graph, feeds, {y.name()}, {}, {1})));
}

// --- Our own exponentials and logarithms against the C library's.

double UlpsApart(double a, double b) {
  if (a == b) return 0;
  return std::abs(a - b) / (std::nextafter(std::abs(b), std::numeric_limits<double>::infinity()) - std::abs(b));
}

TEST(PortableMath, IsWithinThreeUlpsOfTheLibrary) {
  for (int i = 0; i < 200000; ++i) {
    const double u = (i + 0.5) / 200000;
    const double x = (u - 0.5) * 1200, small = (u - 0.5) * 8, tiny = (u - 0.5) * 1e-3;
    ASSERT_LE(UlpsApart(math::Exp(x), std::exp(x)), 3) << "exp " << x;
    for (double y : {small, tiny}) {
      ASSERT_LE(UlpsApart(math::Exp(y), std::exp(y)), 3) << "exp " << y;
      ASSERT_LE(UlpsApart(math::Expm1(y), std::expm1(y)), 5) << "expm1 " << y;
      ASSERT_LE(UlpsApart(math::Tanh(y), std::tanh(y)), 6) << "tanh " << y;
      ASSERT_LE(UlpsApart(math::Sigmoid(y), 1 / (1 + std::exp(-y))), 5) << "sigmoid " << y;
      const double above = std::abs(y);
      ASSERT_LE(UlpsApart(math::Log1p(above), std::log1p(above)), 3) << "log1p " << above;
      ASSERT_LE(UlpsApart(math::Log1p(-above / 5), std::log1p(-above / 5)), 3) << "log1p " << -above / 5;
    }
    ASSERT_LE(UlpsApart(math::Log(std::exp(x)), std::log(std::exp(x))), 3) << "log of exp " << x;
    ASSERT_LE(UlpsApart(math::Log(0.5 + u), std::log(0.5 + u)), 3) << "log " << 0.5 + u;
  }
}

TEST(PortableMath, EdgesAreTheLibrarys) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(math::Exp(710), kInfinity);
  EXPECT_EQ(math::Exp(kInfinity), kInfinity);
  EXPECT_EQ(math::Exp(-kInfinity), 0);
  EXPECT_EQ(math::Exp(0), 1);
  EXPECT_TRUE(std::isnan(math::Exp(std::nan(""))));
  EXPECT_EQ(math::Log(0), -kInfinity);
  EXPECT_EQ(math::Log(1), 0);
  EXPECT_EQ(math::Log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(math::Log(-1)));
  EXPECT_TRUE(std::isnan(math::Log(std::nan(""))));
  EXPECT_EQ(math::Log1p(-1), -kInfinity);
  EXPECT_EQ(math::Tanh(kInfinity), 1);
  EXPECT_EQ(math::Tanh(-kInfinity), -1);
  EXPECT_TRUE(std::isnan(math::Tanh(std::nan(""))));
  EXPECT_EQ(math::Sigmoid(-kInfinity), 0);
  EXPECT_EQ(math::Sigmoid(kInfinity), 1);
  EXPECT_EQ(math::Softplus(-kInfinity), 0);
  EXPECT_EQ(math::Softplus(kInfinity), kInfinity);
}

TEST(PortableMath, NormalQuantile_InvertsTheCumulativeFunction) {
  for (double p : {1e-300, 1e-20, 1e-6, 0.02275, 0.1, 0.3, 0.5, 0.8, 0.999, 1 - 1e-10}) {
    const double x = math::NormalQuantile(p);
    EXPECT_NEAR(0.5 * std::erfc(-x / std::sqrt(2.0)) / p, 1, 1e-12) << p;
  }
  EXPECT_EQ(math::NormalQuantile(0.5), 0);
}

}  // namespace
}  // namespace rivulet
