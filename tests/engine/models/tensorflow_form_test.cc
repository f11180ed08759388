// A graph converted to TensorFlow's ops computes the same as the original.
#include "engine/models/tensorflow_form.h"

#include "dataflow/session/session.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "engine/presets/presets.h"
#include "proto/graph/graph.pb.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

class TensorFlowFormOf : public ::testing::TestWithParam<std::string> {};

TEST_P(TensorFlowFormOf, Preset_GivesTheSameLossAndScores) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset(GetParam()));
  ASSERT_OK_AND_ASSIGN(const TensorFlowGraph form, TensorFlowForm(model.graph));
  EXPECT_TRUE(form.foreign.empty());
  for (const auto& node : form.graph.nodes())
    for (const char* ours : {"LSTM", "LayerNorm", "Gelu", "ScaledDotProductAttention"})
      EXPECT_NE(node->type(), ours) << node->name();
  ASSERT_OK_AND_ASSIGN(Graph read, ParseGraph(SerializeGraph(form.graph)));
  ASSERT_OK_AND_ASSIGN(const auto ours, Session::Create(model.graph.Clone(), {.seed = 5}));
  ASSERT_OK_AND_ASSIGN(const auto theirs, Session::Create(std::move(read), {.seed = 5}));
  ASSERT_OK(ours->Run({}, {}, {model.init_target}).status());
  for (const ModelVariable& variable : model.variables) {
    ASSERT_OK_AND_ASSIGN(const Tensor value, ours->GetVariable(variable.name));
    ASSERT_OK(theirs->SetVariable(variable.name, value));
  }
  Session::Feeds feeds;
  for (const ModelInput* input : {&model.input, &model.label}) {
    Shape shape = input->spec.shape;
    shape.set_dim(0, 3);
    Tensor value(input->spec.dtype, shape);
    if (value.dtype() == DType::kInt64) {
      for (size_t i = 0; i < value.flat<int64_t>().size(); ++i)
        value.flat<int64_t>()[i] = static_cast<int64_t>(i * 31 % 7);
    } else {
      for (size_t i = 0; i < value.flat<float>().size(); ++i)
        value.flat<float>()[i] = static_cast<float>(i * 379 % 997) / 997.0f;
    }
    feeds.emplace_back(input->placeholder, std::move(value));
  }
  const std::vector<std::string> fetches = {"logits", model.eval_loss};
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> expected, ours->Run(feeds, fetches));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> results, theirs->Run(feeds, fetches));
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_EQ(results[i].shape(), expected[i].shape()) << fetches[i];
    for (size_t k = 0; k < expected[i].flat<float>().size(); ++k)
      ASSERT_NEAR(results[i].flat<float>()[k], expected[i].flat<float>()[k], 2e-5f) << fetches[i] << " element " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, TensorFlowFormOf, ::testing::Values("char_lstm", "tiny_transformer", "mlp"),
                         [](const auto& info) { return info.param; });

TEST(TensorFlowForm, ListsOfALoop_AreNoTensorsOfManyDimensionsToTensorFlow) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset("char_lstm"));
  ASSERT_OK_AND_ASSIGN(const TensorFlowGraph form, TensorFlowForm(model.graph));
  proto::GraphDef written;
  ASSERT_TRUE(written.ParseFromString(SerializeGraph(form.graph)));
  int lists = 0;
  for (const proto::FunctionDef& function : written.library().function())
    for (int i = 0; i < function.signature().input_arg_size(); ++i) {
      const auto notes = function.arg_attr().find(static_cast<uint32_t>(i));
      if (function.signature().input_arg(i).type() != proto::DT_VARIANT || notes == function.arg_attr().end()) continue;
      ++lists;
      EXPECT_FALSE(notes->second.attr().contains("_output_shapes"));
      EXPECT_TRUE(notes->second.attr().contains("_list_shapes"));
    }
  EXPECT_GT(lists, 0);
}

TEST(TensorFlowForm, OpThatTensorFlowLacks_IsCopiedAndNamed) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {-1, 4});
  scope.Op("RmsNorm", {x, scope.Const(Tensor::Of<float>({4}, {1, 1, 1, 1}))}, {}, "norm");
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const TensorFlowGraph form, TensorFlowForm(graph));
  EXPECT_EQ(form.foreign, std::vector<std::string>{"RmsNorm"});
  EXPECT_EQ(SerializeGraph(form.graph), SerializeGraph(graph));
}

}  // namespace
}  // namespace rivulet
