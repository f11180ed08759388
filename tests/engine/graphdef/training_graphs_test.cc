// Gradients that TensorFlow wrote into its graphs (tensorflow/make_training_graphs.py): they run unchanged, and give
// TensorFlow's numbers.
#include "dataflow/session/session.h"
#include "engine/compile/compile.h"
#include "engine/graphdef/graph_def.h"
#include "tests/engine/graphdef/tensorflow_file.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ReadTensorFlowFile;
using ::rivulet::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sums of some dozen float32 terms.
constexpr float kTolerance = 2e-5f;

class TrainingGraph : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainingGraph, Gradients_AreTensorFlows) {
  const std::string name = fmt::format("training_{}", GetParam());
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(ReadTensorFlowFile(name + ".pb")));
  ASSERT_OK_AND_ASSIGN(const Graph values, ParseGraph(ReadTensorFlowFile(name + ".values.pb")));
  for (const auto& node : graph.nodes()) {
    EXPECT_NE(node->type(), "Switch") << node->name();
    EXPECT_NE(node->type(), "Merge") << node->name();
  }
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  int runs = 0;
  for (;; ++runs) {
    Session::Feeds feeds;
    std::vector<std::string> fetches;
    std::vector<Tensor> expected;
    const std::string feed = fmt::format("{}/feed/", runs), fetch = fmt::format("{}/fetch/", runs);
    for (const auto& node : values.nodes()) {
      if (node->name().starts_with(feed))
        feeds.emplace_back(node->name().substr(feed.size()), node->attr<Tensor>("value"));
      if (!node->name().starts_with(fetch)) continue;
      fetches.push_back(node->name().substr(fetch.size()));
      expected.push_back(node->attr<Tensor>("value"));
    }
    if (fetches.empty()) break;
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> results, session->Run(feeds, fetches));
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(results[i].shape(), expected[i].shape()) << fetches[i];
      for (size_t k = 0; k < expected[i].flat<float>().size(); ++k) {
        const float value = expected[i].flat<float>()[k];
        EXPECT_NEAR(results[i].flat<float>()[k], value, kTolerance * std::max(1.0f, std::abs(value)))
            << fetches[i] << " of run " << runs << ", element " << k;
      }
    }
  }
  EXPECT_GE(runs, 1);
}

INSTANTIATE_TEST_SUITE_P(Graphs, TrainingGraph,
                         ::testing::Values("loop", "loop_by_data", "loop_in_loop", "loop_with_condition",
                                           "loop_with_arrays", "arrays", "map", "scan", "condition", "convolution",
                                           "convolution_tape", "loop_lowered", "loop_functional", "condition_lowered",
                                           "condition_functional", "case_lowered", "case_functional"),
                         [](const auto& info) { return std::string(info.param); });

std::string Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& attrs = "") {
  std::string text = fmt::format("node {{ name: '{}' op: '{}' ", name, op);
  for (const std::string& input : inputs) text += fmt::format("input: '{}' ", input);
  return text + attrs + "}\n";
}
const std::string kFloat = "attr { key: 'T' value { type: DT_FLOAT } } ";
std::string Given(const std::string& name, const std::string& type) {
  return Node(name, "Placeholder", {}, fmt::format("attr {{ key: 'dtype' value {{ type: {} }} }}", type));
}
std::string Given(const std::string& name, const std::string& type, const std::string& dims) {
  return Node(name, "Placeholder", {},
              fmt::format("attr {{ key: 'dtype' value {{ type: {} }} }} "
                          "attr {{ key: 'shape' value {{ shape {{ {} }} }} }}",
                          type, dims));
}
const std::string kStack = Given("size", "DT_INT32") + Given("x", "DT_FLOAT") +
                           Node("stack", "StackV2", {"size"}, "attr { key: 'elem_type' value { type: DT_FLOAT } }");

TEST(RaisingStacks, TwoPushes_AreRefusedByName) {
  EXPECT_THAT(ParseGraphText(kStack + Node("a", "StackPushV2", {"stack", "x"}, kFloat) +
                             Node("b", "StackPushV2", {"stack", "x"}, kFloat))
                  .status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("StackV2 'stack' has 2 pushes and 0 pops")));
}

TEST(RaisingStacks, UnknownHandle_IsRefusedByName) {
  EXPECT_THAT(
      ParseGraphText(kStack + Node("a", "StackPopV2", {"x"}, "attr { key: 'elem_type' value { type: DT_FLOAT } }"))
          .status(),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("StackPopV2 'a': the stack of its handle is unknown")));
}

// An array that grows as it is written to: how many rows it has depends on the values of the indices.
TEST(RaisingTensorArrays, ArrayThatGrows_RunsInSessionsAndPrograms_RefuseItByName) {
  const auto number = [](const std::string& name, int value) {
    return Node(
        name, "Const", {},
        fmt::format("attr {{ key: 'dtype' value {{ type: DT_INT32 }} }} attr {{ key: 'value' value {{ tensor {{ "
                    "dtype: DT_INT32 tensor_shape {{ }} int_val: {} }} }} }}",
                    value));
  };
  const std::string type = "attr { key: 'dtype' value { type: DT_FLOAT } } ",
                    row = "attr { key: 'element_shape' value { shape { dim { size: 2 } } } } ";
  ASSERT_OK_AND_ASSIGN(
      Graph graph,
      ParseGraphText(
          Given("at", "DT_INT32", "") + Given("x", "DT_FLOAT", "dim { size: 2 }") + number("zero", 0) +
          number("one", 1) +
          Node("array", "TensorArrayV3", {"zero"}, type + row + "attr { key: 'dynamic_size' value { b: true } }") +
          Node("write", "TensorArrayWriteV3", {"array", "at", "x", "array:1"}, kFloat) +
          Node("size", "TensorArraySizeV3", {"array", "write"}) +
          Node("places", "Range", {"zero", "size", "one"}, "attr { key: 'Tidx' value { type: DT_INT32 } }") +
          Node("rows", "TensorArrayGatherV3", {"array", "places", "write"}, type + row)));
  Signature signature;
  signature.feeds = {{"at", {DType::kInt32, Shape{}}}, {"x", {DType::kFloat32, Shape{2}}}};
  signature.fetches = {"rows"};
  EXPECT_THAT(CompileProgram(graph, signature).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'places'"), HasSubstr("a session can run the graph, and training cannot"))));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  ASSERT_OK_AND_ASSIGN(
      const std::vector<Tensor> rows,
      session->Run({{"at", Tensor::Scalar<int32_t>(2)}, {"x", Tensor::Of<float>({2}, {3, 4})}}, {"rows"}));
  EXPECT_EQ(rows[0].shape(), Shape({3, 2}));
  EXPECT_THAT(rows[0].flat<float>(), ElementsAre(0, 0, 0, 0, 3, 4));
}

TEST(RaisingConditions, MergeOfSomeBranches_IsRefusedByName) {
  const std::string four = kFloat + "attr { key: 'num_outs' value { i: 3 } } ";
  EXPECT_THAT(ParseGraphText(Given("x", "DT_FLOAT") + Given("i", "DT_INT32") + Node("s", "_SwitchN", {"x", "i"}, four) +
                             Node("m", "Merge", {"s", "s:1"}, kFloat))
                  .status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("Merge 'm' merges 's' and 's:1'")));
}

}  // namespace
}  // namespace rivulet
