// The HTTP front of a model server: the Open Inference Protocol below /v2 with JSON and binary values, TensorFlow
// Serving's REST calls below /v1, and /metrics.
#pragma once

#include <string>

#include "http/http_server.h"
#include "serving/model_server.h"

namespace rivulet {

// Sets the limits of a server for these models, and the role of its callers.
void PrepareHttp(const ModelServer& server, HttpOptions& options);
// Registers the calls at `http`, before its Start. `server` must outlive it.
void ServeCalls(ModelServer& server, HttpServer& http);

// Answer one call of each protocol, with its body; `reply` is called once, on any thread. They do not block.
void AnswerInference(ModelServer& server, std::shared_ptr<const HttpCallRequest> request, HttpServer::CallReply reply);
void AnswerPrediction(ModelServer& server, std::shared_ptr<const HttpCallRequest> request, HttpServer::CallReply reply);
HttpReply MetricsReply(const ModelServer& server);

// The most values that are read from a call's body: those of the largest batch, with names and brackets.
int64_t MostJsonValues(const ModelServer& server);

// {"error": …} with the HTTP status for the code: 400 INVALID_ARGUMENT, 404 NOT_FOUND, 409 FAILED_PRECONDITION, 429
// RESOURCE_EXHAUSTED, 501 UNIMPLEMENTED, 503 UNAVAILABLE, 504 DEADLINE_EXCEEDED, else 500.
HttpReply ErrorReply(const Status& status);
HttpReply TakesPost(const std::string& path);  // 405
HttpReply JsonReply(std::string body);

}  // namespace rivulet
