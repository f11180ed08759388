#include "engine/graphdef/graph_def.h"

#include "dataflow/session/session.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/proto_conversion.h"
#include "engine/tensor/text.h"
#include "proto/graph/graph.pb.h"
#include "tests/engine/graphdef/tensor_message.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ParseTensor;
using ::rivulet::testing::SerializeTensor;
using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// TensorProto: each of TensorFlow's encodings.

proto::TensorProto Proto(proto::DataType dtype, std::vector<int64_t> dims) {
  proto::TensorProto proto;
  proto.set_dtype(dtype);
  for (int64_t dim : dims) proto.mutable_tensor_shape()->add_dim()->set_size(dim);
  return proto;
}

TEST(TensorProtoTest, Content_RoundTrips) {
  const Tensor tensor = Tensor::Of<float>(Shape{2, 2}, {1.5f, -2.0f, 0.0f, 3.25f});
  const StatusOr<Tensor> again = ParseTensor(SerializeTensor(tensor));
  EXPECT_THAT(Values<float>(again), ElementsAre(1.5f, -2.0f, 0.0f, 3.25f));
  EXPECT_EQ(again->shape(), (Shape{2, 2}));
}

TEST(TensorProtoTest, EveryType_RoundTrips) {
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kUint8, DType::kInt16, DType::kInt8, DType::kInt64,
        DType::kBool, DType::kBFloat16, DType::kUint16, DType::kFloat16, DType::kUint32, DType::kUint64}) {
    Tensor tensor(dtype, Shape{3});
    for (size_t i = 0; i < tensor.bytes(); ++i)
      tensor.data()[i] = std::byte{dtype == DType::kBool ? uint8_t(1) : uint8_t(i)};
    const StatusOr<Tensor> again = ParseTensor(SerializeTensor(tensor));
    ASSERT_OK(again);
    EXPECT_EQ(again->dtype(), dtype);
    EXPECT_EQ(std::memcmp(again->data(), tensor.data(), tensor.bytes()), 0) << Name(dtype);
  }
}

TEST(TensorProtoTest, TypedValues_RepeatTheLast) {
  proto::TensorProto proto = Proto(proto::DT_FLOAT, {4});
  proto.add_float_val(7);
  proto.add_float_val(8);
  EXPECT_THAT(Values<float>(ParseTensor(proto.SerializeAsString())), ElementsAre(7, 8, 8, 8));
}

TEST(TensorProtoTest, TypedFieldOfEachType_IsRead) {
  proto::TensorProto d = Proto(proto::DT_DOUBLE, {1});
  d.add_double_val(0.5);
  EXPECT_THAT(Values<double>(ParseTensor(d.SerializeAsString())), ElementsAre(0.5));
  proto::TensorProto i8 = Proto(proto::DT_INT8, {2});
  i8.add_int_val(-3);
  EXPECT_THAT(Values<int8_t>(ParseTensor(i8.SerializeAsString())), ElementsAre(-3, -3));
  proto::TensorProto i64 = Proto(proto::DT_INT64, {1});
  i64.add_int64_val(int64_t{1} << 40);
  EXPECT_THAT(Values<int64_t>(ParseTensor(i64.SerializeAsString())), ElementsAre(int64_t{1} << 40));
  proto::TensorProto b = Proto(proto::DT_BOOL, {2});
  b.add_bool_val(true);
  b.add_bool_val(false);
  EXPECT_THAT(Values<bool>(ParseTensor(b.SerializeAsString())), ElementsAre(true, false));
  proto::TensorProto half = Proto(proto::DT_HALF, {1});
  half.add_half_val(0x3C00);  // 1.0
  const StatusOr<Tensor> one = ParseTensor(half.SerializeAsString());
  ASSERT_OK(one);
  EXPECT_EQ(*reinterpret_cast<const uint16_t*>(one->data()), 0x3C00);
  proto::TensorProto u64 = Proto(proto::DT_UINT64, {1});
  u64.add_uint64_val(UINT64_MAX);
  EXPECT_THAT(Values<uint64_t>(ParseTensor(u64.SerializeAsString())), ElementsAre(UINT64_MAX));
}

TEST(TensorProtoTest, NoValuesAtAll_AreZeros) {
  EXPECT_THAT(Values<int32_t>(ParseTensor(Proto(proto::DT_INT32, {2}).SerializeAsString())), ElementsAre(0, 0));
}

TEST(TensorProtoTest, EmptyTensor_HasNoValues) {
  EXPECT_THAT(Values<float>(ParseTensor(Proto(proto::DT_FLOAT, {0, 5}).SerializeAsString())), ElementsAre());
}

TEST(TensorProtoTest, BoolContentBeyondOne_IsNormalised) {
  proto::TensorProto proto = Proto(proto::DT_BOOL, {2});
  proto.set_tensor_content(std::string("\x02\x00", 2));
  const StatusOr<Tensor> tensor = ParseTensor(proto.SerializeAsString());
  ASSERT_OK(tensor);
  EXPECT_EQ(tensor->data()[0], std::byte{1});
}

TEST(TensorProtoTest, ContentOfAnotherLength_IsRefused) {
  proto::TensorProto proto = Proto(proto::DT_FLOAT, {2});
  proto.set_tensor_content("abcdefg");
  EXPECT_THAT(ParseTensor(proto.SerializeAsString()),
              StatusIs(kInvalid, "a float32 tensor of shape [2] has 8 bytes, but its content has 7"));
}

TEST(TensorProtoTest, TooManyValues_AreRefused) {
  proto::TensorProto proto = Proto(proto::DT_FLOAT, {2});
  for (int i = 0; i < 3; ++i) proto.add_float_val(1);
  EXPECT_THAT(ParseTensor(proto.SerializeAsString()), StatusIs(kInvalid, "a tensor of shape [2] holds 3 values"));
}

TEST(TensorProtoTest, ShapeThatOverflows_IsRefused) {
  EXPECT_THAT(ParseTensor(Proto(proto::DT_FLOAT, {int64_t{1} << 40, int64_t{1} << 40}).SerializeAsString()),
              StatusIs(kInvalid, HasSubstr("more than 2^40 elements")));
}

TEST(TensorProtoTest, FewBytesThatAskForMuchMemory_AreRefused) {
  EXPECT_THAT(ParseTensor(Proto(proto::DT_FLOAT, {int64_t{1} << 39}).SerializeAsString()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("would be filled with")));
}

TEST(TensorProtoTest, UnknownDimension_IsRefused) {
  EXPECT_THAT(ParseTensor(Proto(proto::DT_FLOAT, {-1}).SerializeAsString()),
              StatusIs(kInvalid, "the shape [?] is not fully known"));
  EXPECT_THAT(ParseTensor(Proto(proto::DT_FLOAT, {-2}).SerializeAsString()),
              StatusIs(kInvalid, "a shape has the impossible dimension -2"));
}

TEST(TensorProtoTest, Strings_TravelAsTexts) {
  proto::TensorProto proto = Proto(proto::DT_STRING, {3});
  proto.add_string_val("label");
  proto.add_string_val("\xff\0byte");
  const auto tensor = ParseTensor(proto.SerializeAsString());
  ASSERT_OK(tensor);
  EXPECT_THAT(TextsOf(*tensor), ::testing::ElementsAre("label", "\xff", "\xff"));
  proto::TensorProto written;
  ToProto(*tensor, &written);
  EXPECT_THAT(written.string_val(), ::testing::ElementsAre("label", "\xff", "\xff"));
  EXPECT_TRUE(written.tensor_content().empty());
}

TEST(TensorProtoTest, UnknownTypesAndTextsOfOnePiece_AreRefused) {
  proto::TensorProto piece = Proto(proto::DT_STRING, {1});
  piece.set_tensor_content("abcdefgh");
  EXPECT_THAT(ParseTensor(piece.SerializeAsString()), StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(ParseTensor(Proto(proto::DT_COMPLEX64, {1}).SerializeAsString()),
              StatusIs(kInvalid, "8 is not the number of a supported data type"));
}

// GraphDef.

TEST(GraphDefTest, Serialized_IsCanonicalAndRoundTrips) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 3});
  Node* first = scope.AddNode("NoOp", {}, {}, "first");
  const Output y = scope.WithControl({first}).Op("Neg", {x}, {{"_note", std::vector<int64_t>{1, 2}}}, "y");
  const std::string bytes = SerializeGraph(graph);
  EXPECT_EQ(bytes, SerializeGraph(graph.Clone()));
  ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(bytes));
  ASSERT_NE(again.Find("y"), nullptr);
  EXPECT_EQ(again.Find("y")->output().shape(), y.shape());
  EXPECT_THAT(again.Find("y")->attr<std::vector<int64_t>>("_note"), ElementsAre(1, 2));
  EXPECT_THAT(again.Find("y")->control_inputs(), ElementsAre(again.Find("first")));
  EXPECT_TRUE(SerializeGraph(again) == bytes);
}

TEST(GraphDefTest, NodesInAnyOrder_AreBuiltInputsFirst) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraphText(R"(
      node { name: 'y' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }
      node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } })"));
  EXPECT_EQ(graph.nodes()[0]->name(), "x");
  EXPECT_FALSE(graph.Find("y")->output().shape().known_rank());
}

TEST(GraphDefTest, Roots_LeaveTheRestUnread) {
  GraphImport import;
  import.roots = {"y:0"};
  ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraphText(R"(
      node { name: 'save' op: 'SaveV2' input: 'nowhere' }
      node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }
      node { name: 'y' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }
      library { function { signature { name: 'unused' } } })",
                                                         import));
  EXPECT_EQ(graph.nodes().size(), 2u);
}

TEST(GraphDefTest, TextThatNestsDeeperThanBytesMay_IsRefused) {
  std::string text = "node { name: 'x' op: 'NoOp' ", end = "}";
  for (int i = 0; i < 20000; ++i) text += "attr { key: 'f' value { func { name: 'g' ", end += "} } }";
  EXPECT_THAT(ParseGraphText(text + end), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the text is no GraphDef")));
}

// tf.io.write_graph(..., as_text=True) of TensorFlow 2.8 and later writes these.
TEST(GraphDefTest, TextWithTypesOfNewerTensorFlow_IsRead) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraphText(R"(
      node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }
        experimental_type { type_id: TFT_PRODUCT args { type_id: TFT_TENSOR args { type_id: TFT_FLOAT } } } }
      node { name: 'y' op: 'PartitionedCall' input: 'x' attr { key: 'Tin' value { list { type: DT_FLOAT } } }
        attr { key: 'Tout' value { list { type: DT_FLOAT } } } attr { key: 'f' value { func { name: 'negate' } } }
        experimental_type { type_id: TFT_PRODUCT args { type_id: TFT_UNSET } } }
      library { function {
        signature { name: 'negate' is_distributed_communication: false
          input_arg { name: 'a' type: DT_FLOAT handle_data { dtype: DT_FLOAT shape { dim { size: -1 } } } }
          output_arg { name: 'b' type: DT_FLOAT experimental_full_type { type_id: TFT_TENSOR } } }
        node_def { name: 'Neg' op: 'Neg' input: 'a' attr { key: 'T' value { type: DT_FLOAT } }
          experimental_type { type_id: TFT_PRODUCT } }
        ret { key: 'b' value: 'Neg:y:0' } } }
      versions { producer: 2000 } debug_info { files: 'train.py' })"));
  EXPECT_EQ(graph.nodes().size(), 2u);
  EXPECT_EQ(graph.Find("y")->type(), "PartitionedCall");
  std::string deep = "node { name: 'x' op: 'NoOp' experimental_type { ", end = "} }";
  for (int i = 0; i < 20000; ++i) deep += "args { ", end += "}";
  EXPECT_THAT(ParseGraphText(deep + end), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the text is no GraphDef")));
  EXPECT_THAT(ParseGraphText("node { name: 'x' op: 'NoOp' experimental_typo { type_id: 3 } }"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("experimental_typo")));
}

TEST(GraphDefTest, RootThatIsNot_NamesTheNearest) {
  GraphImport import;
  import.roots = {"los"};
  EXPECT_THAT(ParseGraphText("node { name: 'loss' op: 'NoOp' }", import),
              StatusIs(absl::StatusCode::kNotFound, "the graph has no node 'los'. Did you mean 'loss'?"));
}

TEST(GraphDefTest, NoGraphDef_IsDataLoss) {
  EXPECT_THAT(ParseGraph("PK\x03\x04 no graph at all"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("are no GraphDef")));
  EXPECT_THAT(ParseGraphText("node { nome: 'x' }"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the text is no GraphDef; line 1, column 12")));
}

TEST(GraphDefTest, EveryTruncationOfAGraph_IsAnErrorOrAGraph) {
  Graph graph;
  const Scope scope(graph);
  scope.Op("Neg", {scope.Const(Tensor::Of<float>(Shape{2}, {1.0f, 2.0f}))});
  const std::string bytes = SerializeGraph(graph);
  for (size_t length = 0; length < bytes.size(); ++length) {
    const StatusOr<Graph> parsed = ParseGraph(std::string_view(bytes).substr(0, length));
    // Only the version behind the last node may be missing unnoticed.
    EXPECT_TRUE(!parsed.ok() || parsed->nodes().size() < graph.nodes().size() || SerializeGraph(*parsed) == bytes)
        << length;
  }
}

TEST(GraphDefTest, EveryFlippedByteOfAGraph_IsAnErrorOrAGraph) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 4});
  const Output w = scope.Const(Tensor(DType::kFloat32, Shape{4, 2}));
  scope.Op("Mean", {scope.Op("MatMul", {x, w}), scope.Const(Tensor::Of<int32_t>(Shape{1}, {0}))});
  const std::string bytes = SerializeGraph(graph);
  int refused = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int flip : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      refused += ParseGraph(damaged).ok() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(GraphDefTest, BytesOrNodesBeyondTheLimit_AreRefused) {
  GraphImport import;
  import.limits.bytes = 3;
  EXPECT_THAT(ParseGraph("abcd", import),
              StatusIs(absl::StatusCode::kResourceExhausted, "the graph has 4 bytes, more than 3"));
  import = {};
  import.limits.nodes = 1;
  EXPECT_THAT(ParseGraphText("node { name: 'a' op: 'NoOp' } node { name: 'b' op: 'NoOp' }", import),
              StatusIs(absl::StatusCode::kResourceExhausted, "the graph has 2 nodes, more than 1"));
}

TEST(GraphDefTest, ConstantsFilledBeyondTheLimitTogether_AreRefused) {
  GraphImport import;
  import.limits.filled_bytes = 10'000;
  const std::string big = R"(op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } }
      attr { key: 'value' value { tensor { dtype: DT_FLOAT float_val: 1 tensor_shape { dim { size: 1500 } } } } })";
  EXPECT_OK(ParseGraphText("node { name: 'a' " + big + "}", import));
  EXPECT_THAT(ParseGraphText("node { name: 'a' " + big + "} node { name: 'b' " + big + "}", import),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("Const 'b': attribute 'value': a float32 tensor of shape [1500] would be filled")));
}

// Version-1 variables.

constexpr char kVersion1[] = R"(
    node { name: 'w' op: 'VariableV2' attr { key: 'dtype' value { type: DT_FLOAT } }
           attr { key: 'shape' value { shape { dim { size: 2 } } } }
           attr { key: 'shared_name' value { s: '' } } attr { key: 'container' value { s: '' } } }
    node { name: 'w/initial' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } }
           attr { key: 'value' value { tensor { dtype: DT_FLOAT float_val: 3 tensor_shape { dim { size: 2 } } } } } }
    node { name: 'w/Assign' op: 'Assign' input: 'w' input: 'w/initial' attr { key: 'T' value { type: DT_FLOAT } }
           attr { key: 'use_locking' value { b: true } } attr { key: 'validate_shape' value { b: true } }
           attr { key: '_class' value { list { s: 'loc:@w' } } } }
    node { name: 'w/read' op: 'Identity' input: 'w' attr { key: 'T' value { type: DT_FLOAT } } }
    node { name: 'direct' op: 'Neg' input: 'w' attr { key: 'T' value { type: DT_FLOAT } } }
    node { name: 'after' op: 'Neg' input: 'w/Assign' attr { key: 'T' value { type: DT_FLOAT } } }
    node { name: 'add' op: 'AssignAdd' input: 'w' input: 'w/initial' attr { key: 'T' value { type: DT_FLOAT } } }
    node { name: 'init' op: 'NoOp' input: '^w/Assign' })";

TEST(Version1VariablesTest, AreRaisedToResources) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraphText(kVersion1));
  EXPECT_EQ(graph.Find("w")->type(), "VarHandleOp");
  EXPECT_EQ(graph.Find("w")->attr<std::string>("shared_name"), "w");
  EXPECT_EQ(graph.Find("w/read")->type(), "ReadVariableOp");
  EXPECT_EQ(graph.Find("w/Assign")->type(), "AssignVariableOp");
  EXPECT_EQ(graph.Find("direct")->input(0).node->type(), "ReadVariableOp");
  // A use of the assignment's result waits for the assignment.
  Node* read = graph.Find("after")->input(0).node;
  EXPECT_EQ(read->type(), "ReadVariableOp");
  EXPECT_THAT(read->control_inputs(), ElementsAre(graph.Find("w/Assign")));
}

TEST(Version1VariablesTest, RunAsTensorFlowRunsThem) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraphText(kVersion1));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  EXPECT_THAT(session->Run({}, {"direct"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the variable 'w' is read before")));
  ASSERT_OK(session->Run({}, {}, {"init"}));
  ASSERT_OK(session->Run({}, {}, {"add"}));
  ASSERT_OK_AND_ASSIGN(const auto values, session->Run({}, {"w/read", "direct"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(6, 6));
  EXPECT_THAT(Values<float>(values[1]), ElementsAre(-6, -6));
}

TEST(Version1VariablesTest, AssignmentToNoVariable_IsRefused) {
  EXPECT_THAT(ParseGraphText(std::string(kVersion1) + R"(
      node { name: 'bad' op: 'Assign' input: 'w/initial' input: 'w/initial' attr { key: 'T' value { type: DT_FLOAT } } })"),
              StatusIs(kInvalid, "Assign 'bad': its first input is no variable"));
}

}  // namespace
}  // namespace rivulet
