// TensorFlow's list ops in one graph that TensorFlow ran (tensorflow/make_list_graph.py): every result and the gradient
// through all of them are TensorFlow's.

#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/graphdef/graph_def.h"
#include "tests/engine/graphdef/tensorflow_file.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::ConstantNamed;
using testing::ReadTensorFlowGraph;

void ExpectClose(const Tensor& actual, const Tensor& expected, const std::string& name) {
  ASSERT_EQ(actual.dtype(), expected.dtype()) << name;
  ASSERT_EQ(actual.shape(), expected.shape()) << name;
  if (actual.dtype() != DType::kFloat32) {
    EXPECT_EQ(std::memcmp(actual.data(), expected.data(), actual.bytes()), 0) << name;
    return;
  }
  float largest = 0;
  for (float value : expected.flat<float>()) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.flat<float>().size(); ++i)
    EXPECT_NEAR(actual.flat<float>()[i], expected.flat<float>()[i], 2e-6f * largest) << name << " element " << i;
}

TEST(TensorFlowListsTest, EveryListOp_GivesTensorFlowsResultsAndGradient) {
  const Graph values = ReadTensorFlowGraph("lists.values.pb");
  Graph graph = ReadTensorFlowGraph("lists.pb");
  ASSERT_OK_AND_ASSIGN(const Output loss, graph.FindOutput("loss"));
  ASSERT_OK_AND_ASSIGN(const Output x, graph.FindOutput("x"));
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph, loss, std::vector{x}));
  std::vector<std::string> fetches, names;
  for (const auto& node : values.nodes()) {
    if (node->name() == "x") continue;
    names.push_back(node->name());
    fetches.push_back(node->name() == "gradient/x" ? gradients[0].name() : node->name());
  }
  ASSERT_EQ(names.size(), 17u);
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  ASSERT_OK_AND_ASSIGN(const auto results, session->Run({{"x", ConstantNamed(values, "x")}}, fetches));
  for (size_t i = 0; i < names.size(); ++i) ExpectClose(results[i], ConstantNamed(values, names[i]), names[i]);
}

}  // namespace
}  // namespace rivulet
