#include "serving/http_bodies.h"

#include <charconv>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/shown_text.h"
#include "serving/json_values.h"
#include "serving/tensorflow_serving.h"

namespace rivulet {
namespace {

// The values of one input: `json` has all examples, outermost.
Status AddInput(const ServedInput& input, const Json& json, PredictBody& request, InferenceCall& call) {
  WireTensor tensor{.name = input.name, .dtype = input.row.dtype};
  RIVULET_ASSIGN_OR_RETURN(tensor.shape, ShapeOf(json));
  // Bytes of an example are sent as text, or in {"b64": …} if they are no text.
  const Json* first = &json;
  while (first->IsArray() && first->size() > 0) first = &first->elements()[0];
  if (input.encoding == FeatureEncoding::kUint8 && !first->IsNumber()) tensor.dtype = DType::kString;
  request.made.emplace_back();
  const Status status = AppendValues(json, tensor.dtype, true, request.made.back());
  if (!status.ok()) return Annotate(status, fmt::format("the input '{}'", input.name));
  tensor.bytes = request.made.back();
  call.inputs.push_back(std::move(tensor));
  return absl::OkStatus();
}

// {"b64": …} is a value, not an object of inputs.
bool NamesInputs(const Json& json) { return json.IsObject() && !json.Contains("b64"); }

Status ReadRows(std::span<const ServedInput> inputs, const Json& instances, PredictBody& request, InferenceCall& call) {
  if (!instances.IsArray() || instances.size() == 0) return InvalidArgument("\"instances\" has no examples");
  request.rows = true;
  if (!NamesInputs(instances.elements()[0])) {
    if (inputs.size() != 1)
      return InvalidArgument("the model has {} inputs; give each example as an object of them", inputs.size());
    return AddInput(inputs[0], instances, request, call);
  }
  for (const ServedInput& input : inputs) {
    Json column = Json::Array();
    for (const Json& instance : instances.elements()) {
      const Json* const value = instance.Find(input.name);
      if (value == nullptr) return InvalidArgument("an example has no input '{}'", input.name);
      if (instance.size() != inputs.size()) return InvalidArgument("an example has other inputs than the model");
      column.Append(*value);
    }
    RIVULET_RETURN_IF_ERROR(AddInput(input, column, request, call));
  }
  return absl::OkStatus();
}

Status ReadColumns(std::span<const ServedInput> inputs, const Json& columns, PredictBody& request,
                   InferenceCall& call) {
  if (!NamesInputs(columns)) {
    if (inputs.size() != 1)
      return InvalidArgument("the model has {} inputs; give \"inputs\" as an object", inputs.size());
    return AddInput(inputs[0], columns, request, call);
  }
  if (columns.size() != inputs.size())
    return InvalidArgument("the request has {} inputs, and the model takes {}", columns.size(), inputs.size());
  for (const ServedInput& input : inputs) {
    const Json* const value = columns.Find(input.name);
    if (value == nullptr) return InvalidArgument("the request has no input '{}'", input.name);
    RIVULET_RETURN_IF_ERROR(AddInput(input, *value, request, call));
  }
  return absl::OkStatus();
}

StatusOr<int64_t> BinarySize(const Json& parameters) {
  const Json* const size = parameters.Find("binary_data_size");
  if (size == nullptr) return -1;
  if (!size->IsInteger() || size->integer() < 0) return InvalidArgument("\"binary_data_size\" is no size");
  return size->integer();
}

Status ReadInput(const Json& json, std::string_view& binary, InferBody& request) {
  WireTensor tensor{.name = json.At("name").text(), .dtype = WireType(json.At("datatype").text())};
  const auto wrong = [&](std::string_view what) {
    return InvalidArgument("the input '{}' {}", Shortened(tensor.name), what);
  };
  if (tensor.dtype == DType::kInvalid)
    return wrong(fmt::format("has the datatype '{}', which there is not", Shortened(json.At("datatype").text())));
  if (!json.At("shape").IsArray()) return wrong("has no \"shape\"");
  for (const Json& dim : json.At("shape").elements()) {
    if (!dim.IsInteger()) return wrong("has a \"shape\" that is none");
    tensor.shape.push_back(dim.integer());
  }
  RIVULET_ASSIGN_OR_RETURN(const int64_t size, BinarySize(json.At("parameters")));
  if (size >= 0) {
    if (static_cast<uint64_t>(size) > binary.size()) return wrong("has more binary data than the request");
    tensor.bytes = binary.substr(0, static_cast<size_t>(size));
    binary.remove_prefix(static_cast<size_t>(size));
  } else {
    const Json* const data = json.Find("data");
    if (data == nullptr || !data->IsArray()) return wrong("has neither \"data\" nor a \"binary_data_size\"");
    request.made.emplace_back();
    const Status status = AppendValues(*data, tensor.dtype, true, request.made.back());
    if (!status.ok()) return Annotate(status, fmt::format("the input '{}'", Shortened(tensor.name)));
    tensor.bytes = request.made.back();
  }
  request.call.inputs.push_back(std::move(tensor));
  return absl::OkStatus();
}

// Each value except the first follows a ',', '[' or '{' outside of strings.
Status CheckValueCount(std::string_view json, int64_t most) {
  int64_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++i;
    } else if (c == ',' || c == '[' || c == '{') {
      ++values;
    }
  }
  if (values <= most) return absl::OkStatus();
  return InvalidArgument("the body has {} values, and {} at most are read here; send fewer examples at once", values,
                         most);
}

}  // namespace

Status ReadInferBody(std::string_view body, std::string_view length, int64_t most_values, InferBody& request) {
  std::string_view binary;
  if (!length.empty()) {
    uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
    if (error != std::errc() || end != length.data() + length.size() || bytes > body.size())
      return InvalidArgument("'Inference-Header-Content-Length' is '{}', and the body has {} bytes", Shortened(length),
                             body.size());
    binary = body.substr(bytes);
    body = body.substr(0, bytes);
  }
  RIVULET_RETURN_IF_ERROR(CheckValueCount(body, most_values));
  RIVULET_ASSIGN_OR_RETURN(const Json json, Json::Parse(body));
  if (!json.IsObject() || !json.At("inputs").IsArray()) return InvalidArgument("the request has no \"inputs\"");
  request.call.id = json.At("id").text();
  request.binary_by_default = json.At("parameters").At("binary_data_output").IsTrue();
  for (const Json& input : json.At("inputs").elements()) RIVULET_RETURN_IF_ERROR(ReadInput(input, binary, request));
  if (!binary.empty()) return InvalidArgument("{} bytes of binary data are of no input", binary.size());
  for (const Json& output : json.At("outputs").elements()) {
    const std::string& name = output.At("name").text();
    request.call.outputs.push_back(name);
    const Json* const is_binary = output.At("parameters").Find("binary_data");
    request.binary.emplace_back(name, is_binary == nullptr ? request.binary_by_default : is_binary->IsTrue());
  }
  return absl::OkStatus();
}

Status ReadPredictBody(std::string_view body, int64_t most_values, std::span<const ServedInput> inputs,
                       PredictBody& request, InferenceCall& call) {
  RIVULET_RETURN_IF_ERROR(CheckValueCount(body, most_values));
  RIVULET_ASSIGN_OR_RETURN(const Json json, Json::Parse(body));
  RIVULET_RETURN_IF_ERROR(CheckSignature(json.At("signature_name").text()));
  const Json* const rows = json.Find("instances");
  const Json* const columns = json.Find("inputs");
  if ((rows == nullptr) == (columns == nullptr))
    return InvalidArgument("give \"instances\", a list of examples, or \"inputs\", a list for each input");
  return rows != nullptr ? ReadRows(inputs, *rows, request, call) : ReadColumns(inputs, *columns, request, call);
}

}  // namespace rivulet
