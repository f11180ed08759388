// Hand-written losses over softmax: their replacements, and the differences in values.
#include <gmock/gmock.h>

#include <cmath>

#include "engine/gradients/gradients.h"
#include "tests/engine/passes/optimized.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

Tensor ScaledNumbers(Shape shape, double scale) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  for (int64_t i = 0; float& x : tensor.flat<float>())
    x = static_cast<float>(scale * (static_cast<double>(i++ * 7919 % 211) * 0.01 - 1));
  return tensor;
}

// -Σ labels · log(softmax(logits)), and its mean.
struct HandWritten : Build {
  Output logits = Feed("logits", {6, 9}), labels = Feed("labels", {6, 9}), losses, mean;
  HandWritten() {
    const Output product = scope.Op("Mul", {labels, scope.Op("Log", {scope.Op("Softmax", {logits})})});
    losses = scope.Op("Neg", {scope.Op("Sum", {product, scope.Const(Tensor::Of<int32_t>({1}, {-1}))})}, {}, "losses");
    mean = scope.Op("Mean", {losses, scope.Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "mean");
    EXPECT_OK(scope.status());
  }
};

void ExpectNear(const Tensor& actual, const Tensor& expected, double tolerance) {
  double largest = 0;
  for (const float v : expected.flat<float>()) largest = std::max(largest, std::abs(static_cast<double>(v)));
  for (size_t i = 0; i < expected.flat<float>().size(); ++i)
    EXPECT_NEAR(actual.flat<float>()[i], expected.flat<float>()[i], tolerance * largest) << "element " << i;
}

double Tolerance() {
  for (const Pass& pass : Passes())
    if (pass.name == "softmax_loss") return pass.tolerance;
  return 0;
}

TEST(SoftmaxLoss, CrossEntropyByHand_IsTheOp) {
  HandWritten model;
  model.Fetch(model.losses);
  const Graph graph = model.Optimized();
  EXPECT_EQ(Count(graph, "SoftmaxCrossEntropyWithLogits"), 1);
  EXPECT_EQ(Count(graph, "Log") + Count(graph, "Softmax") + Count(graph, "LogSoftmax"), 0);
}

TEST(SoftmaxLoss, ValueThatIsSeen_Stays) {
  HandWritten model;
  model.Fetch(model.losses);
  Output logarithm;
  for (const auto& node : model.graph.nodes())
    if (node->type() == "Log") logarithm = node->output();
  model.Fetch(logarithm);
  const Graph graph = model.Optimized();
  EXPECT_EQ(Count(graph, "SoftmaxCrossEntropyWithLogits"), 0);
  EXPECT_EQ(graph.Find(logarithm.node->name())->type(), "LogSoftmax");
}

TEST(SoftmaxLoss, TrainedByHand_DividesByNothingAndStaysWithinTheTolerance) {
  HandWritten model;
  const auto gradients = ComputeGradients(model.graph, model.mean, std::vector{model.logits});
  ASSERT_OK(gradients);
  model.Fetch(model.mean);
  model.Fetch((*gradients)[0]);
  const Graph graph = model.Optimized();
  EXPECT_EQ(Count(graph, "SoftmaxCrossEntropyWithLogits"), 1);
  EXPECT_EQ(Count(graph, "Softmax"), 1) << "the gradient's";
  EXPECT_EQ(Count(graph, "Log"), 0);
  for (const auto& node : graph.nodes()) {
    if (node->type() != "RealDiv") continue;
    EXPECT_EQ(node->input(1).node->type(), "Const") << node->name();
  }

  const Feeds feeds = {{"logits", ScaledNumbers({6, 9}, 3)}, {"labels", ScaledNumbers({6, 9}, 1)}};
  CompileOptions without;
  without.passes.without = {"softmax_loss"};
  ASSERT_OK_AND_ASSIGN(auto by_hand, CompiledGraph::Compile(model.graph, feeds, model.signature.fetches, without));
  ASSERT_OK_AND_ASSIGN(auto recognised, CompiledGraph::Compile(model.graph, feeds, model.signature.fetches));
  ASSERT_OK_AND_ASSIGN(const auto expected, by_hand.Run(feeds));
  ASSERT_OK_AND_ASSIGN(const auto actual, recognised.Run(feeds));
  for (size_t i = 0; i < expected.size(); ++i) ExpectNear(actual[i], expected[i], Tolerance());
}

TEST(SoftmaxLoss, ProbabilityThatRoundsToZero_HasAFiniteLossAndGradient) {
  HandWritten model;
  const auto gradients = ComputeGradients(model.graph, model.mean, std::vector{model.logits});
  ASSERT_OK(gradients);
  model.Fetch(model.mean);
  model.Fetch((*gradients)[0]);
  Tensor labels(DType::kFloat32, {6, 9});
  for (size_t row = 0; row < 6; ++row) labels.flat<float>()[row * 9 + row] = 1;
  const Feeds feeds = {{"logits", ScaledNumbers({6, 9}, 300)}, {"labels", labels}};
  ASSERT_OK_AND_ASSIGN(auto compiled, CompiledGraph::Compile(model.graph, feeds, model.signature.fetches));
  ASSERT_OK_AND_ASSIGN(const auto values, compiled.Run(feeds));
  for (const Tensor& value : values)
    for (const float v : value.flat<float>()) EXPECT_TRUE(std::isfinite(v));
}

}  // namespace
}  // namespace rivulet::testing
