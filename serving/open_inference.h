// Messages of the Open Inference Protocol, to and from calls of this server.
#pragma once

#include <deque>
#include <string>

#include "engine/base/status.h"
#include "proto/serving/open_inference.pb.h"
#include "serving/inference.h"
#include "serving/model_server.h"

namespace rivulet {

// The call of a request; its values are views of the request's memory, and of `made`, which has rewritten values.
// INVALID_ARGUMENT: an unknown type, values in two places or in the wrong field.
StatusOr<InferenceCall> CallOf(const inference::ModelInferRequest& request, std::deque<std::string>& made);

// Writes raw values if the request had them, else values in their fields.
void ToMessage(const InferenceAnswer& answer, const inference::ModelInferRequest& request,
               inference::ModelInferResponse* response);

// Describe the version for requests without a version (or `version`, a number or label).
Status Describe(const ModelServer& server, const std::string& name, const std::string& version,
                inference::ModelMetadataResponse* response);
Status Describe(const ModelServer& server, const std::string& name, const std::string& version, int64_t max_batch,
                inference::ModelConfigResponse* response);
void Describe(const ModelServer& server, const inference::RepositoryIndexRequest& request,
              inference::RepositoryIndexResponse* response);
// NOT_FOUND: no such name.
Status Describe(const ModelServer& server, const inference::ModelStatisticsRequest& request,
                inference::ModelStatisticsResponse* response);
void Describe(inference::ServerMetadataResponse* response);

}  // namespace rivulet
