// Errors about nodes that cannot be built: the drawing under the sentence.
#include "engine/graph/node_error.h"

#include <random>

#include "engine/graph/function.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/variables/variables.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kRefused = absl::StatusCode::kInvalidArgument;

class NodeErrorTest : public ::testing::Test {
 protected:
  NodeErrorTest() : scope_(graph_) {}
  Output Input(std::string_view name, Shape shape, DType dtype = DType::kFloat32) {
    StatusOr<Node*> node =
        graph_.AddNode({std::string(name), "Placeholder", {}, {}, {{"dtype", dtype}, {"shape", std::move(shape)}}});
    return (*node)->output();
  }
  std::string Refusal(NodeSpec spec) {
    spec.source_line = "mlp.cc:12";
    const StatusOr<Node*> node = graph_.AddNode(std::move(spec));
    EXPECT_THAT(node, ::testing::Not(::rivulet::testing::IsOk()));
    return std::string(Message(node.status()));
  }
  static std::string Lines(std::initializer_list<std::string_view> lines) {
    std::string text;
    for (const std::string_view line : lines) text += fmt::format("{}{}", text.empty() ? "" : "\n", line);
    return text;
  }

  Graph graph_;
  Scope scope_;
};

TEST_F(NodeErrorTest, InnerDimensionsThatDiffer_AreMarkedUnderTheExpression) {
  const Output image = Input("image", {kUnknownDim, 784}), kernel = Input("dense/kernel", {512, 10});
  EXPECT_EQ(Refusal({"dense/MatMul", "MatMul", {image, kernel}}),
            Lines({"MatMul 'dense/MatMul' (mlp.cc:12): columns of a [?,784] and rows of b [512,10] differ: 784 and 512 "
                   "(inputs: 'image' float32[?,784], 'dense/kernel' float32[512,10])",
                   "    MatMul(image,  dense/kernel)", "           [?,784] [512,10]", "              ^^^   ^^^"}));
}

TEST_F(NodeErrorTest, DimensionThatOneOfManyHas_IsMarkedAlone) {
  const Output a = Input("a", {2, 3}), b = Input("b", {2, 4}), c = Input("c", {7, 5});
  const Output axis = scope_.Const(Tensor::Scalar<int32_t>(1), "axis");
  const std::string refusal = Refusal({"joined", "ConcatV2", {a, b, c, axis}});
  EXPECT_THAT(refusal,
              HasSubstr(Lines({"", "    ConcatV2(a,    b,    c,    axis)", "             [2,3] [2,4] [7,5] [] = 1",
                               "                          ^         ^"})));
}

TEST_F(NodeErrorTest, WrongRank_MarksTheWholeShape) {
  const Output a = Input("a", {3}), b = Input("b", {3, 4});
  EXPECT_THAT(Refusal({"x", "MatMul", {a, b}}),
              HasSubstr(Lines({"", "    MatMul(a,  b)", "           [3] [3,4]", "           ^^^"})));
}

TEST_F(NodeErrorTest, TwoClashesAtOnce_AreBothMarked) {
  const Output image = Input("image", {kUnknownDim, 28, 28, 1}), kernel = Input("kernel", {40, 40, 1, 4});
  EXPECT_THAT(Refusal({"x",
                       "Conv2D",
                       {image, kernel},
                       {},
                       {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", std::string("VALID")}}}),
              HasSubstr(Lines({"", "    Conv2D(image,      kernel, strides=[1,1,1,1], padding='VALID')",
                               "           [?,28,28,1] [40,40,1,4]", "              ^^ ^^     ^^ ^^"})));
}

TEST_F(NodeErrorTest, ValueThatDoesNotFit_IsMarkedBehindItsShape) {
  const Output a = Input("a", {2, 3});
  const Output shape = scope_.Const(Tensor::Of<int32_t>({2}, {4, 2}), "to");
  EXPECT_THAT(Refusal({"x", "Reshape", {a, shape}}), HasSubstr("[2] = [4,2]"));
  EXPECT_THAT(Refusal({"y", "Reshape", {a, shape}}), HasSubstr("^^^^^"));
}

TEST_F(NodeErrorTest, TypesThatDiffer_AreMarked) {
  const Output a = Input("a", {2, 3}), n = Input("n", {2, 3}, DType::kInt32);
  EXPECT_EQ(
      Refusal({"sum", "AddV2", {a, n}}),
      Lines({"AddV2 'sum' (mlp.cc:12): input 1 ('y') is int32, but must be float32 as in attribute 'T' (inputs: 'a' "
             "float32[2,3], 'n' int32[2,3])",
             "    AddV2(a,           n)", "          float32[2,3] int32[2,3]", "          ^^^^^^^      ^^^^^"}));
}

TEST_F(NodeErrorTest, WrongNumberOfInputs_DrawsThoseThereAre) {
  const Output a = Input("a", {2, 3});
  EXPECT_THAT(Refusal({"x", "MatMul", {a}}),
              AllOf(HasSubstr("has 1 input, but takes 2 (a, b) (inputs: 'a' float32[2,3])"),
                    HasSubstr("\n    MatMul(a)\n           [2,3]")));
}

TEST_F(NodeErrorTest, AttributesThatMatter_StandInTheExpression) {
  const Output a = Input("a", {2, 3}), b = Input("b", {5, 4});
  EXPECT_THAT(Refusal({"x", "MatMul", {a, b}, {}, {{"transpose_b", true}}}),
              HasSubstr(Lines(
                  {"", "    MatMul(a,    b, transpose_b=true)", "           [2,3] [5,4]", "              ^     ^"})));
}

TEST_F(NodeErrorTest, OperandsThatWereComputed_SayFromWhatAndWhere) {
  const Output image = Input("image", {kUnknownDim, 28, 28});
  const Output shape = scope_.Const(Tensor::Of<int32_t>({2}, {-1, 784}));
  ASSERT_OK_AND_ASSIGN(Node * flat, graph_.AddNode({"flat", "Reshape", {image, shape}, {}, {}, "mlp.cc:9"}));
  ASSERT_OK_AND_ASSIGN(Node * hidden, graph_.AddNode({"hidden", "Relu", {flat->output()}, {}, {}, "mlp.cc:10"}));
  const Output kernel = Variable(scope_.SubScope("dense"), "kernel", {512, 10}, GlorotUniform());
  const std::string refusal = Refusal({"logits", "MatMul", {hidden->output(), kernel}});
  EXPECT_THAT(refusal, HasSubstr("\n    MatMul(hidden, dense/kernel)\n           [?,784] [512,10]"));
  EXPECT_THAT(refusal, HasSubstr("\n    hidden = Relu(flat: [?,784])  (mlp.cc:10)"));
  EXPECT_THAT(refusal, HasSubstr("\n    flat = Reshape(image: [?,28,28], [-1,784])  (mlp.cc:9)"));
  EXPECT_THAT(refusal, HasSubstr("\n    dense/kernel = variable"));
}

TEST_F(NodeErrorTest, UnknownRank_IsDrawnAsSuchAndNotMarked) {
  const Output a = Input("a", Shape::UnknownRank()), b = Input("b", {2}), c = Input("c", {3});
  EXPECT_THAT(Refusal({"x", "AddN", {a, b, c}}), HasSubstr("    AddN(a,    b,  c)\n         [...] [2] [3]\n"));
}

TEST_F(NodeErrorTest, Hundreds_OfOperandsAreDrawnInPart) {
  std::vector<Output> many;
  for (int i = 0; i < 300; ++i) many.push_back(Input(fmt::format("part{}", i), i == 250 ? Shape{3} : Shape{2}));
  const std::string refusal = Refusal({"sum", "AddN", many});
  EXPECT_THAT(refusal, HasSubstr("part250"));
  EXPECT_LT(refusal.size() - Sentence(refusal).size(), 2000u);
}

TEST_F(NodeErrorTest, InsideOfAFunction_TheCallStandsBeforeTheNode) {
  Graph body;
  Scope scope(body);
  Node* x = scope.AddNode("_Arg", {}, {{"T", DType::kFloat32}, {"index", int64_t{0}}}, "x");
  const Output kernel = scope.Const(Tensor(DType::kFloat32, {512, 10}), "kernel");
  const Output product = scope.Op("MatMul", {x->output(), kernel}, {}, "product");
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(auto dense, Function::Create("dense", std::move(body), {product}));
  ASSERT_OK(graph_.AddFunction(dense));
  const Output image = Input("image", {kUnknownDim, 784});
  const std::string refusal = Refusal({"call",
                                       "PartitionedCall",
                                       {image},
                                       {},
                                       {{"Tin", std::vector<DType>{DType::kFloat32}},
                                        {"Tout", std::vector<DType>{DType::kFloat32}},
                                        {"f", FunctionRef{"dense"}}}});
  EXPECT_THAT(refusal, ::testing::StartsWith("PartitionedCall 'call' (mlp.cc:12): "));
  EXPECT_THAT(std::string(Sentence(refusal)), HasSubstr("'dense': MatMul 'product' (node_error_test.cc:"));
  EXPECT_THAT(refusal, HasSubstr("\n    MatMul(x,      kernel)\n           [?,784] [512,10]\n              ^^^   ^^^"));
}

TEST_F(NodeErrorTest, AttributeThatNoInputTells_HasNoDrawing) {
  const Output a = Input("a", {2, 3});
  EXPECT_THAT(Refusal({"x", "Cast", {a}}), Not(HasSubstr("\n")));
}

// A value of the right kind for an attribute that has no default.
std::optional<AttrValue> AnyValue(const AttrDef& def) {
  using Kind = AttrDef::Kind;
  const size_t length = static_cast<size_t>(std::max<int64_t>(def.minimum.value_or(2), 1));
  switch (def.kind) {
    case Kind::kInt:
      return std::max<int64_t>(def.minimum.value_or(1), 1);
    case Kind::kFloat:
      return 1.0f;
    case Kind::kBool:
      return false;
    case Kind::kString:
      return def.allowed_strings.empty() ? std::string("x") : def.allowed_strings[0];
    case Kind::kType:
      return def.allowed_types.empty() ? DType::kFloat32 : def.allowed_types[0];
    case Kind::kShape:
      return Shape{2, 3};
    case Kind::kIntList:
      return std::vector<int64_t>(length, 1);
    case Kind::kFloatList:
      return std::vector<float>(length, 1.0f);
    default:
      return std::nullopt;
  }
}

// Inputs of wrong shapes for every op; every error of a shape function, whatever the op, names node and operands and is
// drawn.
TEST(NodeErrorCensus, EveryShapeError_NamesNodeAndOperandsAndIsDrawn) {
  std::mt19937 random(1);
  int drawn_ops = 0, marked_ops = 0;
  for (const OpDef* op : OpRegistry::Global().All()) {
    if (op->inputs.empty()) continue;
    bool drawn = false, marked = false;
    for (int attempt = 0; attempt < 40 && !marked; ++attempt) {
      Graph graph;
      NodeSpec spec{"census", op->name, {}, {}, {}, "census.cc:7"};
      for (const AttrDef& def : op->attrs)
        if (!def.default_value)
          if (auto value = AnyValue(def)) spec.attrs[def.name] = *value;
      for (const ArgDef& arg : op->inputs) {
        DType dtype = arg.dtype;
        if (!arg.type_attr.empty())
          if (const auto found = spec.attrs.find(arg.type_attr); found != spec.attrs.end())
            dtype = std::get<DType>(found->second);
        if (!arg.type_attr.empty() && dtype == DType::kInvalid) {
          const AttrDef* def = op->FindAttr(arg.type_attr);
          dtype = def->default_value ? std::get<DType>(*def->default_value) : DType::kFloat32;
        }
        if (!arg.type_list_attr.empty() || dtype == DType::kInvalid) dtype = DType::kFloat32;
        const int64_t copies = arg.number_attr.empty() || !spec.attrs.contains(arg.number_attr)
                                   ? 1
                                   : std::get<int64_t>(spec.attrs[arg.number_attr]);
        for (int64_t copy = 0; copy < copies; ++copy) {
          std::vector<int64_t> dims(random() % 6);
          for (int64_t& size : dims) size = 2 + static_cast<int64_t>(random() % 5);
          const auto input = graph.AddNode({fmt::format("input{}", spec.inputs.size()),
                                            "Placeholder",
                                            {},
                                            {},
                                            {{"dtype", dtype}, {"shape", Shape(dims)}}});
          if (!input.ok()) break;
          spec.inputs.push_back((*input)->output());
        }
      }
      const StatusOr<Node*> node = graph.AddNode(spec);
      if (node.ok()) continue;
      const std::string message(Message(node.status()));
      if (message.find("attribute") != std::string::npos || message.find("more than 2^40") != std::string::npos)
        continue;
      EXPECT_THAT(message, ::testing::StartsWith(op->name + " 'census' (census.cc:7): "));
      if (spec.inputs.empty()) continue;
      EXPECT_THAT(std::string(Sentence(message)), HasSubstr("(inputs: 'input0' ")) << message;
      EXPECT_THAT(message, HasSubstr(fmt::format("\n    {}(input0", op->name))) << message;
      drawn = true;
      marked = message.find("\n                ^") != std::string::npos || message.find(" ^") != std::string::npos;
    }
    drawn_ops += drawn;
    marked_ops += marked;
  }
  // Most ops with inputs refuse some shapes; element-wise ones of one input refuse none.
  EXPECT_GT(drawn_ops, 100);
  EXPECT_GT(marked_ops * 10, drawn_ops * 9)
      << "of the " << drawn_ops << " ops that refused, " << marked_ops << " said what clashes";
}

}  // namespace
}  // namespace rivulet
