#include "engine/graph/scope.h"

#include "engine/variables/initializers.h"
#include "engine/variables/variables.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Sharing = VariableOptions::Sharing;

class ScopeTest : public ::testing::Test {
 protected:
  ScopeTest() : root_(graph_) {}
  Graph graph_;
  Scope root_;
};

TEST_F(ScopeTest, NamesAskedForTwice_AreMadeUnique) {
  EXPECT_EQ(root_.Const(1.0f).name(), "Const");
  EXPECT_EQ(root_.Const(1.0f).name(), "Const_1");
  EXPECT_EQ(root_.Const(1.0f, "Const_2").name(), "Const_2");
  EXPECT_EQ(root_.Const(1.0f).name(), "Const_3");
}

TEST_F(ScopeTest, SubScopes_PrefixAndAreUnique) {
  const Scope layer = root_.SubScope("layer");
  EXPECT_EQ(layer.Const(1.0f).name(), "layer/Const");
  EXPECT_EQ(layer.SubScope("inner").Const(1.0f).name(), "layer/inner/Const");
  EXPECT_EQ(root_.SubScope("layer").Const(1.0f).name(), "layer_1/Const");
  EXPECT_EQ(root_.SubScope("layer").Const(1.0f).name(), "layer_2/Const");
}

TEST_F(ScopeTest, SecondScopeOfTheSameGraph_DoesNotMixWithTheFirst) {
  root_.SubScope("layer").Const(1.0f);
  EXPECT_EQ(Scope(graph_).SubScope("layer").Const(1.0f).name(), "layer_1/Const");
}

TEST_F(ScopeTest, WithControl_AddsControlInputs) {
  Node* first = root_.AddNode("NoOp", {});
  Node* second = root_.WithControl({first}).AddNode("NoOp", {});
  EXPECT_THAT(second->control_inputs(), ElementsAre(first));
}

TEST_F(ScopeTest, Nodes_KnowTheLineThatBuiltThem) {
  EXPECT_THAT(root_.Op("Neg", {root_.Const(1.0f)}).node->source_line(), HasSubstr("scope_test.cc:"));
}

TEST_F(ScopeTest, FirstErrorSticks_AndLaterCallsAreEmpty) {
  const Output x = root_.Placeholder("x", DType::kFloat32, Shape{2});
  const Output bad = root_.Op("MatMul", {x});
  EXPECT_FALSE(bad);
  EXPECT_FALSE(root_.Op("Relu", {bad}));
  EXPECT_FALSE(root_.SubScope("s").Const(1.0f));
  root_.Fail(Internal("later"));
  EXPECT_THAT(root_.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr("MatMul 'MatMul' (scope_test.cc:"), HasSubstr("has 1 input"))));
}

TEST_F(ScopeTest, EmptyInputWithoutAnError_IsRefused) {
  root_.Op("Relu", {root_.Op("NoOp", {})});
  EXPECT_THAT(root_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("input 0 is empty")));
}

TEST_F(ScopeTest, Variable_HasHandleReadAndFirstValueUnderInit) {
  const Output w = Variable(root_.SubScope("dense"), "kernel", Shape{2, 3}, Zeros());
  ASSERT_OK(root_.status());
  EXPECT_EQ(w.node->type(), "ReadVariableOp");
  EXPECT_EQ(w.shape(), (Shape{2, 3}));
  ASSERT_NE(graph_.Find("dense/kernel"), nullptr);
  EXPECT_EQ(graph_.Find("dense/kernel")->attr<std::string>("shared_name"), "dense/kernel");
  EXPECT_EQ(graph_.Find("dense/kernel")->attr<std::string>("_segment"), "trainable");
  ASSERT_NE(graph_.Find("init"), nullptr);
  EXPECT_THAT(graph_.Find("init")->control_inputs(), ElementsAre(graph_.Find("dense/kernel/Assign")));
}

TEST_F(ScopeTest, VariableReused_IsReadAgain) {
  const Output first = Variable(root_, "w", Shape{2}, Zeros());
  const Output second = Variable(root_, "w", Shape{2}, Zeros(), {.sharing = Sharing::kReuseOrCreate});
  ASSERT_OK(root_.status());
  EXPECT_NE(first, second);
  EXPECT_EQ(first.node->input(0), second.node->input(0));
}

TEST_F(ScopeTest, VariableCreatedTwice_IsRefused) {
  Variable(root_, "w", Shape{2}, Zeros());
  Variable(root_, "w", Shape{2}, Zeros());
  EXPECT_THAT(root_.status(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("the variable 'w' exists already")));
}

TEST_F(ScopeTest, VariableReusedWithAnotherShape_NamesBoth) {
  Variable(root_, "w", Shape{2}, Zeros());
  Variable(root_, "w", Shape{3}, Zeros(), {.sharing = Sharing::kReuse});
  EXPECT_THAT(root_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "the variable 'w' is float32[2] (trainable) and cannot be shared as float32[3] (trainable)"));
}

TEST_F(ScopeTest, VariableReusedThatIsNot_NamesTheNearest) {
  Variable(root_, "kernel", Shape{2}, Zeros());
  Variable(root_, "kernal", Shape{2}, Zeros(), {.sharing = Sharing::kReuse});
  EXPECT_THAT(root_.status(),
              StatusIs(absl::StatusCode::kNotFound, "the graph has no variable 'kernal'. Did you mean 'kernel'?"));
}

TEST_F(ScopeTest, VariableOfUnknownSegment_IsRefused) {
  Variable(root_, "w", Shape{2}, Zeros(), {.segment = "trainabel"});
  EXPECT_THAT(root_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has the segment 'trainabel'")));
}

TEST_F(ScopeTest, VariableNamedAsANode_IsRefused) {
  root_.Const(1.0f, "w");
  Variable(root_, "w", Shape{2}, Zeros());
  EXPECT_THAT(root_.status(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'w' cannot be a variable")));
}

TEST_F(ScopeTest, VariableOfUnknownShape_IsRefused) {
  Variable(root_, "w", Shape{kUnknownDim}, GlorotUniform());
  EXPECT_THAT(root_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the first value 'glorot_uniform': the shape [?] is not fully known")));
}

TEST_F(ScopeTest, RandomIntegers_AreRefused) {
  Variable(root_, "w", Shape{2}, RandomNormal(), {.dtype = DType::kInt32});
  EXPECT_THAT(root_.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("a random first value must be floating, but is int32")));
}

TEST(InitializersTest, UnknownName_NamesTheNearest) {
  EXPECT_OK(InitializerByName("he_normal"));
  EXPECT_THAT(InitializerByName("glorot_unifrom"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("Did you mean 'glorot_uniform'?")));
}

}  // namespace
}  // namespace rivulet
