// Losses and composed activations: values that a reader checks by hand, and edges.
#include "engine/layers/losses.h"

#include <gmock/gmock.h>

#include <cmath>

#include "engine/gradients/gradients.h"
#include "engine/layers/activations.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::testing::FloatNear;
using testing::Floats;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// The values of what `build` makes of placeholders for `inputs`, and the gradient of its sum by input 0 after them.
template <typename Build>
std::vector<std::vector<float>> ValuesOf(const std::vector<Tensor>& inputs, Build build) {
  Graph graph;
  const Scope scope(graph);
  std::vector<Output> x;
  testing::Feeds feeds;
  for (const Tensor& input : inputs) {
    x.push_back(scope.Placeholder(fmt::format("x{}", x.size()), input.dtype(), input.shape()));
    feeds.emplace_back(x.back().name(), input);
  }
  const std::vector<Output> outputs = build(scope, x);
  const Output flat = scope.Op("Reshape", {outputs[0], scope.Const(Tensor::Of<int32_t>({1}, {-1}))});
  const Output loss = scope.Op("Sum", {flat, scope.Const(Tensor::Of<int32_t>({1}, {0}))});
  EXPECT_OK(scope.status());
  const auto gradients = ComputeGradients(graph, loss, std::vector{x[0]});
  EXPECT_OK(gradients);
  std::vector<std::string> fetches;
  for (const Output& output : outputs) fetches.push_back(output.name());
  fetches.push_back((*gradients)[0].name());
  const auto tensors = testing::RunGraph(graph, feeds, fetches);
  EXPECT_OK(tensors);
  std::vector<std::vector<float>> values;
  for (const Tensor& tensor : *tensors) values.push_back(testing::Values(tensor));
  return values;
}

auto Are(std::vector<float> values) { return Pointwise(FloatNear(1e-6f), values); }

TEST(HuberLoss, SmallAndLargeErrors_AreSquaredAndLinear) {
  const auto values = ValuesOf({Floats({0.5f, 3, -4}), Floats({0, 0, 0})},
                               [](const Scope& s, auto x) { return std::vector{HuberLoss(s, x[0], x[1], 2)}; });
  EXPECT_THAT(values[0], Are({0.125f, 4, 6}));
  EXPECT_THAT(values[1], Are({0.5f, 2, -2}));
}

TEST(HuberLoss, DeltaNotPositive_IsRefused) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {2});
  HuberLoss(scope, x, x, 0);
  EXPECT_THAT(Message(scope.status()), HasSubstr("delta 0; it must be above 0"));
}

TEST(SigmoidCrossEntropy, ZeroAndLargeLogits_AreExact) {
  const auto values =
      ValuesOf({Floats({0, 0, 100, -100, 20, -20}), Floats({0, 1, 1, 0, 1, 1})},
               [](const Scope& s, auto x) { return std::vector{SigmoidCrossEntropyWithLogits(s, x[0], x[1])}; });
  EXPECT_THAT(values[0], Are({std::log(2.0f), std::log(2.0f), 0, 0, std::exp(-20.0f), 20}));
  EXPECT_NEAR(values[0][4], std::exp(-20.0f), 1e-15f);
  EXPECT_THAT(values[1], Are({0.5f, -0.5f, 0, 0, 0, -1}));
}

TEST(Activations, KnownPoints_HaveTheirValues) {
  const Tensor x = Floats({-4, -1, 0, 1, 4});
  const auto of = [&](auto build) {
    return ValuesOf({x}, [&](const Scope& s, auto in) { return std::vector{build(s, in[0])}; });
  };
  const float e = std::exp(1.0f);
  EXPECT_THAT(of(Swish)[0], Are({-4 / (1 + std::exp(4.0f)), -1 / (1 + e), 0, e / (1 + e), 4 / (1 + std::exp(-4.0f))}));
  EXPECT_THAT(of(HardSwish)[0], Are({0, -1.0f / 3, 0, 2.0f / 3, 4}));
  EXPECT_THAT(of(Mish)[0], Are({-4 * std::tanh(std::log1p(std::exp(-4.0f))), -std::tanh(std::log1p(1 / e)), 0,
                                std::tanh(std::log1p(e)), 4 * std::tanh(std::log1p(std::exp(4.0f)))}));
}

}  // namespace
}  // namespace rivulet
