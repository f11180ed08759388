// Exported ONNX models: imported again they give the same results, and also with onnxruntime (if a Python has
// it).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "engine/base/file_system.h"
#include "engine/base/philox.h"
#include "engine/graph/op.h"
#include "engine/models/layer_kinds.h"
#include "engine/onnx/export/exporter.h"
#include "engine/onnx/import.h"
#include "engine/presets/presets.h"
#include "proto/onnx/onnx.pb.h"
#include "tests/conformance/onnx/export_cases.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

namespace fs = std::filesystem;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

StatusOr<std::vector<Tensor>> RunImported(const onnx::OnnxModel& model, const OnnxExportCase& c) {
  onnx::NamedTensors feeds, variables;
  for (const onnx::OnnxValue& input : model.inputs)
    for (const auto& [name, tensor] : c.feeds)
      if (name == input.name) feeds.emplace_back(input.tensor, tensor);
  for (const onnx::OnnxWeight& weight : model.weights) variables.emplace_back(weight.variable, weight.value);
  std::vector<std::string> fetches;
  for (const onnx::OnnxValue& output : model.outputs) fetches.push_back(output.tensor);
  return onnx::RunOnce(model.graph, feeds, fetches, variables);
}

void ExpectSameResults(const OnnxExportCase& c, std::string_view bytes, const onnx::ImportOptions& options = {}) {
  const auto model = onnx::ImportOnnx(bytes, options);
  ASSERT_OK(model);
  const auto results = RunImported(*model, c);
  ASSERT_OK(results);
  ASSERT_EQ(results->size(), c.expected.size());
  for (size_t i = 0; i < results->size(); ++i)
    EXPECT_EQ(DifferenceOf((*results)[i], c.expected[i], c.tolerance), "") << c.options.outputs[i];
}

// What is written is read as the same variables: names, shapes and bits, in the same order.
void ExpectSameWeights(const OnnxExportCase& c, std::string_view bytes) {
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxModel model, onnx::ImportOnnx(bytes));
  EXPECT_EQ(model.weights.size(), c.options.weights.size());
  std::vector<std::string> names, order;
  for (const auto& node : c.graph.nodes())
    if (node->type() == "VarHandleOp") order.push_back(node->name());
  for (const onnx::OnnxWeight& weight : model.weights) {
    names.push_back(weight.variable);
    const auto own = c.options.weights.find(weight.variable);
    ASSERT_NE(own, c.options.weights.end()) << weight.variable;
    if (weight.variable.find("depthwise") != std::string::npos) continue;  // grouped in ONNX
    EXPECT_EQ(DifferenceOf(weight.value, own->second, 0), "") << weight.variable;
    const bool moving = weight.variable.find("moving_") != std::string::npos;
    EXPECT_EQ(weight.segment, moving ? "shared" : "trainable") << weight.variable;
  }
  EXPECT_EQ(names, order);
}

class ExportedPreset : public ::testing::TestWithParam<std::string> {};

TEST_P(ExportedPreset, ReadAgain_GivesTheSameResultsAndWeights) {
  ASSERT_OK_AND_ASSIGN(const OnnxExportCase c, PresetCase(GetParam()));
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxFile file, onnx::ExportOnnx(c.graph, c.options));
  ExpectSameResults(c, file.model);
  if (GetParam() != "mobilenet_v2") ExpectSameWeights(c, file.model);
}

INSTANTIATE_TEST_SUITE_P(Onnx, ExportedPreset, ::testing::ValuesIn(PresetNames()),
                         [](const auto& info) { return info.param; });

class ExportedLayers : public ::testing::TestWithParam<std::string> {};

TEST_P(ExportedLayers, ReadAgain_GivesTheSameResultsAndWeights) {
  ASSERT_OK_AND_ASSIGN(const OnnxExportCase c, LayerCase(GetParam()));
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxFile file, onnx::ExportOnnx(c.graph, c.options));
  ExpectSameResults(c, file.model);
  ExpectSameWeights(c, file.model);
}

INSTANTIATE_TEST_SUITE_P(Onnx, ExportedLayers, ::testing::ValuesIn(LayerCaseNames()),
                         [](const auto& info) { return info.param; });

class ExportedGraphs : public ::testing::TestWithParam<std::string> {};

TEST_P(ExportedGraphs, WrittenAndReadAgain_GivesTheSameResults) {
  ASSERT_OK_AND_ASSIGN(const OnnxExportCase c, GraphCase(GetParam()));
  const testing::TempFolder temp;
  // WriteOnnx reads what it wrote before there is a file.
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxFile file, onnx::WriteOnnx(c.graph, c.options, temp.File("model.onnx")));
  ExpectSameResults(c, file.model);
  onnx::proto::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(file.model));
  // An output without a name is left out, which few operators allow.
  for (const auto& node : model.graph().node())
    for (const std::string& output : node.output()) EXPECT_FALSE(output.empty()) << node.name();
}

INSTANTIATE_TEST_SUITE_P(Onnx, ExportedGraphs, ::testing::ValuesIn(GraphCaseNames()),
                         [](const auto& info) { return info.param; });

TEST(OnnxExport, EveryKindOfLayer_IsInAList) {
  const std::set<std::string> covered = LayerKindsInCases();
  for (const LayerKind& kind : LayerKinds()) EXPECT_TRUE(covered.contains(kind.name)) << kind.name;
}

// Every case of every op that has an exporter: written and read again it gives the op's own results, or it is refused
// with a reason.
TEST(OnnxExport, ReferenceCasesOfOps_SurviveTheRoundTrip) {
  const onnx::ExporterRegistry& registry = onnx::ExporterRegistry::Global();
  int equal = 0, refused = 0;
  std::set<std::string> covered;
  for (size_t i = 0; i < ReferenceCaseCount(); ++i) {
    const StatusOr<OnnxExportCase> c = ReferenceCase(i);
    if (!c.ok()) continue;
    const std::string op(c->graph.Find("y")->type());
    if (registry.Find(op) == nullptr) continue;
    SCOPED_TRACE(c->name);
    if (c->name.ends_with("Gelu_edges") || c->name.ends_with("Gelu_approximate_edges")) continue;  // of -inf: NaN
    const StatusOr<onnx::OnnxFile> file = onnx::ExportOnnx(c->graph, c->options);
    if (!file.ok()) {
      ++refused;
      EXPECT_TRUE(absl::IsUnimplemented(file.status()) || absl::IsFailedPrecondition(file.status()))
          << Message(file.status());
      continue;
    }
    const auto model = onnx::ImportOnnx(file->model);
    if (!model.ok()) {
      ADD_FAILURE() << Message(model.status());
      continue;
    }
    const auto results = RunImported(*model, *c);
    if (!results.ok()) {
      ADD_FAILURE() << Message(results.status());
      continue;
    }
    for (size_t k = 0; k < results->size(); ++k)
      EXPECT_EQ(DifferenceOf((*results)[k], c->expected[k], c->tolerance), "") << c->options.outputs[k];
    covered.insert(op);
    ++equal;
  }
  printf("conformance: onnx export: %d cases of %zu ops equal, %d refused\n", equal, covered.size(), refused);
  EXPECT_GE(equal, 1280);
  EXPECT_GE(covered.size(), 170u);
}

TEST(OnnxExport, Model_SaysOpsetProducerShapesAndTheSymbolicBatch) {
  ASSERT_OK_AND_ASSIGN(OnnxExportCase c, PresetCase("lenet5"));
  c.options.doc = "A test.";
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxFile file, onnx::ExportOnnx(c.graph, c.options));
  onnx::proto::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(file.model));
  EXPECT_EQ(model.opset_import(0).version(), onnx::kExportOpset);
  EXPECT_EQ(model.producer_name(), "rivulet");
  EXPECT_EQ(model.doc_string(), "A test.");
  const auto& input = model.graph().input(0).type().tensor_type().shape();
  EXPECT_EQ(input.dim(0).dim_param(), "N");
  EXPECT_EQ(input.dim(1).dim_value(), 28);
  const auto& output = model.graph().output(0).type().tensor_type().shape();
  EXPECT_EQ(output.dim(0).dim_param(), "N");
  EXPECT_EQ(output.dim(1).dim_value(), 10);
  int described = 0;
  for (const auto& info : model.graph().value_info()) {
    ++described;
    EXPECT_GE(info.type().tensor_type().shape().dim_size(), 2) << info.name();
    for (const auto& dim : info.type().tensor_type().shape().dim()) {
      EXPECT_TRUE(dim.has_dim_value() || dim.dim_param() == "N") << info.name();
    }
  }
  EXPECT_GE(described, 8);
}

// Two convolutions and two pools between one transpose at the beginning and one before the dense layers; each bias is
// its convolution's or product's.
TEST(OnnxExport, ConvolutionalNetwork_IsTransposedAtItsEndsOnly) {
  ASSERT_OK_AND_ASSIGN(const OnnxExportCase c, PresetCase("mnist_cnn"));
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxFile file, onnx::ExportOnnx(c.graph, c.options));
  onnx::proto::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(file.model));
  std::map<std::string, int> ops;
  for (const auto& node : model.graph().node()) ++ops[node.op_type()];
  EXPECT_EQ(ops["Transpose"], 2);
  EXPECT_EQ(ops["Conv"], 2);
  EXPECT_EQ(ops["Gemm"], 2);
  EXPECT_EQ(ops["Add"], 0);
}

TEST(OnnxExport, EveryExporter_StandsInTheDocumentation) {
  ASSERT_OK_AND_ASSIGN(const std::string page, FileSystem::Default().ReadAll(RIVULET_ONNX_DOC));
  const std::string part = page.substr(0, page.find("## In:"));
  for (const std::string& op : onnx::ExporterRegistry::Global().All())
    EXPECT_NE(part.find(fmt::format("`{}`", op)), std::string::npos) << op;
}

TEST(OnnxExport, OpWithoutForm_IsRefusedByNameWithWhatToDo) {
  OnnxExportCase c;
  const Scope scope(c.graph);
  scope.Op("Lgamma", {scope.Placeholder("x", DType::kFloat32, Shape{3})}, {}, "y");
  ASSERT_OK(scope.status());
  c.options.outputs = {"y"};
  EXPECT_THAT(onnx::ExportOnnx(c.graph, c.options),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("Lgamma 'y'")));
  EXPECT_THAT(onnx::ExportOnnx(c.graph, c.options), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("--output")));
}

TEST(OnnxExport, MissingOrMisshapenWeight_IsNamed) {
  ASSERT_OK_AND_ASSIGN(OnnxExportCase c, PresetCase("logistic_regression"));
  const std::string name = c.options.weights.begin()->first;
  c.options.weights[name] = Tensor(DType::kFloat32, Shape{3});
  EXPECT_THAT(onnx::ExportOnnx(c.graph, c.options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
  c.options.weights.erase(name);
  EXPECT_THAT(onnx::ExportOnnx(c.graph, c.options), StatusIs(absl::StatusCode::kNotFound, HasSubstr(name)));
}

TEST(OnnxExport, ExternalData_IsReadFromBesideTheModelAlone) {
  const testing::TempFolder temp;
  const std::string folder = temp.path(), path = temp.File("model.onnx");
  ASSERT_OK_AND_ASSIGN(OnnxExportCase c, PresetCase("mlp"));
  c.options.external_data = true;
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxFile file, onnx::WriteOnnx(c.graph, c.options, path));
  EXPECT_LT(file.model.size(), 8192u);
  EXPECT_EQ(file.data.size(), 3u);  // the biases are small
  ASSERT_OK_AND_ASSIGN(const std::string bytes, FileSystem::Default().ReadAll(path));
  onnx::ImportOptions options;
  options.folder = folder;
  ExpectSameResults(c, bytes, options);
  EXPECT_THAT(onnx::ImportOnnx(bytes), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("another file")));
  fs::resize_file(path + ".data", fs::file_size(path + ".data") - 1);
  EXPECT_THAT(onnx::ImportOnnx(bytes, options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("beyond")));
}

// A file of ours with bytes changed, put in and left out: read or refused, never more.
TEST(OnnxExport, MutatedFiles_AreReadOrRefused) {
  ASSERT_OK_AND_ASSIGN(const OnnxExportCase c, LayerCase("residual"));
  ASSERT_OK_AND_ASSIGN(const onnx::OnnxFile file, onnx::ExportOnnx(c.graph, c.options));
  uint64_t state = 88172645463325252;
  const auto draw = [&](uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
  };
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = file.model;
    for (uint64_t changes = 1 + draw(3); changes > 0; --changes) {
      const uint64_t at = draw(bytes.size());
      switch (draw(3)) {
        case 0:
          bytes[at] = static_cast<char>(draw(256));
          break;
        case 1:
          bytes.erase(at, 1 + draw(4));
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(draw(256)));
      }
    }
    const auto model = onnx::ImportOnnx(bytes);
    refused += model.ok() ? 0 : 1;
    if (!model.ok()) {
      EXPECT_FALSE(Message(model.status()).empty());
    }
  }
  EXPECT_GT(refused, 100);
}

// ---- onnxruntime
// ------------------------------------------------------------------------------------------------------

// A Python that can import `module`: RIVULET_PEER_PYTHON, or python3. "" where there is none.
std::string PeerPython(const std::string& module) {
  const char* named = std::getenv("RIVULET_PEER_PYTHON");
  for (const std::string& python : {std::string(named == nullptr ? "" : named), std::string("python3")})
    if (!python.empty() && std::system(fmt::format("'{}' -c 'import {}' 2>/dev/null", python, module).c_str()) == 0)
      return python;
  return "";
}

// The types that onnxruntime has kernels of every operator for.
bool IsCommon(const OnnxExportCase& c) {
  const auto common = [](const Tensor& tensor) {
    return tensor.dtype() == DType::kFloat32 || tensor.dtype() == DType::kInt32 || tensor.dtype() == DType::kInt64 ||
           tensor.dtype() == DType::kBool;
  };
  return std::ranges::all_of(c.expected, common) &&
         std::ranges::all_of(c.feeds, [&](const auto& feed) { return common(feed.second); });
}

// Presets, lists of layers, and the op cases, in a folder that RIVULET_ONNX_EXPORT names (kept), or a temporary one.
TEST(OnnxExport, ModelsInOnnxRuntime_GiveOurResults) {
  const std::string python = PeerPython("onnxruntime, onnx, numpy");
  if (python.empty()) GTEST_SKIP() << "no Python with onnxruntime: set RIVULET_PEER_PYTHON";
  const char* named = std::getenv("RIVULET_ONNX_EXPORT");
  const testing::TempFolder temp;
  const std::string folder = named == nullptr ? temp.path() : std::string(named);
  const auto write = [&](const StatusOr<OnnxExportCase>& c) {
    ASSERT_OK(c);
    const auto file = onnx::ExportOnnx(c->graph, c->options);
    ASSERT_OK(file) << c->name;
    ASSERT_OK(WriteCase(*c, file->model, folder));
  };
  for (const std::string& preset : PresetNames()) write(PresetCase(preset));
  for (const std::string& layers : LayerCaseNames()) write(LayerCase(layers));
  for (const std::string& graph : GraphCaseNames()) write(GraphCase(graph));
  for (size_t i = 0; i < ReferenceCaseCount(); ++i) {
    const StatusOr<OnnxExportCase> c = ReferenceCase(i);
    if (!c.ok() || !IsCommon(*c) || onnx::ExporterRegistry::Global().Find(c->graph.Find("y")->type()) == nullptr)
      continue;
    const auto file = onnx::ExportOnnx(c->graph, c->options);
    if (file.ok()) {
      ASSERT_OK(WriteCase(*c, file->model, folder));
    }
  }
  const std::string command = fmt::format("'{}' '{}' '{}'", python, RIVULET_ONNX_CHECK_EXPORT, folder);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

}  // namespace
}  // namespace rivulet
