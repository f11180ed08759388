#include "engine/gradients/mixed_precision.h"

#include <cmath>

#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/graphdef/graph_def.h"
#include "engine/layers/dropout.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/presets/presets.h"
#include "engine/tensor/float16.h"
#include "engine/variables/variables.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::RunGraph;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

Tensor Ramp(Shape shape, float step) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  for (size_t i = 0; float& x : tensor.flat<float>()) x = std::sin(step * static_cast<float>(++i));
  return tensor;
}

// relu(x w + b) summed, with names to ask for.
struct Dense {
  Dense() : scope(graph) {
    x = scope.Placeholder("x", DType::kFloat32, {3, 40});
    w = scope.Placeholder("w", DType::kFloat32, {40, 5});
    b = scope.Placeholder("b", DType::kFloat32, {5});
    const Output product = scope.Op("MatMul", {x, w}, {}, "product");
    const Output biased = scope.Op("BiasAdd", {product, scope.Op("Identity", {b})}, {}, "biased");
    const Output active = scope.Op("Relu", {biased}, {}, "active");
    scope.Op("Sum", {active, scope.Const(Tensor::Of<int32_t>({2}, {0, 1}))}, {}, "loss");
    EXPECT_OK(scope.status());
  }
  Graph graph;
  Scope scope;
  Output x, w, b;
  testing::Feeds feeds = {{"x", Ramp({3, 40}, 0.3f)}, {"w", Ramp({40, 5}, 0.7f)}, {"b", Ramp({5}, 1.1f)}};
};

const Node& At(const Graph& graph, std::string_view name) {
  const Node* node = graph.Find(name);
  RIVULET_CHECK(node != nullptr, "no node {}", name);
  return *node;
}

TEST(MixedPrecision, EveryOldTensor_KeepsItsNameAndType) {
  for (const char* preset : {"mlp", "mnist_cnn"}) {
    ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset(preset));
    ASSERT_OK_AND_ASSIGN(const Graph mixed, ToMixedPrecision(model.graph, DType::kBFloat16));
    for (const auto& node : model.graph.nodes()) {
      const Node* same = mixed.Find(node->name());
      ASSERT_NE(same, nullptr) << node->name();
      ASSERT_EQ(same->outputs().size(), node->outputs().size());
      for (size_t port = 0; port < node->outputs().size(); ++port)
        EXPECT_EQ(same->outputs()[port], node->outputs()[port]) << node->name();
    }
    ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(SerializeGraph(mixed)));  // travels in a plan
    EXPECT_EQ(again.nodes().size(), mixed.nodes().size());
  }
}

TEST(MixedPrecision, ProductsAndWhatPassesThemOn_AreIn16Bits) {
  Dense dense;
  ASSERT_OK_AND_ASSIGN(const Graph mixed, ToMixedPrecision(dense.graph, DType::kBFloat16));
  EXPECT_EQ(At(mixed, "product/bfloat16").outputs()[0].dtype, DType::kBFloat16);
  EXPECT_EQ(At(mixed, "product").type(), "Cast");
  // b comes through an Identity, which is no variable: the sum is left in float32.
  EXPECT_EQ(At(mixed, "biased").type(), "BiasAdd");
  EXPECT_EQ(At(mixed, "biased").outputs()[0].dtype, DType::kFloat32);

  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset("mnist_cnn"));
  ASSERT_OK_AND_ASSIGN(const Graph cnn, ToMixedPrecision(model.graph, DType::kBFloat16));
  int narrow = 0, wide_variables = 0;
  for (const auto& node : cnn.nodes()) {
    const bool is_narrow = !node->outputs().empty() && node->outputs()[0].dtype == DType::kBFloat16;
    if (is_narrow && node->type() != "Cast") ++narrow;
    if (node->type() == "VarHandleOp") wide_variables += node->attr<DType>("dtype") == DType::kFloat32;
    if (node->type() == "SparseSoftmaxCrossEntropyWithLogits") {
      EXPECT_EQ(node->attr<DType>("T"), DType::kFloat32);
    }
  }
  EXPECT_GE(narrow, 3 + 3 + 2 + 1);                     // products, biases, rectifiers, pools
  EXPECT_EQ(At(cnn, "conv1/Conv2D").type(), "Conv2D");  // of one channel
  EXPECT_EQ(At(cnn, "conv2/Conv2D").type(), "Cast");
  EXPECT_EQ(wide_variables, 8);
}

TEST(MixedPrecision, Product_IsThatOfRoundedFactorsRoundedOnce) {
  Dense dense;
  ASSERT_OK_AND_ASSIGN(const Graph mixed, ToMixedPrecision(dense.graph, DType::kBFloat16));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, RunGraph(mixed, dense.feeds, {"product"}));
  for (size_t row = 0; row < 3; ++row) {
    for (size_t column = 0; column < 5; ++column) {
      double sum = 0, size = 0;
      for (size_t k = 0; k < 40; ++k) {
        const double term = static_cast<double>(bfloat16(dense.feeds[0].second.flat<float>()[row * 40 + k])) *
                            static_cast<double>(bfloat16(dense.feeds[1].second.flat<float>()[k * 5 + column]));
        sum += term;
        size += std::abs(term);
      }
      const float value = got[0].flat<float>()[row * 5 + column];
      EXPECT_EQ(value, static_cast<float>(bfloat16(value)));  // has 8 bits
      EXPECT_NEAR(value, sum, std::abs(sum) * 0x1p-8 + size * 1e-6);
    }
  }
}

TEST(MixedPrecision, WideWeightGradients_AreFloat32ProductsOfTheRoundedFactors) {
  Dense dense;
  ASSERT_OK_AND_ASSIGN(Graph mixed, ToMixedPrecision(dense.graph, DType::kBFloat16));
  ASSERT_OK_AND_ASSIGN(const Output loss, mixed.FindOutput("loss"));
  ASSERT_OK_AND_ASSIGN(const Output w, mixed.FindOutput("w"));
  ASSERT_OK_AND_ASSIGN(std::vector<Output> gradients, ComputeGradients(mixed, loss, std::vector{w}));
  EXPECT_EQ(gradients[0].dtype(), DType::kFloat32);
  const std::string rounded = gradients[0].name();
  ASSERT_OK(WidenWeightGradients(mixed, gradients));
  EXPECT_EQ(gradients[0].dtype(), DType::kFloat32);
  ASSERT_EQ(gradients[0].node->type(), "MatMul");
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, RunGraph(mixed, dense.feeds, {rounded, gradients[0].name()}));
  bool finer = false;
  for (size_t i = 0; i < got[0].flat<float>().size(); ++i) {
    EXPECT_EQ(got[0].flat<float>()[i], static_cast<float>(bfloat16(got[1].flat<float>()[i])));
    finer = finer || got[0].flat<float>()[i] != got[1].flat<float>()[i];
  }
  EXPECT_TRUE(finer);
}

TEST(MixedPrecision, SmallGradients_SurviveInFloat16WhereTheLossIsScaled) {
  Dense dense;
  ASSERT_OK_AND_ASSIGN(const Output all, dense.graph.FindOutput("loss"));
  dense.scope.Op("Mul", {all, dense.scope.Const(1e-9f)}, {}, "small");
  ASSERT_OK_AND_ASSIGN(Graph mixed, ToMixedPrecision(dense.graph, DType::kFloat16));
  const Scope scope(mixed);
  const Output loss = *mixed.FindOutput("small"), w = *mixed.FindOutput("w");
  const Output scaled = scope.Op("Mul", {loss, scope.Const(0x1p20f)});
  ASSERT_OK_AND_ASSIGN(const std::vector<Output> lost, ComputeGradients(mixed, loss, std::vector{w}));
  ASSERT_OK_AND_ASSIGN(const std::vector<Output> kept, ComputeGradients(mixed, scaled, std::vector{w}));
  ASSERT_OK_AND_ASSIGN(const auto got, RunGraph(mixed, dense.feeds, {lost[0].name(), kept[0].name()}));
  ASSERT_OK_AND_ASSIGN(const std::vector<Output> wide,
                       ComputeGradients(dense.graph, *dense.graph.FindOutput("small"), std::vector{dense.w}));
  ASSERT_OK_AND_ASSIGN(const auto exact, RunGraph(dense.graph, dense.feeds, {wide[0].name()}));
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(got[0].flat<float>()[i], 0.0f);
    const float unscaled = got[1].flat<float>()[i] * 0x1p-20f, expected = exact[0].flat<float>()[i];
    EXPECT_NEAR(unscaled, expected, 3e-12f) << i;
  }
}

TEST(MixedPrecision, RandomOps_DrawWhatTheyDrewBefore) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {4, 4});
  const Output first = Dropout(scope, scope.Op("MatMul", {x, x}), 0.5f);
  const Output second = Dropout(scope, scope.Op("MatMul", {x, x}), 0.5f);
  scope.Op("Identity", {scope.Op("GreaterEqual", {second, scope.Const(1e-6f)})}, {}, "kept");
  scope.Op("Identity", {first}, {}, "first");
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const Graph mixed, ToMixedPrecision(graph, DType::kBFloat16));
  Tensor ones(DType::kFloat32, {4, 4});
  for (float& value : ones.flat<float>()) value = 1;
  ASSERT_OK_AND_ASSIGN(const auto wide, RunGraph(graph, {{"x", ones}}, {"kept"}));
  ASSERT_OK_AND_ASSIGN(const auto narrow, RunGraph(mixed, {{"x", ones}}, {"kept"}));
  EXPECT_EQ(std::memcmp(wide[0].data(), narrow[0].data(), 16), 0);
}

TEST(MixedPrecision, AnotherType_IsRefused) {
  EXPECT_THAT(ToMixedPrecision(Graph(), DType::kInt32),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("int32")));
}

Session::Feeds Batch() {
  Tensor image(DType::kFloat32, Shape{8, 28, 28, 1});
  Tensor label(DType::kInt64, Shape{8});
  for (int i = 0; i < 8; ++i) {
    label.flat<int64_t>()[static_cast<size_t>(i)] = i;
    for (int at = 0; at < 3 * 28; ++at) image.flat<float>()[static_cast<size_t>(i * 784 + i * 84 + at)] = 1;
  }
  return {{"image", image}, {"label", label}};
}

// Loss after some steps of SGD on one batch; in float32 where `compute` is.
StatusOr<float> TrainedLoss(const std::string& preset, DType compute) {
  RIVULET_ASSIGN_OR_RETURN(ModelDef model, Preset(preset));
  if (compute != DType::kFloat32) {
    RIVULET_ASSIGN_OR_RETURN(model.graph, ToMixedPrecision(model.graph, compute));
  }
  std::vector<Output> handles;
  for (const ModelVariable& variable : model.variables) {
    RIVULET_ASSIGN_OR_RETURN(const Output handle, FindVariable(model.graph, variable.name));
    handles.push_back(handle);
  }
  RIVULET_ASSIGN_OR_RETURN(const Output loss, model.graph.FindOutput(model.train_loss));
  RIVULET_ASSIGN_OR_RETURN(std::vector<Output> gradients, ComputeGradients(model.graph, loss, handles));
  RIVULET_RETURN_IF_ERROR(WidenWeightGradients(model.graph, gradients));
  OptimizerSpec optimizer;
  optimizer.learning_rate = 0.05;
  RIVULET_ASSIGN_OR_RETURN(const Node* step, ApplyGradients(Scope(model.graph), optimizer, handles, gradients));
  const std::string target = step->name();
  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(std::move(model.graph), {.seed = 7}));
  RIVULET_RETURN_IF_ERROR(session->Run({}, {}, {model.init_target}).status());
  for (int i = 0; i < 10; ++i) RIVULET_RETURN_IF_ERROR(session->Run(Batch(), {}, {target}).status());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Tensor> after, session->Run(Batch(), {"loss"}));
  return after[0].flat<float>()[0];
}

TEST(MixedPrecision, Training_FollowsFloat32) {
  for (const char* preset : {"logistic_regression", "mlp", "mnist_cnn"}) {
    ASSERT_OK_AND_ASSIGN(const float wide, TrainedLoss(preset, DType::kFloat32));
    for (const DType compute : {DType::kBFloat16, DType::kFloat16}) {
      ASSERT_OK_AND_ASSIGN(const float narrow, TrainedLoss(preset, compute));
      EXPECT_NEAR(narrow, wide, 0.04f * wide) << preset << " " << Name(compute);
      EXPECT_NE(narrow, wide) << preset << " " << Name(compute);
    }
  }
}

}  // namespace
}  // namespace rivulet
