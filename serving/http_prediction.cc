// TensorFlow Serving's REST calls: status, metadata and predict in row and column form.
#include <algorithm>
#include <deque>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/shown_text.h"
#include "serving/http_front.h"
#include "serving/inference.h"
#include "serving/json_values.h"
#include "serving/tensorflow_serving.h"

namespace rivulet {
namespace {

// "/v1/models/M[/versions/V|/labels/L][:predict|/metadata]"
struct PredictionPath {
  std::string model, version, verb;  // "predict", "metadata", or "": the status
};
std::optional<PredictionPath> ParsePredictionPath(std::string_view path) {
  constexpr std::string_view kModels = "/v1/models/";
  if (!path.starts_with(kModels)) return std::nullopt;
  path.remove_prefix(kModels.size());
  PredictionPath parsed;
  if (const size_t colon = path.rfind(':'); colon != path.npos) {
    parsed.verb = std::string(path.substr(colon + 1));
    path = path.substr(0, colon);
    if (parsed.verb.empty() || parsed.verb == "metadata") return std::nullopt;
  } else if (path.ends_with("/metadata")) {
    parsed.verb = "metadata";
    path.remove_suffix(std::string_view("/metadata").size());
  }
  parsed.model = std::string(path.substr(0, path.find('/')));
  path.remove_prefix(parsed.model.size());
  for (const std::string_view of : {"/versions/", "/labels/"}) {
    if (!path.starts_with(of)) continue;
    parsed.version = std::string(path.substr(of.size()));
    path = {};
  }
  if (parsed.model.empty() || !path.empty() || parsed.version.find('/') != std::string::npos) return std::nullopt;
  return parsed;
}

// A request with what it has to keep until it is answered.
struct PredictRest {
  std::deque<std::string> made;
  bool rows = false;  // "instances", answered by "predictions"; else columns
};

// The values of one input: `json` has all examples, outermost.
Status AddInput(const ServedInput& input, const Json& json, PredictRest& request, InferenceCall& call) {
  WireTensor tensor{.name = input.name, .dtype = input.row.dtype};
  RIVULET_ASSIGN_OR_RETURN(tensor.shape, ShapeOf(json));
  // Bytes of an example come as text, in {"b64": …} where they are no text.
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

// {"b64": …} is a value and no object of inputs.
bool NamesInputs(const Json& json) { return json.IsObject() && !json.Contains("b64"); }

Status ReadRows(std::span<const ServedInput> inputs, const Json& instances, PredictRest& request, InferenceCall& call) {
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

Status ReadColumns(std::span<const ServedInput> inputs, const Json& columns, PredictRest& request,
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

Status ReadPredict(const HttpCallRequest& http, std::span<const ServedInput> inputs, PredictRest& request,
                   InferenceCall& call) {
  RIVULET_ASSIGN_OR_RETURN(const Json json, Json::Parse(http.body));
  RIVULET_RETURN_IF_ERROR(CheckSignature(json.At("signature_name").text()));
  const Json* const rows = json.Find("instances");
  const Json* const columns = json.Find("inputs");
  if ((rows == nullptr) == (columns == nullptr))
    return InvalidArgument("give \"instances\", a list of examples, or \"inputs\", a list for each input");
  return rows != nullptr ? ReadRows(inputs, *rows, request, call) : ReadColumns(inputs, *columns, request, call);
}

std::string PredictText(const PredictRest& request, const InferenceAnswer& answer) {
  const bool one = answer.outputs.size() == 1;
  const auto named = [](std::string_view name) { return Json(name).Dump() + ":"; };
  std::string text = request.rows ? "{\"predictions\":[" : "{\"outputs\":";
  if (request.rows) {
    const int64_t rows = answer.outputs[0].value.shape.dim(0);
    for (int64_t row = 0; row < rows; ++row) {
      if (row > 0) text += ',';
      if (!one) text += '{';
      for (size_t i = 0; i < answer.outputs.size(); ++i) {
        const TensorView& value = answer.outputs[i].value;
        if (!one) text += (i > 0 ? "," : "") + named(answer.outputs[i].name);
        AppendNested(value, value.shape.dims().subspan(1), row * (value.shape.elements() / rows), text);
      }
      if (!one) text += '}';
    }
    return text + "]}";
  }
  if (!one) text += '{';
  for (size_t i = 0; i < answer.outputs.size(); ++i) {
    if (!one) text += (i > 0 ? "," : "") + named(answer.outputs[i].name);
    AppendNested(answer.outputs[i].value, answer.outputs[i].value.shape.dims(), 0, text);
  }
  return text + (one ? "}" : "}}");
}

void AnswerPredict(ModelServer& server, const PredictionPath& path, const HttpCallRequest& http,
                   HttpServer::CallReply reply) {
  // The inputs' names and types decide how values are read; a switch in between that changes them is told below.
  const auto route = server.Choose(path.model, path.version, "");
  if (!route.ok()) return reply(ErrorReply(route.status()));
  const auto request = std::make_shared<PredictRest>();
  InferenceCall call{.model = path.model, .version = path.version, .user = http.Field(kUserHeader)};
  const Status status = ReadPredict(http, route->version->plan->inputs(), *request, call);
  if (!status.ok()) return reply(ErrorReply(status));
  Infer(server, std::move(call), [request, reply](const Status& result, const InferenceAnswer* answer) {
    if (!result.ok()) return reply(ErrorReply(result));
    HttpReply done = JsonReply(PredictText(*request, *answer));
    done.headers = {{kVersionHeader, VersionText(answer->version.pointed)}};
    reply(std::move(done));
  });
}

StatusOr<HttpReply> AnswerRest(ModelServer& server, const PredictionPath& path) {
  if (path.verb == "metadata") {
    RIVULET_ASSIGN_OR_RETURN(const std::string text, MetadataText(server, path.model, path.version));
    return JsonReply(text);
  }
  if (path.verb.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const std::string text, StatusText(server, path.model, path.version));
    return JsonReply(text);
  }
  if (path.verb == "classify" || path.verb == "regress") return Unimplemented(kUsePredict);
  return NotFound("there is no call ':{}'; ':predict' gives the model's outputs", Shortened(path.verb));
}

}  // namespace

void AnswerPrediction(ModelServer& server, std::shared_ptr<const HttpCallRequest> request,
                      HttpServer::CallReply reply) {
  const auto path = ParsePredictionPath(request->path);
  if (!path) return reply(ErrorReply(NotFound("there is no call '{}'", Shortened(request->path))));
  if (path->verb == "predict") {
    if (request->method != "POST") return reply(ErrorReply(InvalidArgument("':predict' takes POST")));
    return AnswerPredict(server, *path, *request, std::move(reply));
  }
  const StatusOr<HttpReply> answer = AnswerRest(server, *path);
  reply(answer.ok() ? *answer : ErrorReply(answer.status()));
}

}  // namespace rivulet
