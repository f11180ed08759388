// ONNX: export of the nodes that the outputs need, with the weights; and import of such files.

#include <algorithm>
#include <charconv>

#include "cli/command.h"
#include "cli/model/format.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/table.h"
#include "engine/onnx/export/export.h"
#include "engine/onnx/import.h"
#include "engine/onnx/model_files.h"

namespace rivulet {
namespace {

Status WriteOnnx(const ExportRequest& request) {
  const ModelSource& source = request.source;
  onnx::ExportOptions options;
  options.outputs = source.outputs;
  RIVULET_ASSIGN_OR_RETURN(const NamedWeights weights, source.weights());
  for (const auto& [name, value] : weights) options.weights.emplace(name, value);
  options.graph_name = source.title.substr(source.title.rfind('/') + 1);
  options.doc = fmt::format("Written by Rivulet from {}.", options.graph_name);
  options.external_data = request.external_data;
  const StatusOr<onnx::OnnxFile> file = onnx::WriteOnnx(source.model.graph, std::move(options), request.out);
  if (!file.ok()) return Annotate(file.status(), source.title);
  const Fields fields = {{"model", request.out},
                         {"opset", onnx::kExportOpset},
                         {"nodes", int64_t{file->nodes}},
                         {"parameters", file->parameters},
                         {"inputs", Join(file->inputs, ", ")},
                         {"outputs", Join(file->outputs, ", ")},
                         {"operators", Join(file->ops, ", ")},
                         {"data", TextCell(file->data.empty() ? "" : request.out + ".data")}};
  fmt::print("{}", request.json ? JsonObject(fields) + "\n" : FieldLines(fields));
  return absl::OkStatus();
}

// "image=1,3,224,224"; "?" for an open size.
StatusOr<std::pair<std::string, Shape>> ReadShape(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return UsageError("--shape must be NAME=SIZES, not '{}'", text);
  std::vector<int64_t> dims;
  std::string_view rest = std::string_view(text).substr(equals + 1);
  while (!rest.empty()) {
    const std::string_view size = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), size.size() + 1));
    int64_t dim = kUnknownDim;
    if (size != "?" && (std::from_chars(size.data(), size.data() + size.size(), dim).ptr != size.data() + size.size() ||
                        size.empty() || dim < 0))
      return UsageError("--shape {}: '{}' is no size; give numbers and '?', with commas between", text, size);
    dims.push_back(dim);
  }
  return std::pair(text.substr(0, equals), Shape(std::move(dims)));
}

// "pads=0,1,1,0", as a tensor of the input's type: of its shape if the model has one, else a vector.
StatusOr<std::pair<std::string, Tensor>> ReadValue(const std::string& text,
                                                   const std::vector<onnx::OnnxValue>& inputs) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return UsageError("--value must be NAME=NUMBERS, not '{}'", text);
  const std::string name = text.substr(0, equals);
  const auto input = std::ranges::find(inputs, name, &onnx::OnnxValue::name);
  if (input == inputs.end()) return NotFound("--value {}: the model has no input '{}'", text, name);
  std::vector<double> numbers;
  std::string_view rest = std::string_view(text).substr(equals + 1);
  while (!rest.empty()) {
    const std::string_view number = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), number.size() + 1));
    const char* const end = number.data() + number.size();
    if (number.empty() || std::from_chars(number.data(), end, numbers.emplace_back()).ptr != end)
      return UsageError("--value {}: '{}' is no number; give numbers with commas between", text, number);
  }
  Shape shape = input->spec.shape;
  if (!shape.IsFullyKnown()) shape = Shape{static_cast<int64_t>(numbers.size())};
  const StatusOr<int64_t> elements = shape.CheckedElements();
  if (!elements.ok() || *elements != static_cast<int64_t>(numbers.size()))
    return UsageError("--value {}: {} numbers are given to an input {}", text, numbers.size(), shape.ToString());
  Tensor value(input->spec.dtype, shape);
  const auto fill = [&]<typename T>(std::span<T> into) {
    std::ranges::transform(numbers, into.begin(), [](double number) { return static_cast<T>(number); });
  };
  switch (input->spec.dtype) {
    case DType::kInt32:
      fill(value.flat<int32_t>());
      break;
    case DType::kInt64:
      fill(value.flat<int64_t>());
      break;
    case DType::kBool:
      fill(value.flat<bool>());
      break;
    case DType::kFloat32:
      fill(value.flat<float>());
      break;
    default:
      return UsageError("--value {}: the input is {}; float32, int32, int64 and bool can be given", text,
                        Name(input->spec.dtype));
  }
  return std::pair(name, std::move(value));
}

std::string Listed(const std::vector<onnx::OnnxValue>& values) {
  std::vector<std::string> texts;
  for (const onnx::OnnxValue& value : values)
    texts.push_back(fmt::format("{} {}{}", value.tensor, Name(value.spec.dtype), value.spec.shape.ToString()));
  return Join(texts, ", ");
}

Status ReadOnnx(const ImportRequest& request) {
  onnx::ImportOptions options;
  for (const std::string& text : request.shapes) {
    RIVULET_ASSIGN_OR_RETURN(auto shape, ReadShape(text));
    options.shapes.insert(std::move(shape));
  }
  options.folder = FolderOf(request.file);
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(request.file));
  if (!request.values.empty()) {
    const StatusOr<std::vector<onnx::OnnxValue>> inputs = onnx::OnnxInputs(bytes);
    if (!inputs.ok()) return Annotate(inputs.status(), request.file);
    for (const std::string& text : request.values) {
      RIVULET_ASSIGN_OR_RETURN(auto value, ReadValue(text, *inputs));
      options.constants.insert(std::move(value));
    }
  }
  StatusOr<onnx::OnnxModel> model = onnx::ImportOnnx(bytes, options);
  if (!model.ok()) return Annotate(model.status(), request.file);
  RIVULET_RETURN_IF_ERROR(onnx::WriteModelFiles(*model, request.out));
  int64_t parameters = 0;
  for (const onnx::OnnxWeight& weight : model->weights) parameters += weight.value.elements();
  const Fields fields = {{"graph", JoinPath(request.out, "graph.pb")},
                         {"weights", JoinPath(request.out, "model.safetensors")},
                         {"nodes", static_cast<int64_t>(model->graph.nodes().size())},
                         {"variables", static_cast<int64_t>(model->weights.size())},
                         {"parameters", parameters},
                         {"inputs", Listed(model->inputs)},
                         {"outputs", Listed(model->outputs)}};
  // The trained tensors, and the reason for each role: a trained mask would make another model.
  Table roles({{.name = "tensor"}, {.name = "role"}, {.name = "why"}});
  for (const onnx::OnnxInitializer& initializer : model->initializers)
    roles.Add({initializer.name, initializer.role, initializer.why});
  if (request.json) {
    Json object = ToJson(fields);
    object["tensors"] = roles.Rows();
    fmt::print("{}\n", object.Dump());
    return absl::OkStatus();
  }
  fmt::print("{}{}{}", FieldLines(fields), roles.size() > 0 ? "\n" : "", roles.Text());
  return absl::OkStatus();
}

const RegisterModelFormat kOnnx(
    {.name = "onnx",
     .endings = {".onnx"},
     .doc = "the part of the graph that the scores need, with the weights, for other runtimes",
     .write = WriteOnnx,
     .read = ReadOnnx});

}  // namespace
}  // namespace rivulet
