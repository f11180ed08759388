#include "serving/grpc_prediction.h"

#include <deque>
#include <memory>

#include "rpc/grpc_options.h"
#include "serving/tensorflow_serving.h"

namespace rivulet {
namespace {

grpc::ServerUnaryReactor* End(grpc::CallbackServerContext* context, const Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

// A caller without the right to call gets no other information.
grpc::ServerUnaryReactor* EndUnserved(grpc::CallbackServerContext* context, const GrpcCallers& callers,
                                      const char* why) {
  const Status status = callers.Check(*context);
  return End(context, status.ok() ? Unimplemented("{}", why) : status);
}

}  // namespace

grpc::ServerUnaryReactor* GrpcPrediction::Classify(grpc::CallbackServerContext* context, const Unserved*, NoAnswer*) {
  return EndUnserved(context, callers_, kUsePredict);
}
grpc::ServerUnaryReactor* GrpcPrediction::Regress(grpc::CallbackServerContext* context, const Unserved*, NoAnswer*) {
  return EndUnserved(context, callers_, kUsePredict);
}
grpc::ServerUnaryReactor* GrpcPrediction::MultiInference(grpc::CallbackServerContext* context, const Unserved*,
                                                         NoAnswer*) {
  return EndUnserved(context, callers_, kUsePredict);
}

grpc::ServerUnaryReactor* GrpcPrediction::Predict(grpc::CallbackServerContext* context,
                                                  const tensorflow::serving::PredictRequest* request,
                                                  tensorflow::serving::PredictResponse* response) {
  if (const Status status = callers_.Check(*context); !status.ok()) return End(context, status);
  const auto made = std::make_shared<std::deque<std::string>>();
  constexpr int64_t kWidest = 2;  // float64 for a float32 input, which is refused later with the input's name
  StatusOr<InferenceCall> call = CallOf(*request, *made, static_cast<size_t>(server_.BatchBytes() * kWidest));
  if (!call.ok()) return End(context, call.status());
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  FillFrom(*context, *call);
  Infer(server_, *std::move(call),
        [made, context, reactor, request, response](const Status& status, const InferenceAnswer* answer) {
          if (status.ok()) {
            ToMessage(*answer, *request, response);
            context->AddInitialMetadata(kVersionHeader, answer->version.text);
          }
          reactor->Finish(ToGrpc(status));
        });
  return reactor;
}

grpc::ServerUnaryReactor* GrpcPrediction::GetModelMetadata(grpc::CallbackServerContext* context,
                                                           const tensorflow::serving::GetModelMetadataRequest* request,
                                                           tensorflow::serving::GetModelMetadataResponse* response) {
  Status status = callers_.Check(*context);
  if (status.ok()) status = Describe(server_, request->model_spec(), response);
  return End(context, status);
}

grpc::ServerUnaryReactor* GrpcModelStatus::GetModelStatus(grpc::CallbackServerContext* context,
                                                          const tensorflow::serving::GetModelStatusRequest* request,
                                                          tensorflow::serving::GetModelStatusResponse* response) {
  Status status = callers_.Check(*context);
  if (status.ok()) status = Describe(server_, request->model_spec(), response);
  return End(context, status);
}

grpc::ServerUnaryReactor* GrpcModelStatus::HandleReloadConfigRequest(grpc::CallbackServerContext* context,
                                                                     const tensorflow::serving::UnservedRequest*,
                                                                     tensorflow::serving::UnservedResponse*) {
  return EndUnserved(context, callers_,
                     "the configuration is the history's pointers; set them by 'rivulet model point'");
}

}  // namespace rivulet
