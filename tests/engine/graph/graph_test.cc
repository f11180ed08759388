#include "engine/graph/graph.h"

#include "engine/graph/inference.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

class GraphTest : public ::testing::Test {
 protected:
  GraphTest() : scope_(graph_) {
    a_ = scope_.Placeholder("a", DType::kFloat32, Shape{2, 3});
    b_ = scope_.Placeholder("b", DType::kFloat32, Shape{3, 4});
    n_ = scope_.Placeholder("n", DType::kInt32, Shape{2, 3});
  }
  StatusOr<Node*> Add(NodeSpec spec) { return graph_.AddNode(std::move(spec)); }

  Graph graph_;
  Scope scope_;
  Output a_, b_, n_;
};

TEST_F(GraphTest, AddNode_InfersTypesShapesAndDefaults) {
  ASSERT_OK_AND_ASSIGN(Node * node, Add({"product", "MatMul", {a_, b_}}));
  EXPECT_EQ(node->outputs()[0], (TensorSpec{DType::kFloat32, Shape{2, 4}}));
  EXPECT_EQ(node->attr<DType>("T"), DType::kFloat32);
  EXPECT_FALSE(node->attr<bool>("transpose_a"));
  EXPECT_EQ(graph_.Find("product"), node);
  EXPECT_EQ(node->output().name(), "product");
}

TEST_F(GraphTest, AddNode_NumberAttributeFollowsFromTheInputs) {
  ASSERT_OK_AND_ASSIGN(Node * node, Add({"sum", "AddN", {a_, a_, a_}}));
  EXPECT_EQ(node->attr<int64_t>("N"), 3);
}

TEST_F(GraphTest, AddNode_UnknownOp_NamesTheNearest) {
  EXPECT_THAT(Add({"x", "MatMull", {a_, b_}}),
              StatusIs(kNotFound, "MatMull 'x': there is no op 'MatMull'. Did you mean 'MatMul'?"));
}

TEST_F(GraphTest, AddNode_NameTaken_IsRefused) {
  EXPECT_THAT(Add({"a", "Identity", {a_}}),
              StatusIs(absl::StatusCode::kAlreadyExists, "Identity 'a': the graph has a node of this name already"));
}

TEST_F(GraphTest, FindHandle_FirstThatNamesTheVariable_WhateverItsOwnName) {
  const auto add = [&](const std::string& name, const std::string& shared) {
    const StatusOr<Node*> added =
        Add({name, "VarHandleOp", {}, {}, {{"dtype", DType::kFloat32}, {"shape", Shape{2}}, {"shared_name", shared}}});
    EXPECT_OK(added);
    return *added;
  };
  Node *plain = add("plain", ""), *first = add("first", "w"), *second = add("w", "w");
  EXPECT_EQ(FindHandle(graph_, "plain"), plain);
  EXPECT_EQ(FindHandle(graph_, "w"), first);
  EXPECT_EQ(FindHandle(graph_, "first"), nullptr);  // a handle of 'w'
  EXPECT_EQ(FindHandle(graph_, "a"), nullptr);      // a node, but no handle
  EXPECT_EQ(graph_.Find("w"), second);
  const Graph copy = graph_.Clone();
  ASSERT_NE(FindHandle(copy, "w"), nullptr);
  EXPECT_EQ(FindHandle(copy, "w"), copy.Find("first"));
}

TEST_F(GraphTest, AddNode_InvalidName_IsRefused) {
  for (const char* name : {"", "_x", "/x", "a b", "a:0", "^a", "\n"})
    EXPECT_THAT(Add({name, "Identity", {a_}}), StatusIs(kInvalid, HasSubstr("is no valid name for a Identity node")));
}

TEST_F(GraphTest, AddNode_WrongNumberOfInputs_NamesWhatItTakes) {
  EXPECT_THAT(Add({"x", "MatMul", {a_}}), StatusIs(kInvalid, HasSubstr("MatMul 'x': has 1 input, but takes 2 (a, b)")));
  EXPECT_THAT(Add({"x", "MatMul", {a_, b_, b_}}),
              StatusIs(kInvalid, HasSubstr("MatMul 'x': has 3 inputs, but takes 2 (a, b)")));
}

TEST_F(GraphTest, AddNode_InputsOfTwoTypes_NamesBoth) {
  EXPECT_THAT(
      Add({"x", "AddV2", {a_, n_}}),
      StatusIs(kInvalid, HasSubstr("AddV2 'x': input 1 ('y') is int32, but must be float32 as in attribute 'T'")));
}

TEST_F(GraphTest, AddNode_TypeTheOpDoesNotTake_IsRefused) {
  EXPECT_THAT(Add({"x", "Relu", {scope_.Placeholder("s", DType::kBool, Shape{})}}),
              StatusIs(kInvalid, HasSubstr("Relu 'x': attribute 'T' is bool, but the op takes ")));
}

TEST_F(GraphTest, AddNode_TypeListGivenButInputsDiffer_IsRefused) {
  EXPECT_THAT(Add({"x", "AddN", {a_, a_}, {}, {{"N", int64_t{3}}}}),
              StatusIs(kInvalid, HasSubstr("attribute 'N' is 3, but the node has 2 inputs")));
}

TEST_F(GraphTest, AddNode_MissingAttribute_IsNamedWithItsKind) {
  EXPECT_THAT(Add({"x", "Placeholder", {}}), StatusIs(kInvalid, "Placeholder 'x': lacks the attribute 'dtype' (type)"));
}

TEST_F(GraphTest, AddNode_UnknownAttribute_NamesTheNearest) {
  EXPECT_THAT(Add({"x", "MatMul", {a_, b_}, {}, {{"transpose_c", true}}}),
              StatusIs(kInvalid, HasSubstr("has no attribute 'transpose_c'. Did you mean 'transpose_a'?")));
}

TEST_F(GraphTest, AddNode_AttributeOfAnotherKind_IsRefused) {
  EXPECT_THAT(Add({"x", "MatMul", {a_, b_}, {}, {{"transpose_a", int64_t{1}}}}),
              StatusIs(kInvalid, "MatMul 'x': attribute 'transpose_a' must be bool, but is int"));
}

TEST_F(GraphTest, AddNode_StringNotAllowed_ListsThoseThatAre) {
  const Output image = scope_.Placeholder("image", DType::kFloat32, Shape{1, 8, 8, 1});
  EXPECT_THAT(Add({"x",
                   "MaxPool",
                   {image},
                   {},
                   {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                    {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                    {"padding", std::string("same")}}}),
              StatusIs(kInvalid, HasSubstr("attribute 'padding' is 'same', but the op takes 'SAME', 'VALID'")));
}

TEST_F(GraphTest, AddNode_ListTooShort_IsRefused) {
  const Output image = scope_.Placeholder("image", DType::kFloat32, Shape{1, 8, 8, 1});
  EXPECT_THAT(Add({"x",
                   "MaxPool",
                   {image},
                   {},
                   {{"ksize", std::vector<int64_t>{2, 2}},
                    {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                    {"padding", std::string("SAME")}}}),
              StatusIs(kInvalid, HasSubstr("attribute 'ksize' has 2 elements, but needs at least 4")));
}

TEST_F(GraphTest, AddNode_FreeAttribute_IsKept) {
  ASSERT_OK_AND_ASSIGN(Node * node, Add({"x", "Identity", {a_}, {}, {{"_note", std::string("mine")}}}));
  EXPECT_EQ(node->attr<std::string>("_note"), "mine");
  EXPECT_EQ(node->FindAttr<int64_t>("_note"), nullptr);
}

TEST_F(GraphTest, AddNode_ShapeError_NamesNodeOperandsAndSourceLine) {
  EXPECT_THAT(Add({"product", "MatMul", {a_, a_}, {}, {}, "model.cc:12"}),
              StatusIs(kInvalid, AllOf(HasSubstr("MatMul 'product' (model.cc:12): "),
                                       HasSubstr("(inputs: 'a' float32[2,3], 'a' float32[2,3])"))));
}

TEST_F(GraphTest, AddNode_OutputThatOverflows_IsRefused) {
  const Output tall = scope_.Placeholder("tall", DType::kFloat32, Shape{int64_t{1} << 39, 1});
  const Output wide = scope_.Placeholder("wide", DType::kFloat32, Shape{1, int64_t{1} << 39});
  EXPECT_THAT(Add({"x", "MatMul", {tall, wide}}), StatusIs(kInvalid, HasSubstr("more than 2^40 elements")));
}

TEST_F(GraphTest, AddNode_InputOfAnotherGraph_IsRefused) {
  Graph other;
  const Output foreign = Scope(other).Placeholder("a", DType::kFloat32, Shape{});
  EXPECT_THAT(Add({"x", "Identity", {foreign}}), StatusIs(kInvalid, "Identity 'x': input 0 is not of this graph"));
  EXPECT_THAT(Add({"x", "Identity", {a_}, {foreign.node}}), StatusIs(kInvalid, HasSubstr("a control input is not")));
}

TEST_F(GraphTest, AddNode_PortThatIsNot_IsRefused) {
  EXPECT_THAT(Add({"x", "Identity", {Output{a_.node, 1}}}),
              StatusIs(absl::StatusCode::kOutOfRange, "Identity 'x': input 0 is output 1 of 'a', which has 1"));
}

TEST_F(GraphTest, FindOutput_KnowsNamesWithAndWithoutPort) {
  EXPECT_EQ(graph_.FindOutput("a").value(), a_);
  EXPECT_EQ(graph_.FindOutput("a:0").value(), a_);
}

TEST_F(GraphTest, FindOutput_UnknownNodeOrPort_IsRefused) {
  ASSERT_OK(Add({"hidden", "Identity", {a_}}));
  EXPECT_THAT(graph_.FindOutput("hiden"), StatusIs(kNotFound, "the graph has no node 'hiden'. Did you mean 'hidden'?"));
  EXPECT_THAT(graph_.FindOutput("a:1"), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("'a:1'")));
  for (const char* name : {"a:", "a:x", "a:-1", "a:99999999999999"})
    EXPECT_THAT(graph_.FindOutput(name), StatusIs(kInvalid, HasSubstr("is no tensor name")));
}

TEST_F(GraphTest, Consumers_AreListedOnceInOrderOfCreation) {
  ASSERT_OK_AND_ASSIGN(Node * twice, Add({"twice", "AddV2", {a_, a_}}));
  ASSERT_OK_AND_ASSIGN(Node * once, Add({"once", "Neg", {a_}}));
  EXPECT_THAT(graph_.Consumers(a_), ElementsAre(twice, once));
}

TEST_F(GraphTest, ReplaceInput_OfAnotherTypeOrShape_IsRefused) {
  ASSERT_OK_AND_ASSIGN(Node * node, Add({"x", "Neg", {a_}}));
  EXPECT_THAT(graph_.ReplaceInput(node, 0, n_), StatusIs(kInvalid, HasSubstr("input 0 is float32, but 'n' is int32")));
  EXPECT_THAT(graph_.ReplaceInput(node, 0, b_),
              StatusIs(kInvalid, HasSubstr("input 0 has shape [2,3], but 'b' has [3,4]")));
  EXPECT_THAT(graph_.ReplaceInput(node, 1, a_), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("has no input 1")));
  EXPECT_EQ(node->input(0), a_);
}

TEST_F(GraphTest, ReplaceInputOrControl_ThatClosesACycle_IsRefused) {
  ASSERT_OK_AND_ASSIGN(Node * first, Add({"first", "Neg", {a_}}));
  ASSERT_OK_AND_ASSIGN(Node * second, Add({"second", "Neg", {first->output()}}));
  EXPECT_THAT(graph_.ReplaceInput(first, 0, second->output()),
              StatusIs(kInvalid, HasSubstr("'second' depends on this node and cannot be its input 0")));
  EXPECT_THAT(graph_.AddControlInput(first, second),
              StatusIs(kInvalid, HasSubstr("'second' depends on this node and cannot run before it")));
  EXPECT_THAT(graph_.AddControlInput(first, first), StatusIs(kInvalid, HasSubstr("depends on this node")));
}

TEST_F(GraphTest, TopologicalOrder_AfterAForwardEdge_StillPutsInputsFirst) {
  ASSERT_OK_AND_ASSIGN(Node * early, Add({"early", "Neg", {a_}}));
  ASSERT_OK_AND_ASSIGN(Node * late, Add({"late", "Exp", {a_}}));
  ASSERT_OK(graph_.ReplaceInput(early, 0, late->output()));
  EXPECT_THAT(graph_.TopologicalOrder(std::vector<Node*>{early}), ElementsAre(a_.node, late, early));
  EXPECT_THAT(graph_.ReplaceInput(late, 0, early->output()), StatusIs(kInvalid, HasSubstr("depends on this node")));
}

TEST_F(GraphTest, Clone_IsIndependent) {
  ASSERT_OK_AND_ASSIGN(Node * node, Add({"x", "Neg", {a_}, {b_.node}}));
  Graph copy = graph_.Clone();
  ASSERT_OK(Scope(copy).status());
  Node* twin = copy.Find("x");
  ASSERT_NE(twin, nullptr);
  EXPECT_NE(twin, node);
  EXPECT_EQ(twin->id(), node->id());
  EXPECT_EQ(twin->input(0).node, copy.Find("a"));
  EXPECT_THAT(twin->control_inputs(), ElementsAre(copy.Find("b")));
  ASSERT_OK(copy.AddNode({"y", "Neg", {twin->output()}}));
  EXPECT_EQ(graph_.Find("y"), nullptr);
}

// input_value(): what shape functions learn of small integers.
class ConstantValueTest : public GraphTest {
 protected:
  std::vector<int32_t> Value(Output output) {
    const std::optional<Tensor> value = ConstantValue(output, [](Output o) -> const Shape& { return o.shape(); });
    if (!value) return {-999};
    return {value->flat<int32_t>().begin(), value->flat<int32_t>().end()};
  }
  Output Ints(std::initializer_list<int32_t> values) {
    return scope_.Const(Tensor::Of<int32_t>(Shape{static_cast<int64_t>(values.size())}, values));
  }
  Output Int(int32_t value) { return scope_.Const(Tensor::Scalar(value)); }
  Output Slice(Output x, int32_t begin, int32_t end, int32_t stride, AttrMap attrs = {}) {
    return scope_.Op("StridedSlice", {x, Ints({begin}), Ints({end}), Ints({stride})}, std::move(attrs));
  }
};

TEST_F(ConstantValueTest, KnownShape_IsAValue) {
  EXPECT_THAT(Value(scope_.Op("Shape", {a_})), ElementsAre(2, 3));
  EXPECT_THAT(Value(scope_.Op("Size", {a_})), ElementsAre(6));
  EXPECT_THAT(Value(scope_.Op("Rank", {a_})), ElementsAre(2));
}

TEST_F(ConstantValueTest, KnownDimensionOfAPartlyKnownShape_IsAValue) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 28, 7});
  const Output shape = scope_.Op("Shape", {x});
  EXPECT_THAT(Value(shape), ElementsAre(-999));
  EXPECT_THAT(Value(Slice(shape, 1, 2, 1, {{"shrink_axis_mask", int64_t{1}}})), ElementsAre(28));
  EXPECT_THAT(Value(Slice(shape, -2, 0, 1, {{"end_mask", int64_t{1}}})), ElementsAre(28, 7));
  EXPECT_THAT(Value(Slice(shape, 0, 1, 1)), ElementsAre(-999));
}

TEST_F(ConstantValueTest, PackedAndReversed_IsAValue) {
  const Output packed = scope_.Op("Pack", {Int(4), scope_.Op("Mul", {Int(7), Int(6)}), Int(5)});
  EXPECT_THAT(Value(packed), ElementsAre(4, 42, 5));
  EXPECT_THAT(Value(Slice(packed, -1, -4, -1)), ElementsAre(5, 42, 4));
  EXPECT_THAT(Value(scope_.Op("ConcatV2", {packed, Ints({1, 2}), Int(0)})), ElementsAre(4, 42, 5, 1, 2));
  EXPECT_THAT(Value(scope_.Op("Prod", {packed, Ints({0})})), ElementsAre(840));
}

TEST_F(ConstantValueTest, OverflowOfInt32_IsNoValue) {
  EXPECT_THAT(Value(scope_.Op("Mul", {Int(1 << 30), Int(4)})), ElementsAre(-999));
}

TEST_F(ConstantValueTest, ChainOfDoublings_IsFoldedInTime) {
  Output x = Int(1);
  for (int i = 0; i < 60; ++i) x = scope_.Op("Minimum", {scope_.Op("AddV2", {x, x}), x});  // 2^60 paths
  EXPECT_THAT(Value(x), ElementsAre(::testing::AnyOf(1, -999)));
}

TEST_F(ConstantValueTest, DivisionByZero_IsNoValue) {
  EXPECT_THAT(Value(scope_.Op("FloorDiv", {Int(7), Int(0)})), ElementsAre(-999));
  EXPECT_THAT(Value(scope_.Op("FloorDiv", {Int(-7), Int(2)})), ElementsAre(-4));
}

TEST_F(ConstantValueTest, FlattenByShapeArithmetic_GivesTheReshapeItsWidth) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 28, 28});
  const Output rest = Slice(scope_.Op("Shape", {x}), 1, 0, 1, {{"end_mask", int64_t{1}}});
  const Output flat = scope_.Op("Reshape", {x, scope_.Op("Pack", {Int(-1), scope_.Op("Prod", {rest, Ints({0})})})});
  ASSERT_OK(scope_.status());
  EXPECT_EQ(flat.shape(), (Shape{kUnknownDim, 784}));
}

}  // namespace
}  // namespace rivulet
