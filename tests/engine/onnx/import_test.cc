#include "engine/onnx/import.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/file_system.h"
#include "engine/gradients/gradients.h"
#include "engine/graphdef/graph_def.h"
#include "engine/io/safetensors.h"
#include "engine/onnx/model_files.h"
#include "engine/onnx/run.h"
#include "tests/engine/onnx/text_model.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::onnx {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Floats;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::TextModel;

StatusOr<OnnxModel> Import(const proto::ModelProto& model, const ImportOptions& options = {}) {
  return ImportOnnx(model.SerializeAsString(), options);
}
StatusOr<OnnxModel> Import(const std::string& graph) { return Import(TextModel(graph)); }

// y = x · w, x [?,2], w [2,1] = (2, 3).
const char kLinear[] =
    "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_param: 'n' } dim { dim_value: 2 } } } } } "
    "output { name: 'y' } initializer { name: 'w' data_type: 1 dims: 2 dims: 1 float_data: 2 float_data: 3 } "
    "node { op_type: 'MatMul' name: 'product' input: 'x' input: 'w' output: 'y' }";

StatusOr<Tensor> Predict(const OnnxModel& model, const Tensor& x) {
  NamedTensors variables;
  for (const OnnxWeight& weight : model.weights) variables.emplace_back(weight.variable, weight.value);
  RIVULET_ASSIGN_OR_RETURN(auto values,
                           RunOnce(model.graph, {{model.inputs[0].tensor, x}}, {model.outputs[0].tensor}, variables));
  return values[0];
}

TEST(OnnxImport, Initializers_AreVariablesAndTheBatchStaysOpen) {
  ASSERT_OK_AND_ASSIGN(const OnnxModel model, Import(kLinear));
  ASSERT_EQ(model.weights.size(), 1u);
  EXPECT_EQ(model.weights[0].variable, "w");
  EXPECT_EQ(model.weights[0].segment, "trainable");
  EXPECT_EQ(model.inputs[0].spec.shape.ToString(), "[?,2]");
  for (int64_t rows : {1, 3}) {
    const Tensor x(DType::kFloat32, Shape{rows, 2});
    ASSERT_OK_AND_ASSIGN(const Tensor y, Predict(model, x));
    EXPECT_EQ(y.shape().ToString(), fmt::format("[{},1]", rows));
  }
}

TEST(OnnxImport, NodesInAnyOrder_AreTheSameModel) {
  const std::string ends = "input { " + Floats("x", {2}) + " } output { name: 'y' } ";
  const std::string neg = "node { op_type: 'Neg' name: 'a' input: 'x' output: 'h' } ",
                    exp = "node { op_type: 'Exp' name: 'b' input: 'h' output: 'k' } ",
                    add = "node { op_type: 'Add' name: 'c' input: 'k' input: 'h' output: 'y' } ";
  ASSERT_OK_AND_ASSIGN(const OnnxModel in_order, Import(ends + neg + exp + add));
  for (const std::string& nodes : {add + exp + neg, exp + add + neg, neg + add + exp}) {
    ASSERT_OK_AND_ASSIGN(const OnnxModel model, Import(ends + nodes));
    const Tensor x = Tensor::Of<float>({2}, {1, -2});
    ASSERT_OK_AND_ASSIGN(const auto values, RunOnce(model.graph, {{"x", x}}, {model.outputs[0].tensor}, {}));
    ASSERT_OK_AND_ASSIGN(const auto expected, RunOnce(in_order.graph, {{"x", x}}, {in_order.outputs[0].tensor}, {}));
    EXPECT_EQ(values[0].flat<float>()[1], expected[0].flat<float>()[1]);
  }
}

TEST(OnnxImport, NodesInACycle_AreRefused) {
  EXPECT_THAT(Import("input { " + Floats("x", {2}) + " } output { name: 'y' } " +
                     "node { op_type: 'Add' input: 'x' input: 'h' output: 'y' } "
                     "node { op_type: 'Neg' input: 'y' output: 'h' }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("in a cycle")));
}

TEST(OnnxImport, WrittenFiles_PredictTheSame) {
  ASSERT_OK_AND_ASSIGN(const OnnxModel model, Import(kLinear));
  const Tensor x = Tensor::Of<float>({1, 2}, {5, 7});
  ASSERT_OK_AND_ASSIGN(const Tensor expected, Predict(model, x));
  EXPECT_EQ(expected.flat<float>()[0], 31.0f);

  const testing::TempFolder folder;
  ASSERT_OK(WriteModelFiles(model, folder.path()));
  ASSERT_OK_AND_ASSIGN(const std::string graph_bytes, FileSystem::Default().ReadAll(folder.File("graph.pb")));
  ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(graph_bytes));
  ASSERT_OK_AND_ASSIGN(const std::string bytes, FileSystem::Default().ReadAll(folder.File("model.safetensors")));
  ASSERT_OK_AND_ASSIGN(const SafetensorsContent weights, ParseSafetensors(bytes));
  EXPECT_EQ(weights.metadata.at("onnx.output.y"), "y");
  NamedTensors variables;
  for (const SafetensorsEntry& entry : weights.tensors) {
    Tensor value(entry.dtype, entry.shape);
    std::memcpy(value.data(), entry.data.data(), entry.data.size());
    variables.emplace_back(entry.name, value);
  }
  ASSERT_OK_AND_ASSIGN(const auto values, RunOnce(graph, {{"x", x}}, {"y"}, variables));
  EXPECT_EQ(values[0].flat<float>()[0], 31.0f);
}

TEST(OnnxImport, ImportedModel_CanBeTrained) {
  ASSERT_OK_AND_ASSIGN(OnnxModel model, Import(kLinear));
  Scope scope(model.graph);
  ASSERT_OK_AND_ASSIGN(const Output y, model.graph.FindOutput("y"));
  const Output loss = scope.Op("L2Loss", {y}, {}, "loss");
  ASSERT_OK_AND_ASSIGN(const Output handle, model.graph.FindOutput("w"));
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(model.graph, loss, std::vector{handle}));
  ASSERT_OK_AND_ASSIGN(const auto values, RunOnce(model.graph, {{"x", Tensor::Of<float>({1, 2}, {5, 7})}},
                                                  {gradients[0].name()}, {{"w", model.weights[0].value}}));
  EXPECT_EQ(values[0].flat<float>()[0], 31.0f * 5);
  EXPECT_EQ(values[0].flat<float>()[1], 31.0f * 7);
}

// A convolution, a pool, a product and a log-softmax: along each weight the loss falls as its gradient says.
TEST(OnnxImport, GradientsOfAnImportedNetwork_AreItsSlopes) {
  ASSERT_OK_AND_ASSIGN(const std::string bytes,
                       FileSystem::Default().ReadAll(RIVULET_ONNX_CASES "/small_network/model.onnx"));
  ASSERT_OK_AND_ASSIGN(OnnxModel model, ImportOnnx(bytes));
  Scope scope(model.graph);
  ASSERT_OK_AND_ASSIGN(const Output y, model.graph.FindOutput(model.outputs[0].tensor));
  const Output loss = scope.Op("L2Loss", {y}, {}, "loss");
  std::vector<Output> handles;
  for (const OnnxWeight& weight : model.weights) {
    ASSERT_OK_AND_ASSIGN(const Output handle, model.graph.FindOutput(weight.variable));
    handles.push_back(handle);
  }
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(model.graph, loss, handles));
  Tensor x(DType::kFloat32, Shape{2, 1, 6, 6});
  for (size_t i = 0; i < 72; ++i) x.flat<float>()[i] = static_cast<float>(static_cast<int>(i * 7 % 13) - 6) / 5;
  const auto run = [&](const std::string& fetch, size_t moved, float by) -> StatusOr<Tensor> {
    NamedTensors variables;
    for (size_t w = 0; w < model.weights.size(); ++w) {
      const Tensor& value = model.weights[w].value;
      Tensor copy(value.dtype(), value.shape());
      std::memcpy(copy.data(), value.data(), value.bytes());
      if (w == moved) copy.flat<float>()[0] += by;
      variables.emplace_back(model.weights[w].variable, copy);
    }
    RIVULET_ASSIGN_OR_RETURN(auto values, RunOnce(model.graph, {{"x", x}}, {fetch}, variables));
    return values[0];
  };
  for (size_t w = 0; w < model.weights.size(); ++w) {
    constexpr float kStep = 1e-2f;
    ASSERT_OK_AND_ASSIGN(const Tensor gradient, run(gradients[w].name(), w, 0));
    ASSERT_OK_AND_ASSIGN(const Tensor up, run("loss", w, kStep));
    ASSERT_OK_AND_ASSIGN(const Tensor down, run("loss", w, -kStep));
    const float slope = (up.flat<float>()[0] - down.flat<float>()[0]) / (2 * kStep);
    EXPECT_NEAR(gradient.flat<float>()[0], slope, 0.02f * std::abs(slope) + 0.02f) << model.weights[w].name;
    EXPECT_NE(gradient.flat<float>()[0], 0) << model.weights[w].name;
  }
}

TEST(OnnxImport, InputOfAnAbsurdShape_IsRefused) {
  EXPECT_THAT(Import("input { " + Floats("x", {2000000000, 2000000000}) +
                     " } output { name: 'y' } node { op_type: 'Neg' input: 'x' output: 'y' }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x' has more than 2^40")));
}

TEST(OnnxImport, RunningStatistics_AreSharedAndNotTrained) {
  const std::string vector = " data_type: 1 dims: 1 float_data: 1 } ";
  ASSERT_OK_AND_ASSIGN(
      const OnnxModel model,
      Import("input { " + Floats("x", {1, 1, 2, 2}) + " } output { name: 'y' } initializer { name: 's'" + vector +
             "initializer { name: 'b'" + vector + "initializer { name: 'm'" + vector + "initializer { name: 'v'" +
             vector + "node { op_type: 'BatchNormalization' input: ['x', 's', 'b', 'm', 'v'] output: 'y' }"));
  ASSERT_EQ(model.weights.size(), 4u);
  EXPECT_EQ(model.weights[1].segment, "trainable");
  EXPECT_EQ(model.weights[2].segment, "shared");
  EXPECT_EQ(model.weights[3].segment, "shared");
}

TEST(OnnxImport, NamesThatAGraphMayNotHave_AreReplaced) {
  ASSERT_OK_AND_ASSIGN(const OnnxModel model,
                       Import("input { " + Floats("/in:0 (a)", {2}) +
                              " } output { name: '::' } "
                              "node { op_type: 'Neg' name: '@' input: '/in:0 (a)' output: '::' }"));
  EXPECT_EQ(model.inputs[0].name, "/in:0 (a)");
  EXPECT_EQ(model.inputs[0].tensor, "in_0__a_");
  ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(SerializeGraph(model.graph)));
  EXPECT_NE(again.Find(model.outputs[0].tensor), nullptr);
}

TEST(OnnxImport, MissingOperator_IsNamedWithNodeAndOpset) {
  EXPECT_THAT(Import("input { " + Floats("x", {2}) +
                     " } output { name: 'y' } "
                     "node { op_type: 'Cosinus' name: 'c1' input: 'x' output: 'y' }"),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("Cosinus 'c1' (opset 17)"), HasSubstr("not supported"))));
}

TEST(OnnxImport, ControlFlow_IsRefusedByName) {
  EXPECT_THAT(Import("output { name: 'y' } node { op_type: 'Loop' name: 'loop' output: 'y' attribute { name: "
                     "'body' type: GRAPH g { } } }"),
              StatusIs(absl::StatusCode::kUnimplemented, AllOf(HasSubstr("Loop 'loop'"), HasSubstr("control flow"))));
}

// A branch on `condition`: y = -x or |x|.
std::string Branches(const std::string& condition) {
  const auto branch = [](const std::string& name, const std::string& op) {
    return "attribute { name: '" + name + "' type: GRAPH g { output { name: '" + name + "_y' } node { op_type: '" + op +
           "' input: 'x' output: '" + name + "_y' } } } ";
  };
  return "input { " + Floats("x", {-1, 2}) + " } output { name: 'y' } " + condition +
         "node { op_type: 'If' name: 'branch' input: 'c' output: 'y' " + branch("then_branch", "Neg") +
         branch("else_branch", "Abs") + "}";
}

TEST(OnnxImport, BranchWhoseConditionIsKnown_IsChosen) {
  const std::string sizes =
      "node { op_type: 'Shape' input: 'x' output: 's' } initializer { name: 'i' data_type: 7 "
      "int64_data: 1 } node { op_type: 'Gather' input: 's' input: 'i' output: 'width' } "
      "initializer { name: 'two' data_type: 7 int64_data: ";
  for (const bool then : {true, false}) {
    const std::string equal =
        sizes + (then ? "2" : "3") + " } node { op_type: 'Equal' input: 'width' input: 'two' output: 'c' } ";
    ASSERT_OK_AND_ASSIGN(const OnnxModel model, Import(Branches(equal)));
    ASSERT_OK_AND_ASSIGN(const Tensor y, Predict(model, Tensor::Of<float>({1, 2}, {1, -2})));
    EXPECT_EQ(y.flat<float>()[0], then ? -1 : 1);
  }
}

TEST(OnnxImport, BranchWhoseConditionIsFed_IsRefusedByTheInput) {
  EXPECT_THAT(Import(Branches("input { name: 'c' type { tensor_type { elem_type: 9 shape { } } } } ")),
              StatusIs(absl::StatusCode::kUnimplemented, AllOf(HasSubstr("If 'branch'"), HasSubstr("the input 'c'"))));
}

TEST(OnnxImport, SequenceOfKnownLength_IsItsTensors) {
  const std::string graph = "input { " + Floats("x", {-1, 4}) +
                            " } output { name: 'y' } initializer { name: 'sizes' data_type: 7 dims: 2 " +
                            "int64_data: 1 int64_data: 3 } initializer { name: 'last' data_type: 7 int64_data: -1 } " +
                            "node { op_type: 'SplitToSequence' input: 'x' input: 'sizes' output: 'list' attribute { "
                            "name: 'axis' i: 1 type: INT } } " +
                            "node { op_type: 'SequenceAt' input: 'list' input: 'last' output: 'y' }";
  ASSERT_OK_AND_ASSIGN(const OnnxModel model, Import(graph));
  EXPECT_EQ(model.outputs[0].spec.shape.ToString(), "[?,3]");
  ASSERT_OK_AND_ASSIGN(const Tensor y, Predict(model, Tensor::Of<float>({1, 4}, {1, 2, 3, 4})));
  EXPECT_EQ(y.flat<float>()[0], 2);
}

TEST(OnnxImport, ReshapeOfAnOpenBatch_KnowsTheOtherSizes) {
  // x.view(x.size(0), -1) behind an operator, and [batch, 2, rest] with a rest that is a quotient.
  const std::string graph = "input { " + Floats("x", {-1, 3, 4}) +
                            " } output { name: 'y' } node { op_type: 'Relu' input: 'x' output: 'h' } " +
                            "node { op_type: 'Shape' input: 'h' output: 's' } initializer { name: 'zero' data_type: 7 "
                            "dims: 1 int64_data: 0 } " +
                            "node { op_type: 'Gather' input: 's' input: 'zero' output: 'batch' } " +
                            "initializer { name: 'rest' data_type: 7 dims: 2 int64_data: 2 int64_data: -1 } " +
                            "node { op_type: 'Concat' input: 'batch' input: 'rest' output: 'sizes' attribute { name: "
                            "'axis' i: 0 type: INT } } " +
                            "node { op_type: 'Reshape' input: 'h' input: 'sizes' output: 'y' }";
  ASSERT_OK_AND_ASSIGN(const OnnxModel model, Import(graph));
  EXPECT_EQ(model.outputs[0].spec.shape.ToString(), "[?,2,6]");
  for (int64_t batch : {1, 3}) {
    ASSERT_OK_AND_ASSIGN(const Tensor y, Predict(model, Tensor(DType::kFloat32, Shape{batch, 3, 4})));
    EXPECT_EQ(y.shape(), (Shape{batch, 2, 6}));
  }
}

std::map<std::string, std::string> Roles(const OnnxModel& model) {
  std::map<std::string, std::string> roles;
  for (const OnnxInitializer& initializer : model.initializers) roles[initializer.name] = initializer.role;
  return roles;
}

// y = where(c, relu(x) + bias, table) · scale: only what stands at a weight's place is one.
const std::string kRoles =
    "input { " + Floats("x", {-1, 2}) + " } output { name: 'y' } " +
    "initializer { name: 'bias' data_type: 1 dims: 2 float_data: 1 float_data: 2 } " +
    "initializer { name: 'table' data_type: 1 dims: 2 float_data: 3 float_data: 4 } " +
    "initializer { name: 'onnx::Mul_7' data_type: 1 dims: 2 float_data: 5 float_data: 6 } " +
    "initializer { name: 'c' data_type: 9 dims: 2 int32_data: 1 int32_data: 0 } " +
    "node { op_type: 'Add' name: 'sum' input: 'x' input: 'bias' output: 'h' } " +
    "node { op_type: 'Where' name: 'choice' input: 'c' input: 'h' input: 'table' output: 'k' } " +
    "node { op_type: 'Mul' name: 'scaled' input: 'k' input: 'onnx::Mul_7' output: 'y' }";

TEST(OnnxImport, InitializersAtAWeightsPlace_AreVariables) {
  ASSERT_OK_AND_ASSIGN(const OnnxModel model, Import(kRoles));
  EXPECT_EQ(Roles(model), (std::map<std::string, std::string>{
                              {"bias", "weight"}, {"table", "constant"}, {"onnx::Mul_7", "constant"}}));
  ASSERT_EQ(model.weights.size(), 1u);
  EXPECT_EQ(model.initializers[0].why, "input 1 of Add 'sum'");
  EXPECT_EQ(model.initializers[1].why, "input 2 of Where 'choice' is no weight's place");
}

TEST(OnnxImport, PatternsOverruleTheRole_AndMustMatch) {
  ImportOptions options;
  options.trainable = {"onnx::*"};
  ASSERT_OK_AND_ASSIGN(const OnnxModel model, Import(TextModel(kRoles), options));
  EXPECT_EQ(Roles(model)["onnx::Mul_7"], "weight");
  options.trainable = {"tabel"};
  EXPECT_THAT(Import(TextModel(kRoles), options),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("'tabel'"), HasSubstr("'table'"))));
}

TEST(OnnxImport, NamedParameters_DecideAloneAndMayBeNumbers) {
  const std::string number =
      " initializer { name: 'factor' data_type: 1 float_data: 2 } output { name: 'z' } "
      "node { op_type: 'Mul' input: 'y' input: 'factor' output: 'z' }";
  const auto model = [&](const std::string& names) {
    return TextModel(
        kRoles + number,
        "opset_import { version: 17 } metadata_props { key: 'rivulet.parameters' value: '" + names + "' }");
  };
  ASSERT_OK_AND_ASSIGN(const OnnxModel imported, Import(model("[\"table\",\"factor\"]")));
  std::vector<std::string> names;
  for (const OnnxWeight& weight : imported.weights) names.push_back(weight.name);
  EXPECT_THAT(names, ElementsAre("table", "factor"));
  EXPECT_THAT(Import(model("table")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("metadata 'rivulet.parameters'")));
}

// A language model whose head is its embedding's transpose, folded at the export.
TEST(OnnxImport, TransposedCopyOfAWeight_IsTied) {
  const auto model = [](const std::string& last) {
    return "input { name: 'ids' type { tensor_type { elem_type: 7 shape { dim { dim_param: 'n' } } } } } output { "
           "name: "
           "'y' } initializer { name: 'table' data_type: 1 dims: 3 dims: 2 float_data: 1 float_data: 2 float_data: 3 "
           "float_data: 4 float_data: 5 float_data: 6 } initializer { name: 'onnx::MatMul_9' data_type: 1 dims: 2 "
           "dims: 3 "
           "float_data: 1 float_data: 3 float_data: 5 float_data: 2 float_data: 4 float_data: " +
           last +
           " } node { op_type: 'Gather' input: 'table' input: 'ids' output: 'h' } node { op_type: 'MatMul' name: "
           "'head' "
           "input: 'h' input: 'onnx::MatMul_9' output: 'y' }";
  };
  ASSERT_OK_AND_ASSIGN(const OnnxModel tied, Import(model("6")));
  ASSERT_EQ(tied.weights.size(), 1u);
  EXPECT_EQ(tied.weights[0].name, "table");
  EXPECT_EQ(tied.initializers[1].why, "'table' transposed, tied");
  ASSERT_OK_AND_ASSIGN(const auto values, RunOnce(tied.graph, {{"ids", Tensor::Of<int64_t>({1}, {2})}},
                                                  {tied.outputs[0].tensor}, {{"table", tied.weights[0].value}}));
  EXPECT_EQ(values[0].flat<float>()[0], 5 * 1 + 6 * 2);
  ASSERT_OK_AND_ASSIGN(const OnnxModel apart, Import(model("7")));
  EXPECT_EQ(apart.weights.size(), 2u);
}

// Two layers whose scales are equal: the exporter writes one, and the other's name by an Identity.
TEST(OnnxImport, MergedParameters_ArePartedWhereTheyAreNew) {
  const auto model = [](const std::string& first, const std::string& second) {
    return "input { " + Floats("x", {-1, 2}) +
           " } output { name: 'y' } initializer { name: 'a.weight' data_type: 1 dims: 2 "
           "float_data: " +
           first + " float_data: " + second +
           " } node { op_type: 'Identity' input: 'a.weight' output: "
           "'b.weight' } node { op_type: 'Mul' input: 'x' input: 'a.weight' output: 'h' } "
           "node { op_type: 'Mul' input: 'h' input: 'b.weight' output: 'y' }";
  };
  ASSERT_OK_AND_ASSIGN(const OnnxModel fresh, Import(model("1", "1")));
  EXPECT_EQ(fresh.weights.size(), 2u);
  ASSERT_OK_AND_ASSIGN(const OnnxModel tied, Import(model("1", "2")));
  EXPECT_EQ(tied.weights.size(), 1u);
}

TEST(OnnxImport, InputThatNoNodeMakes_IsAnErrorNamingTheNode) {
  EXPECT_THAT(Import("output { name: 'a' } node { op_type: 'Neg' name: 'n1' input: 'b' output: 'a' }"),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("Neg 'n1'"), HasSubstr("'b'"))));
}

TEST(OnnxImport, ValueMadeTwice_IsAnError) {
  EXPECT_THAT(Import("input { " + Floats("x", {2}) +
                     " } output { name: 'y' } node { op_type: 'Neg' input: 'x' output: "
                     "'y' } node { op_type: 'Abs' input: 'x' output: 'y' }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'y' is made twice")));
}

TEST(OnnxImport, OutputThatNoNodeMakes_IsAnError) {
  EXPECT_THAT(Import("output { name: 'y' }"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'y'")));
  EXPECT_THAT(Import(""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no outputs")));
}

TEST(OnnxImport, AttributeOfAnotherKind_IsAnError) {
  EXPECT_THAT(Import("input { " + Floats("x", {2}) +
                     " } output { name: 'y' } node { op_type: 'Elu' input: 'x' output: "
                     "'y' attribute { name: 'alpha' type: INT i: 1 } }"),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("'alpha'"), HasSubstr("FLOAT"))));
}

TEST(OnnxImport, NewerOpset_IsRefused) {
  EXPECT_THAT(Import(TextModel("output { name: 'y' }", "opset_import { version: 1000 }")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("opset 1000")));
}

TEST(OnnxImport, BytesOfSomethingElse_AreDataLoss) {
  EXPECT_THAT(ImportOnnx("\xff\xff no model"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no ModelProto")));
  EXPECT_THAT(ImportOnnx(""), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no ModelProto")));
}

TEST(OnnxImport, FunctionThatCallsItself_IsRefused) {
  const auto model = TextModel("input { " + Floats("x", {2}) +
                                   " } output { name: 'y' } node { op_type: 'F' domain: 'd' input: 'x' output: 'y' }",
                               "opset_import { version: 17 } opset_import { domain: 'd' version: 1 } functions { name: "
                               "'F' domain: 'd' input: 'a' output: 'b' opset_import { version: 17 } opset_import { "
                               "domain: 'd' version: 1 } node { op_type: 'F' domain: 'd' input: 'a' output: 'b' } }");
  EXPECT_THAT(Import(model), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("16 deep")));
}

TEST(OnnxImport, ShapeThatAnInputDecides_NamesTheInputAndIsMendedByItsValue) {
  const auto model = TextModel("input { " + Floats("x", {2, 3}) +
                               " } input { name: 's' type { tensor_type { elem_type: 7 shape { dim { dim_value: 1 } } "
                               "} } } output { name: 'y' } "
                               "node { op_type: 'Reshape' name: 'r' input: 'x' input: 's' output: 'y' }");
  std::set<std::string> needed;
  EXPECT_THAT(ImportOnnx(model.SerializeAsString(), {}, &needed),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the input 's'")));
  EXPECT_THAT(needed, ElementsAre("s"));
  ImportOptions options;
  options.constants["s"] = Tensor::Of<int64_t>({1}, {6});
  ASSERT_OK_AND_ASSIGN(const OnnxModel imported, Import(model, options));
  EXPECT_EQ(imported.outputs[0].spec.shape.ToString(), "[6]");
}

TEST(OnnxImport, ShapeOfAnUnknownInput_NamesTheNearest) {
  ImportOptions options;
  options.shapes["imag"] = Shape{1};
  EXPECT_THAT(Import(TextModel("input { " + Floats("image", {2}) +
                               " } output { name: 'y' } node { op_type: 'Neg' input: 'image' output: 'y' }"),
                     options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("Did you mean 'image'?")));
}

}  // namespace
}  // namespace rivulet::onnx
