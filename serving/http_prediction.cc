// TensorFlow Serving's REST calls: status, metadata and predict in row and column form.
#include <algorithm>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/shown_text.h"
#include "serving/http_bodies.h"
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

std::string PredictText(const PredictBody& request, const InferenceAnswer& answer) {
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
  // Values are read by the inputs' names and types; a switch that changes these in between is reported below.
  InferenceCall call{.model = path.model, .version = path.version, .user = http.Field(kUserHeader)};
  if (call.user.empty()) call.user = server.NextKey();
  const auto route = server.Choose(path.model, path.version, call.user);
  if (!route.ok()) return reply(ErrorReply(route.status()));
  const auto request = std::make_shared<PredictBody>();
  const Status status =
      ReadPredictBody(http.body, MostJsonValues(server), route->version->plan->inputs(), *request, call);
  if (!status.ok()) {
    route->Tell(status, 0, {});
    return reply(ErrorReply(status));
  }
  Infer(server, std::move(call), [request, reply](const Status& result, const InferenceAnswer* answer) {
    if (!result.ok()) return reply(ErrorReply(result));
    HttpReply done = JsonReply(PredictText(*request, *answer));
    done.headers = {{kVersionHeader, answer->version.text}};
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
    if (request->method != "POST") return reply(TakesPost(request->path));
    return AnswerPredict(server, *path, *request, std::move(reply));
  }
  const StatusOr<HttpReply> answer = AnswerRest(server, *path);
  reply(answer.ok() ? *answer : ErrorReply(answer.status()));
}

}  // namespace rivulet
