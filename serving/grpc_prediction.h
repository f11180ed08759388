// TensorFlow Serving's services over gRPC. Internal to this folder.
#pragma once

#include "proto/serving/tensorflow_serving.grpc.pb.h"
#include "serving/grpc_callers.h"
#include "serving/model_server.h"

namespace rivulet {

class GrpcPrediction final : public tensorflow::serving::PredictionService::CallbackService {
 public:
  GrpcPrediction(ModelServer& server, GrpcCallers callers) : server_(server), callers_(callers) {}
  using Unserved = tensorflow::serving::UnservedRequest;
  using NoAnswer = tensorflow::serving::UnservedResponse;
  grpc::ServerUnaryReactor* Classify(grpc::CallbackServerContext* context, const Unserved*, NoAnswer*) override;
  grpc::ServerUnaryReactor* Regress(grpc::CallbackServerContext* context, const Unserved*, NoAnswer*) override;
  grpc::ServerUnaryReactor* MultiInference(grpc::CallbackServerContext* context, const Unserved*, NoAnswer*) override;
  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context,
                                    const tensorflow::serving::PredictRequest* request,
                                    tensorflow::serving::PredictResponse* response) override;
  grpc::ServerUnaryReactor* GetModelMetadata(grpc::CallbackServerContext* context,
                                             const tensorflow::serving::GetModelMetadataRequest* request,
                                             tensorflow::serving::GetModelMetadataResponse* response) override;

 private:
  ModelServer& server_;
  const GrpcCallers callers_;
};

class GrpcModelStatus final : public tensorflow::serving::ModelService::CallbackService {
 public:
  GrpcModelStatus(ModelServer& server, GrpcCallers callers) : server_(server), callers_(callers) {}
  grpc::ServerUnaryReactor* GetModelStatus(grpc::CallbackServerContext* context,
                                           const tensorflow::serving::GetModelStatusRequest* request,
                                           tensorflow::serving::GetModelStatusResponse* response) override;
  grpc::ServerUnaryReactor* HandleReloadConfigRequest(grpc::CallbackServerContext* context,
                                                      const tensorflow::serving::UnservedRequest*,
                                                      tensorflow::serving::UnservedResponse*) override;

 private:
  ModelServer& server_;
  const GrpcCallers callers_;
};

}  // namespace rivulet
