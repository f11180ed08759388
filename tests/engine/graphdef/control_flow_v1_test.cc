// Conditions and loops that TensorFlow 1 wrote (tensorflow/make_control_flow.py): raised to functions, they give
// TensorFlow's outputs and gradients; what cannot be raised is refused by name.

#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/graphdef/graph_def.h"
#include "tests/engine/graphdef/tensorflow_file.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ReadTensorFlowFile;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class RaisedControlFlow : public ::testing::TestWithParam<const char*> {};

// Sums of some dozen float32 terms, through up to six iterations.
constexpr float kLoopTolerance = 1e-5f;

void ExpectNear(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  for (size_t i = 0; i < expected.flat<float>().size(); ++i) {
    const float value = expected.flat<float>()[i];
    EXPECT_NEAR(actual.flat<float>()[i], value, kLoopTolerance * std::max(1.0f, std::abs(value)))
        << what << " element " << i;
  }
}

TEST_P(RaisedControlFlow, OutputsAndGradients_AreTensorFlows) {
  const std::string name = fmt::format("control_{}", GetParam());
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(ReadTensorFlowFile(name + ".pb")));
  ASSERT_OK_AND_ASSIGN(const Graph values, ParseGraph(ReadTensorFlowFile(name + ".values.pb")));
  std::vector<std::string> placeholders, gradient_of;
  std::vector<Output> xs;
  for (const auto& node : graph.nodes()) {
    EXPECT_NE(node->type(), "Switch");
    if (node->type() != "Placeholder") continue;
    placeholders.push_back(node->name());
    if (values.Find("0/gradient/" + node->name()) == nullptr) continue;
    gradient_of.push_back(node->name());
    xs.push_back(node->output());
  }
  ASSERT_OK_AND_ASSIGN(const Output loss, graph.FindOutput("loss"));
  ASSERT_OK_AND_ASSIGN(const std::vector<Output> gradients, ComputeGradients(graph, loss, xs));
  std::vector<std::string> fetches = {"y"};
  for (const Output& gradient : gradients) fetches.push_back(gradient.name());
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  const auto value = [&](const std::string& key) { return values.Find(key)->attr<Tensor>("value"); };
  int cases = 0;
  for (; values.Find(fmt::format("{}/y", cases)) != nullptr; ++cases) {
    Session::Feeds feeds;
    for (const std::string& each : placeholders) feeds.emplace_back(each, value(fmt::format("{}/{}", cases, each)));
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> results, session->Run(feeds, fetches));
    ExpectNear(results[0], value(fmt::format("{}/y", cases)), fmt::format("{}: y of case {}", GetParam(), cases));
    for (size_t i = 0; i < gradient_of.size(); ++i)
      ExpectNear(results[1 + i], value(fmt::format("{}/gradient/{}", cases, gradient_of[i])),
                 fmt::format("{}: gradient of {} in case {}", GetParam(), gradient_of[i], cases));
  }
  EXPECT_GE(cases, 1);
}

INSTANTIATE_TEST_SUITE_P(Graphs, RaisedControlFlow,
                         ::testing::Values("cond_nested", "cond_twice", "while_counted", "while_data", "while_nested",
                                           "arrays", "dynamic_rnn"),
                         [](const auto& info) { return std::string(info.param); });

Status Refusal(const std::string& text) { return ParseGraphText(text).status(); }

std::string Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& attrs = "") {
  std::string text = fmt::format("node {{ name: '{}' op: '{}' ", name, op);
  for (const std::string& input : inputs) text += fmt::format("input: '{}' ", input);
  return text + attrs + "}\n";
}
const std::string kFloatType = "attr { key: 'T' value { type: DT_FLOAT } } ";
std::string Given(const std::string& name, const std::string& type) {
  return Node(name, "Placeholder", {}, fmt::format("attr {{ key: 'dtype' value {{ type: {} }} }}", type));
}
const std::string kInputs = Given("x", "DT_FLOAT") + Given("p", "DT_BOOL") + Given("q", "DT_BOOL");

TEST(RaisingControlFlow, MergeOfUnrelatedSwitches_IsRefusedByName) {
  EXPECT_THAT(Refusal(kInputs + Node("a", "Switch", {"x", "p"}, kFloatType) +
                      Node("b", "Switch", {"x", "q"}, kFloatType) + Node("m", "Merge", {"a", "b:1"}, kFloatType)),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("Merge 'm' merges 'a' and 'b:1', which no Switch")));
}

TEST(RaisingControlFlow, BothBranchesOfOneSwitch_AreRefusedByName) {
  EXPECT_THAT(
      Refusal(kInputs + Node("a", "Switch", {"x", "p"}, kFloatType) + Node("dead", "Add", {"a", "a:1"}, kFloatType)),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("Add 'dead' needs both branches of 'p'")));
}

std::string Frame(const std::string& name) {
  return kFloatType + fmt::format("attr {{ key: 'frame_name' value {{ s: '{}' }} }} ", name);
}

TEST(RaisingControlFlow, LoopWithoutCondition_IsRefusedByName) {
  EXPECT_THAT(Refusal(kInputs + Node("enter", "Enter", {"x"}, Frame("spin")) +
                      Node("merge", "Merge", {"enter", "next"}, kFloatType) +
                      Node("next", "NextIteration", {"merge"}, kFloatType)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the loop 'spin' has no LoopCond")));
}

TEST(RaisingControlFlow, ValueThatLeavesALoopWithoutExit_IsRefusedByName) {
  const std::string loop =
      Node("enter", "Enter", {"x"}, Frame("spin")) + Node("merge", "Merge", {"enter", "next"}, kFloatType) +
      Given("limit", "DT_FLOAT") + Node("less", "Less", {"merge", "limit"}, kFloatType) +
      Node("test", "LoopCond", {"less"}) + Node("switch", "Switch", {"merge", "test"}, kFloatType) +
      Node("twice", "Add", {"switch:1", "switch:1"}, kFloatType) + Node("next", "NextIteration", {"twice"}, kFloatType);
  EXPECT_OK(Refusal(kInputs + loop + Node("exit", "Exit", {"switch"}, kFloatType)));
  // An Exit of something else.
  EXPECT_THAT(Refusal(kInputs + loop + Node("exit", "Exit", {"twice"}, kFloatType)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Exit 'exit': an Exit takes the first output")));
}

TEST(RaisingControlFlow, GradientOfAnUnknownArray_IsRefusedByName) {
  const std::string gradient = kInputs + Node("grad", "TensorArrayGradV3", {"x", "x"}) + Given("i", "DT_INT32");
  EXPECT_THAT(Refusal(gradient + Node("write", "TensorArrayWriteV3", {"grad", "i", "x", "x"}, kFloatType)),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("TensorArrayWriteV3 'write': the TensorArrayV3 of its handle 'grad' is unknown")));
  EXPECT_THAT(Refusal(gradient + Node("begin", "Identity", {"array:1", "^grad"}, kFloatType) +
                      Node("array", "TensorArrayV3", {"i"}, "attr { key: 'dtype' value { type: DT_FLOAT } } ")),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("TensorArrayGradV3 'grad': the TensorArrayV3 of its handle is unknown")));
}

}  // namespace
}  // namespace rivulet
