// Messages of TensorFlow Serving's services, to and from calls of this server; and the same as JSON, for REST.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "serving/inference.h"
#include "serving/model_server.h"

namespace tensorflow::serving {
class GetModelMetadataResponse;
class GetModelStatusResponse;
class ModelSpec;
class PredictRequest;
class PredictResponse;
}  // namespace tensorflow::serving

namespace rivulet {

// A served model has one signature.
inline constexpr char kSignature[] = "serving_default";
// The error of calls that are not served.
inline constexpr char kUsePredict[] =
    "Classify, Regress and MultiInference are not served; Predict gives the model's outputs for the same examples";

// INVALID_ARGUMENT: another signature than `serving_default` or "".
Status CheckSignature(std::string_view name);

// The call of a request; its values are views of the request's memory, and of `made`, which has rewritten values.
// Repeated values are written out, `most_made` bytes at most. INVALID_ARGUMENT: another signature, a type without an
// input, more values than the shape has, too many bytes.
StatusOr<InferenceCall> CallOf(const tensorflow::serving::PredictRequest& request, std::deque<std::string>& made,
                               size_t most_made = size_t{256} << 20);
void ToMessage(const InferenceAnswer& answer, const tensorflow::serving::PredictRequest& request,
               tensorflow::serving::PredictResponse* response);

// "": a request without version; else a number or label.
std::string VersionOf(const tensorflow::serving::ModelSpec& spec);

// Errors as ModelServer::Choose and Versions.
Status Describe(const ModelServer& server, const tensorflow::serving::ModelSpec& spec,
                tensorflow::serving::GetModelMetadataResponse* response);
Status Describe(const ModelServer& server, const tensorflow::serving::ModelSpec& spec,
                tensorflow::serving::GetModelStatusResponse* response);
StatusOr<std::string> MetadataText(const ModelServer& server, const std::string& model, const std::string& version);
StatusOr<std::string> StatusText(const ModelServer& server, const std::string& model, const std::string& version);

}  // namespace rivulet
