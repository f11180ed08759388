// Messages of the Open Inference Protocol, to and from calls of this server.
#pragma once

#include <deque>
#include <string>

#include "engine/base/status.h"
#include "proto/serving/open_inference.pb.h"
#include "serving/inference.h"
#include "serving/model_server.h"

namespace rivulet {

// The call of a request; views of the request's memory, and of `made`, which holds values that had to be rewritten.
// INVALID_ARGUMENT: a type that there is not, values in two places or in the wrong field.
StatusOr<InferenceCall> CallOf(const inference::ModelInferRequest& request, std::deque<std::string>& made);

// Values raw where the request's were, else in their fields.
void ToMessage(const InferenceAnswer& answer, const inference::ModelInferRequest& request,
               inference::ModelInferResponse* response);

// Of the version that answers requests without a version (or of `version`, a number or label).
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
