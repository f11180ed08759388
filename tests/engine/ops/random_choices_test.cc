// Random integers, categories and shuffles: their distributions, their dependence on stream and seed alone, and
// errors.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "engine/graph/scope.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::Ints;
using testing::Values;

StatusOr<Tensor> Drawn(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {},
                       const StreamKey& stream = {}, uint64_t step = 0) {
  Graph graph;
  Scope scope(graph);
  std::vector<Output> outputs;
  for (const Tensor& input : inputs) outputs.push_back(scope.Const(input));
  const Output y = scope.Op(op, outputs, std::move(attrs));
  RIVULET_RETURN_IF_ERROR(scope.status());
  RIVULET_ASSIGN_OR_RETURN(auto values, testing::RunGraph(graph, {}, {y.name()}, stream, step));
  return values.front();
}

Tensor Seed(int64_t a, int64_t b) { return Tensor::Of<int64_t>({2}, {a, b}); }

TEST(RandomUniformInt, EveryValueOfTheRange_IsEquallyOften) {
  const auto drawn = Values<int32_t>(
      Drawn("StatelessRandomUniformInt", {Ints({6000}), Seed(3, 4), Tensor::Scalar(-2), Tensor::Scalar(4)}));
  std::map<int32_t, int> count;
  for (int32_t value : drawn) ++count[value];
  ASSERT_EQ(count.size(), 6u);
  for (const auto& [value, times] : count) {
    EXPECT_GE(value, -2);
    EXPECT_LT(value, 4);
    EXPECT_NEAR(times, 1000, 130);  // four and a half deviations
  }
}

TEST(RandomUniformInt, WholeRangeOfInt64_IsReached) {
  const auto drawn = Values<int64_t>(Drawn(
      "StatelessRandomUniformInt", {Ints({1000}), Seed(1, 2), Tensor::Scalar(INT64_MIN), Tensor::Scalar(INT64_MAX)}));
  EXPECT_LT(*std::min_element(drawn.begin(), drawn.end()), INT64_MIN / 100 * 97);
  EXPECT_GT(*std::max_element(drawn.begin(), drawn.end()), INT64_MAX / 100 * 97);
}

TEST(RandomUniformInt, EmptyRange_IsRefused) {
  EXPECT_THAT(
      std::string(Message(
          Drawn("StatelessRandomUniformInt", {Ints({3}), Seed(1, 2), Tensor::Scalar(5), Tensor::Scalar(5)}).status())),
      HasSubstr("minval 5 must be below maxval 5"));
  EXPECT_THAT(
      std::string(Message(Drawn("RandomUniformInt", {Ints({3}), Tensor::Scalar(6), Tensor::Scalar(5)}).status())),
      HasSubstr("minval 6 must be below maxval 5"));
}

TEST(Multinomial, Frequencies_AreTheSoftmax) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor logits = Tensor::Of<float>({2, 4}, {std::log(1.0f), std::log(2.0f), -inf, std::log(5.0f), 0, 90, 0, 90});
  const auto drawn = Values<int64_t>(Drawn("StatelessMultinomial", {logits, Tensor::Scalar(8000), Seed(5, 6)}));
  std::map<int64_t, int> first, second;
  for (size_t i = 0; i < 8000; ++i) {
    ++first[drawn[i]];
    ++second[drawn[8000 + i]];
  }
  EXPECT_NEAR(first[0], 1000, 140);
  EXPECT_NEAR(first[1], 2000, 180);
  EXPECT_EQ(first[2], 0);
  EXPECT_NEAR(first[3], 5000, 200);
  EXPECT_EQ(second[0] + second[2], 0);
  EXPECT_NEAR(second[1], 4000, 210);
}

TEST(Multinomial, RowWithoutProbabilities_IsRefused) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (float bad : {-inf, inf, nan})
    EXPECT_THAT(
        std::string(Message(
            Drawn("StatelessMultinomial", {Tensor::Of<float>({1, 1}, {bad}), Tensor::Scalar(2), Seed(1, 1)}).status())),
        HasSubstr("row 0 of the logits holds no probabilities"));
  EXPECT_THAT(std::string(Message(Drawn("Multinomial", {Tensor(DType::kFloat32, {2, 0}), Tensor::Scalar(2)}).status())),
              HasSubstr("no classes"));
  EXPECT_THAT(
      std::string(Message(Drawn("Multinomial", {Tensor(DType::kFloat32, {2, 3}), Tensor::Scalar(-1)}).status())),
      HasSubstr("num_samples is -1"));
}

TEST(RandomShuffle, EveryOrder_IsEquallyOften) {
  const Tensor rows = Tensor::Of<int32_t>({3, 2}, {0, 0, 1, 1, 2, 2});
  std::map<std::vector<int32_t>, int> count;
  for (uint64_t step = 0; step < 1200; ++step) {
    const auto shuffled = Values<int32_t>(Drawn("RandomShuffle", {rows}, {}, {}, step));
    ASSERT_EQ(shuffled.size(), 6u);
    for (size_t i = 0; i < 6; i += 2) EXPECT_EQ(shuffled[i], shuffled[i + 1]);
    ++count[shuffled];
  }
  ASSERT_EQ(count.size(), 6u);
  for (const auto& [order, times] : count) EXPECT_NEAR(times, 200, 60);
}

TEST(RandomChoices, StreamStepAndSeed_DecideAlone) {
  const StreamKey other{.key = {{7, 7}}};
  const std::vector<std::pair<std::string, std::vector<Tensor>>> ops = {
      {"RandomUniformInt", {Ints({40}), Tensor::Scalar<int64_t>(0), Tensor::Scalar<int64_t>(1000)}},
      {"Multinomial", {Tensor(DType::kFloat64, {2, 50}), Tensor::Scalar(20)}},
      {"RandomShuffle", {Tensor::Of<int64_t>({40}, [] {
         static std::vector<int64_t> values(40);
         for (size_t i = 0; i < 40; ++i) values[i] = static_cast<int64_t>(i);
         return std::span<const int64_t>(values);
       }())}}};
  for (const auto& [op, inputs] : ops) {
    SCOPED_TRACE(op);
    const auto draw = [&](const StreamKey& stream, uint64_t step) {
      return Values<int64_t>(Drawn(op, inputs, {}, stream, step));
    };
    EXPECT_EQ(draw({}, 3), draw({}, 3));
    EXPECT_NE(draw({}, 3), draw({}, 4));
    EXPECT_NE(draw({}, 3), draw(other, 3));
  }
  const auto seeded = [](int64_t a, int64_t b) {
    return Values<int32_t>(
        Drawn("StatelessRandomUniformInt", {Ints({20}), Seed(a, b), Tensor::Scalar(0), Tensor::Scalar(1 << 20)}));
  };
  EXPECT_EQ(seeded(1, 2), seeded(1, 2));
  EXPECT_NE(seeded(1, 2), seeded(1, 3));
  EXPECT_NE(seeded(1, 2), seeded(2, 2));
}

}  // namespace
}  // namespace rivulet
