// Convolutions that are built from ops: shapes, values and gradients.
#include "engine/layers/convolution.h"

#include "tests/testing/gradient_check.h"
#include "tests/testing/run_graph.h"

namespace rivulet {
namespace {

using testing::CheckGradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RandomTensor;
using Outputs = std::vector<Output>;

Output Values(const Scope& scope, Shape shape, std::initializer_list<double> values) {
  return scope.Const(Tensor::Of<double>(std::move(shape), values));
}

std::vector<double> Computed(const Graph& graph, const Scope& scope, Output y) {
  if (!scope.status().ok()) {
    ADD_FAILURE() << Message(scope.status());
    return {};
  }
  const auto outputs = testing::RunGraph(graph, {}, {y.name()});
  if (!outputs.ok()) {
    ADD_FAILURE() << Message(outputs.status());
    return {};
  }
  const auto values = std::as_const((*outputs)[0]).flat<double>();
  return {values.begin(), values.end()};
}

TEST(Conv1D, OfThreeTaps_IsTheSumOfNeighbours) {
  Graph graph;
  const Scope scope(graph);
  const Output x = Values(scope, {1, 4, 1}, {1, 2, 3, 4}), w = Values(scope, {3, 1, 1}, {1, 10, 100});
  const Output y = Conv1D(scope, x, w, {.padding = "SAME"});
  EXPECT_EQ(y.shape(), Shape({1, 4, 1}));
  EXPECT_THAT(Computed(graph, scope, y), ElementsAre(210, 321, 432, 43));
  const Output strided = Conv1D(scope, x, w, {.strides = {2}, .padding = "EXPLICIT", .paddings = {{2, 0}}});
  EXPECT_THAT(Computed(graph, scope, strided), ElementsAre(100, 321));
  const Output dilated = Conv1D(scope, x, Values(scope, {2, 1, 1}, {1, 10}), {.dilations = {2}});
  EXPECT_THAT(Computed(graph, scope, dilated), ElementsAre(31, 42));
}

TEST(Conv1D, ChannelsFirst_KeepsItsAxes) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {kUnknownDim, 6, 20});
  const Output w = scope.Placeholder("w", DType::kFloat32, {3, 2, 9});
  EXPECT_EQ(Conv1D(scope, x, w, {.data_format = "NCHW"}).shape(), Shape({kUnknownDim, 9, 18}));
}

TEST(Conv2DTranspose, SpreadsEachPixelOverItsWindow) {
  Graph graph;
  const Scope scope(graph);
  const Output x = Values(scope, {1, 1, 3, 1}, {1, 2, 3}), w = Values(scope, {1, 2, 1, 1}, {1, 10});
  EXPECT_THAT(Computed(graph, scope, Conv2DTranspose(scope, x, w, {.window = {.strides = {1, 2}}})),
              ElementsAre(1, 10, 2, 20, 3, 30));
  EXPECT_THAT(Computed(graph, scope, Conv2DTranspose(scope, x, w)), ElementsAre(1, 12, 23, 30));
  EXPECT_THAT(Computed(graph, scope, Conv2DTranspose(scope, x, w, {.window = {.strides = {1, 3}}})),
              ElementsAre(1, 10, 0, 2, 20, 0, 3, 30));
  EXPECT_THAT(
      Computed(graph, scope, Conv2DTranspose(scope, x, w, {.window = {.strides = {1, 3}}, .output_padding = {0, 2}})),
      ElementsAre(1, 10, 0, 2, 20, 0, 3, 30, 0, 0));
  EXPECT_THAT(Computed(graph, scope,
                       Conv2DTranspose(scope, x, w, {.window = {.padding = "EXPLICIT", .paddings = {{0, 0}, {1, 0}}}})),
              ElementsAre(12, 23, 30));
}

TEST(Conv2DTranspose, UnknownBatch_KeepsEverythingElse) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {kUnknownDim, 7, 7, 6});
  const Output w = scope.Placeholder("w", DType::kFloat32, {3, 3, 4, 6});
  const WindowOptions same = {.strides = {2, 2}, .padding = "SAME"};
  EXPECT_EQ(Conv2DTranspose(scope, x, w, {.window = same}).shape(), Shape({kUnknownDim, 14, 14, 4}));
  EXPECT_EQ(Conv2DTranspose(scope, x, w, {.window = same, .output_sizes = {13, 14}}).shape(),
            Shape({kUnknownDim, 13, 14, 4}));
  EXPECT_EQ(Conv2DTranspose(scope, x, w, {.window = same, .groups = 2}).shape(), Shape({kUnknownDim, 14, 14, 8}));
  EXPECT_EQ(scope.status(), absl::OkStatus());
  Conv2DTranspose(scope, x, w, {.window = same, .output_sizes = {16, 14}});
  EXPECT_THAT(std::string(Message(scope.status())), HasSubstr("out_backprop is [?,7,7,6], but"));
}

TEST(Conv2DTranspose, OptionsOfAnotherRank_AreRefused) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {1, 7, 7, 6});
  Conv2DTranspose(scope, x, x, {.window = {.strides = {2}}});
  EXPECT_THAT(std::string(Message(scope.status())), HasSubstr("2 spatial axes has 1 strides"));
}

TEST(Conv2DTranspose, UnknownSizes_AreAskedFor) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {1, kUnknownDim, 7, 6});
  const Output w = scope.Placeholder("w", DType::kFloat32, {3, 3, 4, 6});
  Conv2DTranspose(scope, x, w);
  EXPECT_THAT(std::string(Message(scope.status())), HasSubstr("must be known; give output_sizes"));
}

TEST(ConvolutionLayers, Gradients_EqualFiniteDifferences) {
  testing::GradientCheckOptions sizes_known;
  sizes_known.second_order = true;
  sizes_known.known_shapes = {testing::KnownShapes::kAll};
  const auto check = [&](std::vector<Tensor> inputs, const testing::BuildFn& build) {
    EXPECT_EQ(CheckGradients(inputs, build, sizes_known), absl::OkStatus());
  };
  check({RandomTensor({2, 6, 4}, 1), RandomTensor({3, 2, 2}, 2)}, [](const Scope& s, const Outputs& x) {
    return Outputs{Conv1D(s, x[0], x[1], {.strides = {2}, .padding = "SAME"})};
  });
  check({RandomTensor({2, 3, 2, 4}, 1), RandomTensor({3, 2, 3, 4}, 2)}, [](const Scope& s, const Outputs& x) {
    return Outputs{Conv2DTranspose(s, x[0], x[1], {.window = {.strides = {2, 3}}, .output_padding = {1, 2}})};
  });
  check({RandomTensor({2, 4, 3, 2}, 1), RandomTensor({2, 2, 3, 4}, 2)}, [](const Scope& s, const Outputs& x) {
    return Outputs{
        Conv2DTranspose(s, x[0], x[1], {.window = {.dilations = {1, 2}, .data_format = "NCHW"}, .groups = 2})};
  });
}

}  // namespace
}  // namespace rivulet
