#include "engine/graph/compose.h"

#include "dataflow/session/session.h"
#include "engine/graph/scope.h"
#include "engine/models/model_def.h"
#include "engine/variables/variables.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A graph with a variable "w" of its own: run: w = w · 10.
Graph TimesTen() {
  Graph graph;
  const Scope scope(graph);
  const Output w = scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{2}}}, "w");
  const Output read = scope.Op("ReadVariableOp", {w}, {{"dtype", DType::kFloat32}}, "read");
  const Output product = scope.Op("Mul", {read, scope.Const(10.0f, "ten")}, {}, "product");
  Node* assign = scope.AddNode("AssignVariableOp", {w, product}, {}, "assign");
  scope.WithControl({assign}).AddNode("NoOp", {}, {}, "run");
  EXPECT_OK(scope.status());
  return graph;
}

TEST(ImportIntoTest, Copy_SharesVariablesByNameAndRunsAfterItsControlRoots) {
  Graph into;
  const Scope scope(into);
  const Output w = Variable(scope, "w", Shape{2}, Constant(3));
  Node* change = scope.AddNode("AssignVariableOp", {w.node->input(0), scope.Op("Neg", {w})}, {}, "change");
  std::map<std::string, std::string> names;
  ASSERT_OK(ImportInto(into, TimesTen(), "local", std::vector<Node*>{change}, &names));
  EXPECT_EQ(names.at("run"), "local/run");
  EXPECT_EQ(into.Find("local/w")->attr<std::string>("shared_name"), "w");
  ASSERT_OK_AND_ASSIGN(const auto variables, VariablesOf(into));
  EXPECT_EQ(variables.size(), 1u);

  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(into)));
  ASSERT_OK(session->Run({}, {}, {"init"}));
  ASSERT_OK(session->Run({}, {}, {"local/run"}));
  EXPECT_THAT(Values(session->GetVariable("w").value()), ElementsAre(-30.0f, -30.0f));  // negated first
}

TEST(ImportIntoTest, ControlRoots_ReachStateAndNothingElse) {
  Graph into;
  const Scope scope(into);
  Node* root = scope.AddNode("NoOp", {}, {}, "root");
  ASSERT_OK(ImportInto(into, TimesTen(), "local", std::vector<Node*>{root}));
  EXPECT_THAT(into.Find("local/read")->control_inputs(), ElementsAre(root));
  EXPECT_THAT(into.Find("local/w")->control_inputs(), IsEmpty());
  EXPECT_THAT(into.Find("local/ten")->control_inputs(), IsEmpty());
  EXPECT_THAT(into.Find("local/assign")->control_inputs(), IsEmpty());  // waits through the read
}

TEST(ImportIntoTest, EmptyPrefix_KeepsNames) {
  Graph into;
  ASSERT_OK(ImportInto(into, TimesTen(), ""));
  EXPECT_NE(into.Find("run"), nullptr);
}

TEST(ImportIntoTest, NameTaken_IsRefusedAndNothingIsCopied) {
  Graph into;
  Scope(into).AddNode("NoOp", {}, {}, "local/run");
  EXPECT_THAT(ImportInto(into, TimesTen(), "local"),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("the graph has a node 'local/run' already")));
  EXPECT_EQ(into.nodes().size(), 1u);
}

// The same graph over another variable, and what it read before from a placeholder of the first copy.
TEST(ImportIntoTest, Instead_TakesTheNodesPlace) {
  Graph into;
  const Scope scope(into);
  ASSERT_OK(ImportInto(into, TimesTen(), ""));
  const Output other = Variable(scope, "other", Shape{2}, Constant(2));
  const Output seven = scope.Const(7.0f, "seven");
  ASSERT_OK(ImportInto(into, TimesTen(), "copy", {}, nullptr, {{"w", other.node->input(0)}, {"ten", seven}}));
  EXPECT_EQ(into.Find("copy/w"), nullptr);
  EXPECT_EQ(into.Find("copy/ten"), nullptr);
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(into)));
  ASSERT_OK(session->Run({}, {}, {"init"}));
  ASSERT_OK(session->Run({}, {}, {"copy/run"}));
  EXPECT_THAT(Values(session->GetVariable("other").value()), ElementsAre(14.0f, 14.0f));
}

TEST(ImportIntoTest, InsteadOfAnotherType_IsRefused) {
  Graph into;
  const Output seven = Scope(into).Const(Tensor::Scalar<int32_t>(7), "seven");
  EXPECT_THAT(ImportInto(into, TimesTen(), "copy", {}, nullptr, {{"ten", seven}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ImportIntoTest, InvalidPrefix_IsRefused) {
  Graph into;
  EXPECT_THAT(ImportInto(into, TimesTen(), "a b"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a b/w' is no valid name")));
}

}  // namespace
}  // namespace rivulet
