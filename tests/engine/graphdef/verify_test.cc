// Graphs from outside: each fault is one sentence that names the node.
#include "engine/graphdef/verify.h"

#include "engine/graphdef/graph_def.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kRefused = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

std::string NodeText(std::string_view name, std::string_view op, std::vector<std::string> inputs = {},
                     std::string_view attrs = "") {
  std::string text = fmt::format("node {{ name: '{}' op: '{}' ", name, op);
  for (const std::string& input : inputs) text += fmt::format("input: '{}' ", input);
  return text + std::string(attrs) + " }\n";
}
constexpr char kFloat[] = "attr { key: 'T' value { type: DT_FLOAT } }";
constexpr char kX[] = "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }\n";

TEST(VerifyTest, Cycle_IsNamedNodeByNodeInTheDirectionOfData) {
  EXPECT_THAT(ParseGraphText(kX + NodeText("a", "AddV2", {"x", "c"}, kFloat) + NodeText("b", "Neg", {"a"}, kFloat) +
                             NodeText("c", "Neg", {"b"}, kFloat) + NodeText("behind", "Neg", {"c"}, kFloat)),
              StatusIs(kRefused, "the graph has a cycle: 'a' -> 'b' -> 'c' -> 'a'; a graph runs forward only"));
}

TEST(VerifyTest, NodeThatFeedsItself_IsACycle) {
  EXPECT_THAT(ParseGraphText(NodeText("a", "Neg", {"a"}, kFloat)), StatusIs(kRefused, HasSubstr("cycle: 'a' -> 'a'")));
  EXPECT_THAT(ParseGraphText(NodeText("a", "NoOp", {"^a"})), StatusIs(kRefused, HasSubstr("cycle: 'a' -> 'a'")));
}

TEST(VerifyTest, LongCycle_IsAbridged) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += NodeText(fmt::format("n{}", i), "NoOp", {fmt::format("^n{}", (i + 19) % 20)});
  EXPECT_THAT(ParseGraphText(text), StatusIs(kRefused, HasSubstr("'n7' -> 12 more -> 'n0'")));
}

TEST(VerifyTest, CountNodes_OfBytesAndOfDamagedOnes) {
  proto::GraphDef graph;
  graph.mutable_versions()->set_producer(440);
  for (int i = 0; i < 1000; ++i) graph.add_node()->set_name(fmt::format("n{}", i));
  graph.mutable_library()->add_function()->add_node_def();
  const std::string bytes = graph.SerializeAsString();
  EXPECT_EQ(CountNodes(bytes), 1000u);
  EXPECT_EQ(CountNodes(""), 0u);
  EXPECT_LT(CountNodes(bytes.substr(0, bytes.size() / 2)), 1000u);
  EXPECT_EQ(CountNodes("\x0b"), 0u);  // a group without an end
  GraphImport options;
  options.limits.nodes = 999;
  EXPECT_THAT(ParseGraph(bytes, options),
              StatusIs(absl::StatusCode::kResourceExhausted, "the graph has 1000 nodes, more than 999"));
}

TEST(VerifyTest, DeepChain_NeedsNoStack) {
  std::string text = kX;
  std::string before = "x";
  for (int i = 0; i < 20000; ++i) {
    const std::string name = fmt::format("n{}", i);
    text += NodeText(name, "Neg", {before}, kFloat);
    before = name;
  }
  EXPECT_OK(ParseGraphText(text));
}

TEST(VerifyTest, MissingInput_NamesNodeInputAndTheNearest) {
  EXPECT_THAT(ParseGraphText(NodeText("hidden", "NoOp") + NodeText("y", "Neg", {"hiden:0"}, kFloat)),
              StatusIs(kNotFound, "Neg 'y': its input 'hiden:0' is not in the graph. Did you mean 'hidden'?"));
  EXPECT_THAT(ParseGraphText(NodeText("y", "NoOp", {"^gone"})), StatusIs(kNotFound, HasSubstr("its input '^gone'")));
}

TEST(VerifyTest, DuplicateName_NamesBothPlaces) {
  EXPECT_THAT(ParseGraphText(NodeText("a", "NoOp") + NodeText("b", "NoOp") + NodeText("a", "NoOp")),
              StatusIs(kRefused, "NoOp 'a': nodes 0 and 2 have this same name"));
}

TEST(VerifyTest, InvalidName_IsShownWithoutControlCharacters) {
  EXPECT_THAT(
      ParseGraphText("node { name: 'a\\n\\033[2J' op: 'NoOp' }"),
      StatusIs(kRefused, AllOf(HasSubstr("node 0 (NoOp) has the invalid name 'a??[2J'"), Not(HasSubstr("\n")))));
  EXPECT_THAT(ParseGraphText("node { op: 'NoOp' }"), StatusIs(kRefused, HasSubstr("has the invalid name ''")));
}

TEST(VerifyTest, MalformedInput_IsRefused) {
  for (const char* input : {"", "^", "x:", "x:-1", "x:one", ":0", "^x:0", "x:0:0", "x:99999999999"})
    EXPECT_THAT(ParseGraphText(kX + NodeText("y", "Neg", {input}, kFloat)),
                StatusIs(kRefused, HasSubstr("is malformed")))
        << input;
}

TEST(VerifyTest, DataInputAfterControlInput_IsRefused) {
  EXPECT_THAT(ParseGraphText(kX + NodeText("y", "Neg", {"^x", "x"}, kFloat)),
              StatusIs(kRefused, "Neg 'y': the data input 'x' follows a control input"));
}

TEST(VerifyTest, PortThatIsNot_IsRefused) {
  EXPECT_THAT(ParseGraphText(kX + NodeText("y", "Neg", {"x:1"}, kFloat)),
              StatusIs(absl::StatusCode::kOutOfRange, "Neg 'y': input 0 is output 1 of 'x', which has 1"));
}

TEST(VerifyTest, UnknownOp_NamesTheNearest) {
  EXPECT_THAT(ParseGraphText(NodeText("y", "Rellu")),
              StatusIs(kNotFound, "node 'y': there is no op 'Rellu'. Did you mean 'Relu'?"));
}

TEST(VerifyTest, ControlFlowThatCannotBeRaised_IsRefusedByName) {
  EXPECT_THAT(ParseGraphText(NodeText("y", "Switch")),
              StatusIs(kUnimplemented, HasSubstr("Switch 'y': its outputs reach no Merge")));
  EXPECT_THAT(ParseGraphText(NodeText("y", "Merge")),
              StatusIs(kUnimplemented, HasSubstr("Merge 'y' merges 0 tensors")));
  EXPECT_THAT(ParseGraphText(NodeText("y", "Enter")), StatusIs(kRefused, HasSubstr("has no LoopCond")));
}

TEST(VerifyTest, OpThatOpensFiles_IsRefusedByName) {
  EXPECT_THAT(ParseGraphText(NodeText("y", "TFRecordDataset")),
              StatusIs(kRefused, HasSubstr("TFRecordDataset 'y': opens files by path; a graph may only read data "
                                           "bound by its caller: BoundDataset")));
}

TEST(VerifyTest, AttributeOfAnotherKind_NamesBoth) {
  EXPECT_THAT(ParseGraphText(kX + NodeText("y", "Neg", {"x"}, "attr { key: 'T' value { i: 1 } }")),
              StatusIs(kRefused, "Neg 'y': attribute 'T': must hold a type, but holds an int"));
  EXPECT_THAT(ParseGraphText(NodeText("c", "Const", {}, "attr { key: 'value' value { s: 'x' } }")),
              StatusIs(kRefused, "Const 'c': attribute 'value': must hold a tensor, but holds a string"));
  EXPECT_THAT(ParseGraphText(kX + NodeText("y", "Neg", {"x"}, "attr { key: 'T' value { placeholder: 'T' } }")),
              StatusIs(kRefused, HasSubstr("must hold a type, but holds a placeholder")));
}

TEST(VerifyTest, ListOfMixedKinds_IsRefused) {
  EXPECT_THAT(
      ParseGraphText(NodeText("p", "MaxPool", {}, "attr { key: 'ksize' value { list { i: 1 f: 2 } } }")),
      StatusIs(kRefused, HasSubstr("attribute 'ksize': must hold a list of ints, but its list has elements of")));
}

TEST(VerifyTest, UnknownTypeNumber_IsRefused) {
  EXPECT_THAT(ParseGraphText(NodeText("x", "Placeholder", {}, "attr { key: 'dtype' value { type: DT_COMPLEX64 } }")),
              StatusIs(kRefused, "Placeholder 'x': attribute 'dtype': 8 is not the number of a supported data type"));
}

TEST(VerifyTest, UnknownAttributeThatMeansSomething_IsRefused) {
  EXPECT_THAT(ParseGraphText(kX + NodeText("y", "Neg", {"x"}, "attr { key: 'sparse' value { b: true } }")),
              StatusIs(kUnimplemented, HasSubstr("Neg 'y': attribute 'sparse' has a meaning that is not known here")));
}

TEST(VerifyTest, UnknownAttributeThatMeansNothing_IsDropped) {
  EXPECT_OK(ParseGraphText(kX + NodeText("y", "Neg", {"x"}, "attr { key: 'sparse' value { b: false } }")));
}

TEST(VerifyTest, ImpossibleShapes_AreRefused) {
  const auto placeholder = [](std::string_view shape) {
    return NodeText("x", "Placeholder", {},
                    fmt::format("attr {{ key: 'dtype' value {{ type: DT_FLOAT }} }} "
                                "attr {{ key: 'shape' value {{ shape {{ {} }} }} }}",
                                shape));
  };
  EXPECT_THAT(ParseGraphText(placeholder("dim { size: -5 }")),
              StatusIs(kRefused, "Placeholder 'x': attribute 'shape': a shape has the impossible dimension -5"));
  EXPECT_THAT(ParseGraphText(placeholder("dim { size: 4294967296 } dim { size: 4294967296 }")),
              StatusIs(kRefused, HasSubstr("the shape [4294967296,4294967296] has more than 2^40 elements")));
  EXPECT_THAT(ParseGraphText(placeholder("dim { size: 9223372036854775807 } dim { size: -1 } dim { size: 3 }")),
              StatusIs(kRefused, HasSubstr("more than 2^40 elements")));
  EXPECT_THAT(ParseGraphText(placeholder("unknown_rank: true dim { size: 1 }")),
              StatusIs(kRefused, HasSubstr("a shape of unknown rank has 1 dimensions")));
  std::string dims;
  for (int i = 0; i < 255; ++i) dims += "dim { size: 1 } ";
  EXPECT_THAT(ParseGraphText(placeholder(dims)), StatusIs(kRefused, HasSubstr("a shape has 255 dimensions")));
}

TEST(VerifyTest, ConstWhoseTypeDisagreesWithItsValue_IsRefused) {
  EXPECT_THAT(ParseGraphText(NodeText("c", "Const", {}, R"(attr { key: 'dtype' value { type: DT_INT32 } }
                attr { key: 'value' value { tensor { dtype: DT_FLOAT float_val: 1 tensor_shape {} } } })")),
              StatusIs(kRefused, HasSubstr("Const 'c': the value is float32, but attribute 'dtype' is int32")));
}

TEST(VerifyTest, TooManyInputs_AreRefused) {
  GraphImport import;
  import.limits.inputs_per_node = 2;
  EXPECT_THAT(ParseGraphText(kX + NodeText("y", "AddN", {"x", "x", "x"}), import),
              StatusIs(absl::StatusCode::kResourceExhausted, "AddN 'y': has 3 inputs, more than 2"));
}

TEST(VerifyTest, ShapesThatClash_NameTheNode) {
  const std::string tail = R"(attr { key: 'dtype' value { type: DT_FLOAT } }
      attr { key: 'shape' value { shape { dim { size: 2 } dim { size: 3 } } } })";
  EXPECT_THAT(ParseGraphText(NodeText("a", "Placeholder", {}, tail) + NodeText("y", "MatMul", {"a", "a"}, kFloat)),
              StatusIs(kRefused, AllOf(HasSubstr("MatMul 'y': "), HasSubstr("'a' float32[2,3]"))));
}

}  // namespace
}  // namespace rivulet
