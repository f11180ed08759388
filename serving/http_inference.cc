// The Open Inference Protocol over HTTP, with its binary extension.
#include <algorithm>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/shown_text.h"
#include "proto/serving/open_inference.pb.h"
#include "serving/http_bodies.h"
#include "serving/http_front.h"
#include "serving/inference.h"
#include "serving/json_values.h"
#include "serving/open_inference.h"

namespace rivulet {
namespace {

constexpr char kJsonLength[] = "inference-header-content-length";

// "/v2/models/M[/versions/V][/REST]"
struct ModelPath {
  std::string model, version, rest;
};
std::optional<ModelPath> ParseModelPath(std::string_view path) {
  constexpr std::string_view kModels = "/v2/models/", kVersions = "/versions/";
  if (!path.starts_with(kModels)) return std::nullopt;
  path.remove_prefix(kModels.size());
  ModelPath parsed;
  parsed.model = std::string(path.substr(0, path.find('/')));
  path.remove_prefix(parsed.model.size());
  if (path.starts_with(kVersions)) {
    path.remove_prefix(kVersions.size());
    parsed.version = std::string(path.substr(0, path.find('/')));
    path.remove_prefix(parsed.version.size());
  }
  parsed.rest = std::string(path);
  if (parsed.model.empty()) return std::nullopt;
  return parsed;
}

// A request with the objects that must live until its answer.
struct InferRequest : InferBody {
  std::shared_ptr<const HttpCallRequest> http;
};

HttpReply ReplyOf(const InferRequest& request, const InferenceAnswer& answer) {
  const std::string version = answer.version.text;
  const Json quoted = {{"model_name", request.call.model},
                       {"model_version", fmt::format("{}", answer.version.pointed.version)},
                       {"id", request.call.id},
                       {"parameters", {{kVersionHeader, version}}}};
  std::string text = quoted.Dump(), binary;
  text.pop_back();
  text += ",\"outputs\":[";
  bool any_binary = false;
  for (size_t i = 0; i < answer.outputs.size(); ++i) {
    const InferenceOutput& output = answer.outputs[i];
    bool is_binary = request.binary_by_default;
    for (const auto& [name, said] : request.binary)
      if (name == output.name) is_binary = said;
    const auto dims = output.value.shape.dims();
    Json described = {{"name", output.name},
                      {"datatype", WireName(output.value.dtype)},
                      {"shape", std::vector<int64_t>(dims.begin(), dims.end())}};
    if (is_binary) {
      described["parameters"] = {{"binary_data_size", output.value.bytes()}};
      binary.append(reinterpret_cast<const char*>(output.value.data), output.value.bytes());
      any_binary = true;
    }
    std::string one = described.Dump();
    if (!is_binary) {
      one.pop_back();
      one += ",\"data\":[";
      AppendNumbers(output.value, 0, output.value.shape.elements(), one);
      one += "]}";
    }
    text += (i > 0 ? "," : "") + one;
  }
  text += "]}";
  HttpReply reply = JsonReply("");
  reply.headers = {{kVersionHeader, version}};
  if (any_binary) {
    reply.content_type = "application/octet-stream";
    reply.headers.emplace_back("Inference-Header-Content-Length", fmt::format("{}", text.size()));
  }
  reply.body = std::move(text) + binary;
  return reply;
}

void AnswerInfer(ModelServer& server, const ModelPath& path, std::shared_ptr<const HttpCallRequest> http,
                 HttpServer::CallReply reply) {
  auto request = std::make_shared<InferRequest>();
  request->http = std::move(http);
  request->call.model = path.model;
  request->call.version = path.version;
  request->call.user = request->http->Field(kUserHeader);
  Status status;
  if (!request->http->Field("content-encoding").empty())
    status = InvalidArgument("compressed bodies are not read; send them without Content-Encoding");
  if (status.ok())
    status = ReadInferBody(request->http->body, request->http->Field(kJsonLength), MostJsonValues(server), *request);
  if (!status.ok()) return reply(ErrorReply(status));
  InferenceCall call = request->call;
  Infer(server, std::move(call), [request, reply](const Status& result, const InferenceAnswer* answer) {
    reply(result.ok() ? ReplyOf(*request, *answer) : ErrorReply(result));
  });
}

Json DescribedTensor(const inference::ModelMetadataResponse::TensorMetadata& tensor) {
  return {{"name", tensor.name()},
          {"datatype", tensor.datatype()},
          {"shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())}};
}

StatusOr<Json> Metadata(const ModelServer& server, const ModelPath& path) {
  inference::ModelMetadataResponse message;
  RIVULET_RETURN_IF_ERROR(Describe(server, path.model, path.version, &message));
  Json json = {{"name", message.name()}, {"platform", message.platform()}};
  json["versions"] = std::vector<std::string>(message.versions().begin(), message.versions().end());
  json["inputs"] = Json::Array();
  for (const auto& input : message.inputs()) json["inputs"].Append(DescribedTensor(input));
  json["outputs"] = Json::Array();
  for (const auto& output : message.outputs()) json["outputs"].Append(DescribedTensor(output));
  const std::map<std::string, std::string> properties(message.properties().begin(), message.properties().end());
  json["properties"] = Json(properties);
  return json;
}

// 200 if the model answers, even if a newer version failed: then the reply names that version and the reason.
HttpReply ReadyReply(const ModelServer& server, const ModelPath& path) {
  const auto versions = server.Versions(path.model);
  if (!versions.ok()) return ErrorReply(versions.status());
  const auto route = server.Choose(path.model, path.version, "");
  if (!route.ok()) {
    HttpReply reply = ErrorReply(route.status());
    if (reply.status != 404) reply.status = 503;
    return reply;
  }
  Json json = {{"name", path.model}, {"ready", true}};
  for (const VersionStatus& status : *versions) {
    if (status.state != VersionState::kFailed) continue;
    json["failed"].Append({{"version", fmt::format("{}", status.version.version)}, {"reason", status.reason}});
  }
  return JsonReply(json.Dump());
}

HttpReply StatsReply(const ModelServer& server, const ModelPath& path) {
  inference::ModelStatisticsRequest request;
  request.set_name(path.model);
  request.set_version(path.version);
  inference::ModelStatisticsResponse response;
  if (const Status status = Describe(server, request, &response); !status.ok()) return ErrorReply(status);
  Json stats = Json::Array();
  for (const auto& model : response.model_stats()) {
    const auto duration = [](const inference::StatisticDuration& of) {
      return Json{{"count", of.count()}, {"ns", of.ns()}};
    };
    const auto& infer = model.inference_stats();
    stats.Append({{"name", model.name()},
                  {"version", model.version()},
                  {"inference_count", model.inference_count()},
                  {"execution_count", model.execution_count()},
                  {"inference_stats",
                   {{"success", duration(infer.success())},
                    {"fail", duration(infer.fail())},
                    {"queue", duration(infer.queue())},
                    {"compute_infer", duration(infer.compute_infer())}}}});
  }
  Json json = Json::Object();
  json["model_stats"] = std::move(stats);
  return JsonReply(json.Dump());
}

HttpReply IndexReply(const ModelServer& server) {
  inference::RepositoryIndexResponse response;
  Describe(server, {}, &response);
  Json json = Json::Array();
  for (const auto& model : response.models())
    json.Append(
        {{"name", model.name()}, {"version", model.version()}, {"state", model.state()}, {"reason", model.reason()}});
  return JsonReply(json.Dump());
}

HttpReply ServerReply() {
  inference::ServerMetadataResponse message;
  Describe(&message);
  Json json = {{"name", message.name()}, {"version", message.version()}};
  json["extensions"] = std::vector<std::string>(message.extensions().begin(), message.extensions().end());
  return JsonReply(json.Dump());
}

StatusOr<HttpReply> AnswerAtOnce(ModelServer& server, const std::string& path) {
  if (path == "/v2" || path == "/v2/") return ServerReply();
  if (path == "/v2/health/live") return JsonReply("{\"live\":true}");
  if (path == "/v2/health/ready") {
    HttpReply reply = JsonReply(server.Ready() ? "{\"ready\":true}" : "{\"ready\":false}");
    if (!server.Ready()) reply.status = 503;
    return reply;
  }
  if (path == "/v2/repository/index") return IndexReply(server);
  const auto model = ParseModelPath(path);
  if (!model) return NotFound("there is no call '{}'", Shortened(path));
  if (model->rest.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const Json json, Metadata(server, *model));
    return JsonReply(json.Dump());
  }
  if (model->rest == "/ready") return ReadyReply(server, *model);
  if (model->rest == "/stats") return StatsReply(server, *model);
  if (model->rest == "/config") {
    inference::ModelConfigResponse response;
    RIVULET_RETURN_IF_ERROR(
        Describe(server, model->model, model->version, server.batcher().options().max_batch, &response));
    Json json = {{"name", response.config().name()},
                 {"platform", response.config().platform()},
                 {"backend", response.config().backend()},
                 {"max_batch_size", response.config().max_batch_size()}};
    return JsonReply(json.Dump());
  }
  return NotFound("there is no call '{}'", Shortened(path));
}

}  // namespace

void AnswerInference(ModelServer& server, std::shared_ptr<const HttpCallRequest> request, HttpServer::CallReply reply) {
  if (const auto model = ParseModelPath(request->path); model && model->rest == "/infer") {
    if (request->method != "POST") return reply(TakesPost(request->path));
    return AnswerInfer(server, *model, std::move(request), std::move(reply));
  }
  const StatusOr<HttpReply> answer = AnswerAtOnce(server, request->path);
  reply(answer.ok() ? *answer : ErrorReply(answer.status()));
}

}  // namespace rivulet
