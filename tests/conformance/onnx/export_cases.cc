#include "tests/conformance/onnx/export_cases.h"

#include <cmath>
#include <cstring>

#include "dataflow/session/session.h"
#include "engine/base/file_system.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/models/layer_kinds.h"
#include "engine/models/layer_list.h"
#include "engine/onnx/export/model_writer.h"
#include "engine/presets/presets.h"
#include "tests/testing/reference_json.h"

namespace rivulet {
namespace {

// Numbers in [low, high) that repeat after 997.
void Fill(Tensor& tensor, float low, float high, int seed) {
  int i = 0;
  for (float& value : tensor.flat<float>())
    value = low + (high - low) * static_cast<float>((i++ * 379 + seed * 131) % 997) / 997.0f;
}

StatusOr<OnnxExportCase> FromModel(const std::string& name, ModelDef model) {
  OnnxExportCase c;
  c.name = name;
  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(model.graph.Clone(), {.seed = 5}));
  RIVULET_RETURN_IF_ERROR(session->Run({}, {}, {model.init_target}).status());
  int seed = 0;
  for (const ModelVariable& variable : model.variables) {
    RIVULET_ASSIGN_OR_RETURN(Tensor value, session->GetVariable(variable.name));
    // First values of these are zeros and ones, with which a wrong order would not be seen.
    const bool plain =
        variable.name.ends_with("bias") || variable.name.ends_with("beta") || variable.name.ends_with("moving_mean");
    if (plain) Fill(value, -0.5f, 0.5f, ++seed);
    if (variable.name.ends_with("gamma") || variable.name.ends_with("moving_variance")) Fill(value, 0.5f, 1.5f, ++seed);
    RIVULET_RETURN_IF_ERROR(session->SetVariable(variable.name, value));
    c.options.weights.emplace(variable.name, std::move(value));
  }
  Shape shape = model.input.spec.shape;
  shape.set_dim(0, 3);
  Tensor input(model.input.spec.dtype, shape);
  if (input.dtype() == DType::kInt64) {
    for (size_t i = 0; i < input.flat<int64_t>().size(); ++i)
      input.flat<int64_t>()[i] = static_cast<int64_t>(i * 31 % 7 + i % 5);
  } else {
    Fill(input, 0, 1, 1);
  }
  c.feeds = {{model.input.placeholder, input}};
  c.options.outputs = {"logits"};
  c.options.graph_name = name;
  RIVULET_ASSIGN_OR_RETURN(c.expected, session->Run(c.feeds, c.options.outputs));
  c.graph = std::move(model.graph);
  return c;
}

LayerSpec Layer(const char* type, LayerSpec more = {}) {
  more["type"] = std::string(type);
  return more;
}

using Sizes = std::vector<int64_t>;
std::string S(const char* text) { return text; }

struct LayerModel {
  std::string name;
  ClassifierOptions options;
  std::vector<LayerSpec> layers;
};

std::vector<LayerModel> LayerModels() {
  const LayerSpec flatten = Layer("flatten"), dense = Layer("dense", {{"units", int64_t{5}}});
  ClassifierOptions image;
  image.input = {12, 10, 3};
  ClassifierOptions text;
  text.input = {7};
  text.encoding = FeatureEncoding::kInt64;
  const LayerSpec embedding = Layer("embedding", {{"vocabulary", int64_t{20}}, {"units", int64_t{6}}});
  std::vector<LayerModel> models;
  models.push_back(
      {"images",
       image,
       {Layer("zero_pad", {{"amount", Sizes{1, 2}}}),
        Layer("conv2d", {{"filters", int64_t{8}}, {"size", Sizes{3}}, {"padding", S("same")}, {"stride", Sizes{2}}}),
        Layer("instance_norm"), Layer("batch_norm"), Layer("activation", {{"function", S("relu6")}}),
        Layer("depthwise_conv2d", {{"size", Sizes{3}}, {"multiplier", int64_t{2}}, {"padding", S("same")}}),
        Layer("group_norm", {{"groups", int64_t{4}}}), Layer("activation", {{"function", S("gelu")}}),
        Layer("max_pool", {{"size", Sizes{2}}, {"padding", S("same")}}),
        Layer("conv2d_transpose",
              {{"filters", int64_t{4}}, {"size", Sizes{3}}, {"stride", Sizes{2}}, {"padding", S("same")}}),
        Layer("activation", {{"function", S("swish")}}), Layer("avg_pool", {{"size", Sizes{2}}}), flatten,
        Layer("dropout", {{"rate", 0.5}}), Layer("layer_norm"), dense}});
  models.push_back(
      {"residual",
       image,
       {Layer("conv2d", {{"name", S("a")}, {"filters", int64_t{4}}, {"size", Sizes{3}}, {"padding", S("same")}}),
        Layer("conv2d", {{"name", S("b")},
                         {"filters", int64_t{4}},
                         {"size", Sizes{5}},
                         {"padding", S("same")},
                         {"activation", S("elu")}}),
        Layer("add", {{"name", S("c")}, {"with", S("a")}, {"activation", S("relu")}}),
        Layer("concat", {{"with", S("a")}}), Layer("global_avg_pool"), dense}});
  models.push_back(
      {"maximum",
       image,
       {Layer("conv2d", {{"filters", int64_t{6}}, {"size", Sizes{3}}, {"groups", int64_t{3}}, {"dilation", Sizes{2}}}),
        Layer("global_max_pool"), Layer("batch_norm"), Layer("reshape", {{"shape", Sizes{2, 3}}}), flatten,
        Layer("activation", {{"function", S("mish")}}), dense}});
  models.push_back({"sequence",
                    text,
                    {embedding, Layer("positions"), Layer("self_attention", {{"heads", int64_t{2}}, {"causal", true}}),
                     Layer("conv1d", {{"filters", int64_t{8}}, {"size", Sizes{3}}, {"padding", S("same")}}),
                     Layer("transformer", {{"heads", int64_t{2}}, {"hidden", int64_t{12}}}),
                     Layer("gru", {{"units", int64_t{5}}, {"direction", S("bidirectional")}, {"sequences", true}}),
                     Layer("simple_rnn", {{"units", int64_t{4}}, {"direction", S("reverse")}, {"sequences", true}}),
                     Layer("lstm", {{"units", int64_t{6}}, {"recurrent_activation", S("hard_sigmoid")}}), dense}});
  models.push_back({"lengths",
                    text,
                    {embedding, Layer("max_pool", {{"size", Sizes{2}}}), Layer("avg_pool", {{"size", Sizes{2}}}),
                     Layer("lstm", {{"units", int64_t{4}},
                                    {"direction", S("bidirectional")},
                                    {"activation", S("softsign")},
                                    {"sequences", true}}),
                     Layer("gru", {{"units", int64_t{3}}, {"reset_after", false}}), dense}});
  return models;
}

const testing::Json& References() {
  static const testing::Json cases = testing::ReferenceCases(RIVULET_REFERENCE_FOLDER);
  return cases;
}

}  // namespace

StatusOr<OnnxExportCase> PresetCase(const std::string& preset) {
  RIVULET_ASSIGN_OR_RETURN(ModelDef model, Preset(preset));
  return FromModel(preset, std::move(model));
}

std::vector<std::string> LayerCaseNames() {
  std::vector<std::string> names;
  for (const LayerModel& model : LayerModels()) names.push_back(model.name);
  return names;
}

std::set<std::string> LayerKindsInCases() {
  std::set<std::string> kinds;
  for (const LayerModel& model : LayerModels())
    for (const LayerSpec& layer : model.layers) kinds.insert(std::get<std::string>(layer.at("type")));
  return kinds;
}

StatusOr<OnnxExportCase> LayerCase(const std::string& name) {
  for (const LayerModel& layers : LayerModels()) {
    if (layers.name != name) continue;
    RIVULET_ASSIGN_OR_RETURN(ModelDef model, ModelFromLayers(layers.options, layers.layers));
    return FromModel("layers_" + name, std::move(model));
  }
  return NotFound("no list of layers '{}'", name);
}

size_t ReferenceCaseCount() { return References().size(); }
std::string ReferenceCaseName(size_t index) { return References()[index]["name"].get<std::string>(); }

StatusOr<OnnxExportCase> ReferenceCase(size_t index) {
  const testing::Json& entry = References()[index];
  OnnxExportCase c;
  c.name = ReferenceCaseName(index);
  std::vector<Tensor> inputs;
  bool floating = false;
  for (const testing::Json& input : entry["inputs"]) {
    inputs.push_back(testing::TensorOf(input));
    floating = floating || IsFloating(inputs.back().dtype());
  }
  Scope scope(c.graph);
  std::vector<Output> values;
  size_t i = 0;
  for (const Tensor& tensor : inputs) {
    const bool fed = floating ? IsFloating(tensor.dtype()) : !entry["inputs"][i].contains("constant");
    const std::string name = fmt::format("x{}", i++);
    values.push_back(fed && tensor.elements() > 0 ? scope.Placeholder(name, tensor.dtype(), tensor.shape())
                                                  : scope.Const(tensor, name));
    if (fed && tensor.elements() > 0) c.feeds.emplace_back(name, tensor);
  }
  if (c.feeds.empty()) return NotFound("nothing to feed");
  const Node* node = scope.AddNode(entry["op"].get<std::string>(), values, testing::AttrsOf(entry["attrs"]), "y");
  RIVULET_RETURN_IF_ERROR(scope.status());
  std::set<size_t> any;
  if (entry.contains("any")) any = entry["any"].get<std::set<size_t>>();
  // What else an op gives is for its backward pass, where it gives the sequence, the image and their like first.
  const bool several =
      node->type() == "Split" || node->type() == "SplitV" || node->type() == "Unpack" || node->type() == "TopKV2";
  for (size_t port = 0; port < (several ? node->outputs().size() : 1); ++port)
    if (!any.contains(port))
      c.options.outputs.push_back(const_cast<Node*>(node)->output(static_cast<int>(port)).name());
  if (c.options.outputs.empty()) return NotFound("no value to compare");
  RIVULET_ASSIGN_OR_RETURN(c.expected, onnx::RunOnce(c.graph, c.feeds, c.options.outputs));
  const DType dtype = c.expected[0].dtype();
  if (dtype == DType::kFloat16) c.tolerance = 0x1p-9;
  if (dtype == DType::kBFloat16) c.tolerance = 0x1p-6;
  return c;
}

namespace {

struct GraphModel {
  std::string name;
  Shape input;                                              // whose batch is open in the graph
  void (*build)(const Scope& scope, Output x, Output one);  // makes "y"
};

const std::vector<GraphModel>& GraphModels() {
  using Sizes = std::vector<int64_t>;
  static const std::vector<GraphModel> kModels = {
      {"axis_as_a_number",
       {3, 4},
       [](const Scope& s, Output x, Output one) {
         s.Op("AddV2", {s.Op("Sum", {x, one}), s.Op("Max", {x, one})}, {}, "y");
       }},
      {"any_and_all",
       {3, 4},
       [](const Scope& s, Output x, Output one) {
         const Output positive = s.Op("Greater", {x, s.Const(0.4f)});
         s.Op("LogicalOr", {s.Op("All", {positive, one}), s.Op("LogicalNot", {s.Op("Any", {positive, one})})}, {}, "y");
       }},
      {"second_of_a_split",
       {3, 6},
       [](const Scope& s, Output x, Output one) {
         Node* parts = s.AddNode("Split", {one, x}, {{"num_split", int64_t{3}}});
         if (parts != nullptr) s.Op("Tanh", {parts->output(1)}, {}, "y");
       }},
      {"last_of_an_unpacking",
       {3, 4},
       [](const Scope& s, Output x, Output) {
         Node* parts = s.AddNode("Unpack", {x}, {{"num", int64_t{4}}, {"axis", int64_t{1}}});
         if (parts != nullptr) s.Op("Tanh", {parts->output(3)}, {}, "y");
       }},
      {"values_of_top_k",
       {3, 5},
       [](const Scope& s, Output x, Output) {
         Node* top = s.AddNode("TopKV2", {x, s.Const(Tensor::Scalar<int32_t>(2))});
         if (top != nullptr) s.Op("Tanh", {top->output(0)}, {}, "y");
       }},
      {"places_of_top_k",
       {3, 5},
       [](const Scope& s, Output x, Output) {
         Node* top = s.AddNode("TopKV2", {x, s.Const(Tensor::Scalar<int32_t>(2))});
         if (top != nullptr) s.Op("Cast", {top->output(1)}, {{"DstT", DType::kFloat32}}, "y");
       }},
      {"transposed_convolution_of_an_open_batch",
       {3, 4, 5, 2},
       [](const Scope& s, Output x, Output) {
         Tensor filter(DType::kFloat32, {3, 3, 4, 2});
         Fill(filter, -0.5f, 0.5f, 1);
         const auto number = [&](int32_t value) { return s.Const(Tensor::Scalar(value)); };
         const auto pair = [&](int32_t value) { return s.Const(Tensor::Of<int32_t>({1}, {value})); };
         const Output batch =
             s.Op("StridedSlice", {s.Op("Shape", {x}), pair(0), pair(1), pair(1)}, {{"shrink_axis_mask", int64_t{1}}});
         const Output size = s.Op("Pack", {batch, number(8), number(10), number(4)});
         s.Op("Conv2DBackpropInput", {size, s.Const(filter), x},
              {{"strides", Sizes{1, 2, 2, 1}}, {"padding", std::string("SAME")}}, "y");
       }},
  };
  return kModels;
}

}  // namespace

std::vector<std::string> GraphCaseNames() {
  std::vector<std::string> names;
  for (const GraphModel& model : GraphModels()) names.push_back(model.name);
  return names;
}

StatusOr<OnnxExportCase> GraphCase(const std::string& name) {
  for (const GraphModel& model : GraphModels()) {
    if (model.name != name) continue;
    OnnxExportCase c;
    c.name = "graph_" + name;
    const Scope scope(c.graph);
    Shape open = model.input;
    open.set_dim(0, kUnknownDim);
    const Output x = scope.Placeholder("x", DType::kFloat32, open);
    model.build(scope, x, scope.Const(Tensor::Scalar<int32_t>(1)));
    RIVULET_RETURN_IF_ERROR(scope.status());
    Tensor value(DType::kFloat32, model.input);
    Fill(value, -1, 1, 2);
    c.feeds = {{"x", value}};
    c.options.outputs = {"y"};
    c.options.graph_name = name;
    RIVULET_ASSIGN_OR_RETURN(c.expected, onnx::RunOnce(c.graph, c.feeds, c.options.outputs));
    return c;
  }
  return NotFound("there is no graph '{}'", name);
}

namespace {

template <typename T>
std::string FloatDifference(const Tensor& actual, const Tensor& expected, double tolerance) {
  double largest = 0;
  for (T value : expected.flat<T>())
    if (std::isfinite(static_cast<double>(value))) largest = std::max(largest, std::abs(static_cast<double>(value)));
  if (largest == 0) largest = 1;
  for (size_t i = 0; i < expected.flat<T>().size(); ++i) {
    const auto a = static_cast<double>(actual.flat<T>()[i]), e = static_cast<double>(expected.flat<T>()[i]);
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    if (!(std::abs(a - e) <= tolerance * largest))
      return fmt::format("element {} is {}, not {} (the largest is {})", i, a, e, largest);
  }
  return "";
}

}  // namespace

std::string DifferenceOf(const Tensor& actual, const Tensor& expected, double tolerance) {
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape())
    return fmt::format("{}{}, not {}{}", Name(actual.dtype()), actual.shape().ToString(), Name(expected.dtype()),
                       expected.shape().ToString());
  switch (expected.dtype()) {
    case DType::kFloat32:
      return FloatDifference<float>(actual, expected, tolerance);
    case DType::kFloat64:
      return FloatDifference<double>(actual, expected, tolerance);
    case DType::kFloat16:
      return FloatDifference<float16>(actual, expected, tolerance);
    case DType::kBFloat16:
      return FloatDifference<bfloat16>(actual, expected, tolerance);
    default:
      return expected.bytes() == 0 || std::memcmp(actual.data(), expected.data(), expected.bytes()) == 0
                 ? ""
                 : "other integers";
  }
}

Status WriteCase(const OnnxExportCase& c, const std::string& model, const std::string& folder) {
  FileSystem& files = FileSystem::Default();
  const std::string data = JoinPath(JoinPath(folder, c.name), "test_data_set_0");
  RIVULET_RETURN_IF_ERROR(files.CreateFolders(data));
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(files, JoinPath(JoinPath(folder, c.name), "model.onnx"), model));
  const auto write = [&](const std::string& name, const std::string& file, const Tensor& tensor) -> Status {
    onnx::proto::TensorProto proto;
    proto.set_name(name);
    RIVULET_ASSIGN_OR_RETURN(const int type, onnx::OnnxFromDType(tensor.dtype()));
    proto.set_data_type(type);
    for (int64_t dim : tensor.shape().dims()) proto.add_dims(dim);
    proto.set_raw_data(tensor.data(), tensor.bytes());
    return WriteFileAtomically(files, JoinPath(data, file), proto.SerializeAsString());
  };
  for (size_t i = 0; i < c.feeds.size(); ++i)
    RIVULET_RETURN_IF_ERROR(write(c.feeds[i].first, fmt::format("input_{}.pb", i), c.feeds[i].second));
  for (size_t i = 0; i < c.expected.size(); ++i)
    RIVULET_RETURN_IF_ERROR(write(c.options.outputs[i], fmt::format("output_{}.pb", i), c.expected[i]));
  return absl::OkStatus();
}

}  // namespace rivulet
