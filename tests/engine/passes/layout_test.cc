// NCHW graphs on NHWC kernels: the positions of the transposes, and unchanged bits.
#include <gmock/gmock.h>

#include <cstring>

#include "engine/gradients/gradients.h"
#include "tests/engine/passes/optimized.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

Tensor Numbers(Shape shape, int64_t seed) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  for (int64_t i = seed; float& x : tensor.flat<float>()) x = static_cast<float>(i++ * 7919 % 211) * 0.01f - 1;
  return tensor;
}

// Two convolutions with bias, Relu and a pool between them, as a model from PyTorch has them.
struct NchwModel : Build {
  std::vector<Output> weights;
  Output loss;
  NchwModel() {
    const std::string format = "NCHW";
    const auto convolve = [&](Output x, Shape filter, int64_t stride, AttrMap more = {}) {
      weights.push_back(scope.Placeholder("filter" + std::to_string(weights.size()), DType::kFloat32, filter));
      AttrMap attrs = {{"data_format", format},
                       {"strides", std::vector<int64_t>{1, 1, stride, 1}},
                       {"padding", std::string("SAME")}};
      for (auto& [name, value] : more) attrs[name] = value;
      x = scope.Op("Conv2D", {x, weights.back()}, attrs);
      weights.push_back(
          scope.Placeholder("bias" + std::to_string(weights.size()), DType::kFloat32, Shape{filter.dim(3)}));
      return scope.Op("Relu", {scope.Op("BiasAdd", {x, weights.back()}, {{"data_format", format}})});
    };
    Output x = Feed("x", {2, 3, 8, 6});
    x = convolve(x, {3, 3, 3, 5}, 1);
    x = scope.Op("MaxPool", {x},
                 {{"data_format", format},
                  {"ksize", std::vector<int64_t>{1, 1, 2, 2}},
                  {"strides", std::vector<int64_t>{1, 1, 2, 2}},
                  {"padding", std::string("VALID")}});
    x = convolve(
        x, {3, 2, 5, 4}, 2,
        {{"padding", std::string("EXPLICIT")}, {"explicit_paddings", std::vector<int64_t>{0, 0, 0, 0, 2, 1, 1, 0}}});
    x = scope.Op("AddV2", {x, scope.Op("Tanh", {x})});
    x = scope.Op("ConcatV2", {x, scope.Op("Neg", {x}), scope.Const(Tensor::Scalar<int32_t>(1))}, {}, "both");
    loss = scope.Op("Mean", {scope.Op("Square", {x}), scope.Const(Tensor::Of<int32_t>({4}, {0, 1, 2, 3}))}, {}, "loss");
    EXPECT_OK(scope.status());
    for (const Output& weight : weights) signature.feeds.push_back({weight.name(), F32(weight.shape())});
    Fetch(x);
    Fetch(loss);
  }
};

int NchwOps(const Graph& graph) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    const std::string* format = node->template FindAttr<std::string>("data_format");
    return format != nullptr && *format == "NCHW";
  }));
}

TEST(Layout, ChainOfNchwOps_IsTransposedAtItsBordersOnly) {
  NchwModel model;
  const Graph graph = model.Optimized();
  EXPECT_EQ(NchwOps(graph), 0);
  // In once; out once for the fetch, whose name it has.
  EXPECT_EQ(Count(graph, "Transpose"), 2);
  EXPECT_EQ(graph.Find("both")->type(), "Transpose");
  EXPECT_EQ(NchwOps(model.Optimized(NoPasses())), 5);
}

TEST(Layout, OneOpAlone_Stays) {
  Build b;
  b.Fetch(b.scope.Op("MaxPool", {b.Feed("x", {1, 3, 4, 4})},
                     {{"data_format", std::string("NCHW")},
                      {"ksize", std::vector<int64_t>{1, 1, 2, 2}},
                      {"strides", std::vector<int64_t>{1, 1, 2, 2}},
                      {"padding", std::string("VALID")}}));
  EXPECT_EQ(Count(b.Optimized(), "Transpose"), 0);
}

TEST(Layout, ValuesAndGradients_HaveTheSameBits) {
  NchwModel model;
  const auto gradients = ComputeGradients(model.graph, model.loss, model.weights);
  ASSERT_OK(gradients);
  for (const Output& gradient : *gradients) model.Fetch(gradient);
  Feeds feeds;
  for (const FeedSpec& feed : model.signature.feeds)
    feeds.emplace_back(feed.tensor, Numbers(feed.spec.shape, static_cast<int64_t>(feeds.size())));
  ASSERT_OK_AND_ASSIGN(auto plain, CompiledGraph::Compile(model.graph, feeds, model.signature.fetches, NoPasses()));
  for (const CompileOptions& options : {CompileOptions(), Only("layout")}) {
    ASSERT_OK_AND_ASSIGN(auto changed, CompiledGraph::Compile(model.graph, feeds, model.signature.fetches, options));
    ASSERT_OK_AND_ASSIGN(const auto expected, plain.Run(feeds));
    ASSERT_OK_AND_ASSIGN(const auto actual, changed.Run(feeds));
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(std::memcmp(expected[i].data(), actual[i].data(), expected[i].bytes()), 0)
          << model.signature.fetches[i];
  }
}

}  // namespace
}  // namespace rivulet::testing
