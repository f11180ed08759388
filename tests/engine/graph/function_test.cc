#include "engine/graph/function.h"

#include "engine/graph/scope.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Output Argument(const Scope& scope, std::string_view name, int64_t index) {
  return scope.Op("_Arg", {}, {{"T", DType::kFloat32}, {"index", index}}, name);
}

std::shared_ptr<const Function> Doubled(const std::string& name) {
  Graph body;
  const Scope scope(body);
  const Output x = Argument(scope, "x", 0);
  const Output sum = scope.Op("AddV2", {x, x}, {}, "sum");
  return Function::Create(name, std::move(body), {sum}).value();
}

TEST(FunctionTest, Arguments_AreOrderedByIndexWhateverTheOrderOfNodes) {
  Graph body;
  const Scope scope(body);
  const Output y = Argument(scope, "y", 1), x = Argument(scope, "x", 0);
  ASSERT_OK_AND_ASSIGN(const auto function, Function::Create("f", std::move(body), {y, x}));
  EXPECT_THAT(function->arguments, ElementsAre(x.node, y.node));
  EXPECT_THAT(function->result_names, ElementsAre("result_0", "result_1"));
  EXPECT_EQ(function->body->Find("x"), x.node);
}

TEST(FunctionTest, ArgumentMissingOrTwice_IsRefused) {
  Graph gap;
  Argument(Scope(gap), "y", 1);
  EXPECT_THAT(Function::Create("f", std::move(gap), {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index 1")));
  Graph missing;
  const Scope scope(missing);
  Argument(scope, "a", 0);
  Argument(scope, "c", 2);
  scope.Const(1.0f);
  EXPECT_THAT(Function::Create("f", std::move(missing), {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("none of index 1")));
  Graph twice;
  Argument(Scope(twice), "a", 0);
  Argument(Scope(twice), "b", 0);
  EXPECT_THAT(Function::Create("f", std::move(twice), {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("both 'a' and 'b' are argument 0")));
}

TEST(FunctionTest, ResultOfAnotherGraph_IsRefused) {
  Graph body, other;
  const Output x = Argument(Scope(other), "x", 0);
  EXPECT_THAT(Function::Create("f", std::move(body), {x}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("result 0 is no tensor of its body")));
}

TEST(FunctionTest, Library_HoldsWhatFunctionsCallAndRefusesSecondMeanings) {
  Graph outer_body;
  ASSERT_OK(outer_body.AddFunction(Doubled("inner")));
  const Output x = Argument(Scope(outer_body), "x", 0);
  ASSERT_OK_AND_ASSIGN(const auto outer, Function::Create("outer", std::move(outer_body), {x}));

  Graph graph;
  ASSERT_OK(graph.AddFunction(outer));
  ASSERT_OK(graph.AddFunction(outer));  // the same: nothing changes
  EXPECT_NE(graph.FindFunction("inner"), nullptr);
  EXPECT_EQ(graph.FindFunction("none"), nullptr);
  EXPECT_EQ(graph.Clone().FindFunction("outer"), outer.get());

  EXPECT_THAT(graph.AddFunction(Doubled("inner")),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("another function 'inner'")));
  Graph other;
  ASSERT_OK(other.AddFunction(Doubled("inner")));
  EXPECT_THAT(other.AddFunction(outer), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("calls 'inner'")));
  EXPECT_EQ(other.functions().size(), 1u);
}

}  // namespace
}  // namespace rivulet
