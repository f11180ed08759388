#include "serving/grpc_inference.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "rpc/grpc_options.h"
#include "serving/open_inference.h"

namespace rivulet {
namespace {

// A stream of requests, answered one after another in order. gRPC calls back for one operation at a time.
class InferStream final
    : public grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse> {
 public:
  InferStream(ModelServer& server, grpc::CallbackServerContext* context) : server_(server), context_(context) {
    StartRead(&request_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    response_.Clear();
    made_.clear();
    StatusOr<InferenceCall> call = CallOf(request_, made_);
    if (!call.ok()) return Refuse(call.status());
    FillFrom(*context_, *call);
    Infer(server_, *std::move(call), [this](const Status& status, const InferenceAnswer* answer) {
      if (!status.ok()) return Refuse(status);
      inference::ModelInferResponse* const response = response_.mutable_infer_response();
      ToMessage(*answer, request_, response);
      (*response->mutable_parameters())[kVersionHeader].set_string_param(
          answer->version.text);  // a stream has only one header
      StartWrite(&response_);
    });
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  // An error of one request does not end the stream.
  void Refuse(const Status& status) {
    response_.set_error_message(std::string(Message(status)));
    response_.mutable_infer_response()->set_id(request_.id());
    StartWrite(&response_);
  }

  ModelServer& server_;
  grpc::CallbackServerContext* const context_;
  inference::ModelInferRequest request_;
  inference::ModelStreamInferResponse response_;
  std::deque<std::string> made_;
};

class RefusedStream final
    : public grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse> {
 public:
  explicit RefusedStream(const Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

// Answers calls that cost no step.
template <typename Work>
grpc::ServerUnaryReactor* GrpcInference::Answer(grpc::CallbackServerContext* context, Work work) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  Status status = callers_.Check(*context);
  if (status.ok()) status = work();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcInference::ServerLive(grpc::CallbackServerContext* context,
                                                    const inference::ServerLiveRequest*,
                                                    inference::ServerLiveResponse* response) {
  return Answer(context, [&] {
    response->set_live(true);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* GrpcInference::ServerReady(grpc::CallbackServerContext* context,
                                                     const inference::ServerReadyRequest*,
                                                     inference::ServerReadyResponse* response) {
  return Answer(context, [&] {
    response->set_ready(server_.Ready());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* GrpcInference::ModelReady(grpc::CallbackServerContext* context,
                                                    const inference::ModelReadyRequest* request,
                                                    inference::ModelReadyResponse* response) {
  return Answer(context, [&]() -> Status {
    RIVULET_RETURN_IF_ERROR(server_.Versions(request->name()).status());
    response->set_ready(server_.Choose(request->name(), request->version(), "").ok());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* GrpcInference::ServerMetadata(grpc::CallbackServerContext* context,
                                                        const inference::ServerMetadataRequest*,
                                                        inference::ServerMetadataResponse* response) {
  return Answer(context, [&] {
    Describe(response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* GrpcInference::ModelMetadata(grpc::CallbackServerContext* context,
                                                       const inference::ModelMetadataRequest* request,
                                                       inference::ModelMetadataResponse* response) {
  return Answer(context, [&] { return Describe(server_, request->name(), request->version(), response); });
}

grpc::ServerUnaryReactor* GrpcInference::ModelInfer(grpc::CallbackServerContext* context,
                                                    const inference::ModelInferRequest* request,
                                                    inference::ModelInferResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (const Status status = callers_.Check(*context); !status.ok()) {
    reactor->Finish(ToGrpc(status));
    return reactor;
  }
  const auto made = std::make_shared<std::deque<std::string>>();
  StatusOr<InferenceCall> call = CallOf(*request, *made);
  if (!call.ok()) {
    reactor->Finish(ToGrpc(call.status()));
    return reactor;
  }
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

grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>*
GrpcInference::ModelStreamInfer(grpc::CallbackServerContext* context) {
  if (const Status status = callers_.Check(*context); !status.ok()) return new RefusedStream(status);
  return new InferStream(server_, context);
}

grpc::ServerUnaryReactor* GrpcInference::ModelConfig(grpc::CallbackServerContext* context,
                                                     const inference::ModelConfigRequest* request,
                                                     inference::ModelConfigResponse* response) {
  return Answer(context, [&] {
    return Describe(server_, request->name(), request->version(), server_.batcher().options().max_batch, response);
  });
}

grpc::ServerUnaryReactor* GrpcInference::ModelStatistics(grpc::CallbackServerContext* context,
                                                         const inference::ModelStatisticsRequest* request,
                                                         inference::ModelStatisticsResponse* response) {
  return Answer(context, [&] { return Describe(server_, *request, response); });
}

grpc::ServerUnaryReactor* GrpcInference::RepositoryIndex(grpc::CallbackServerContext* context,
                                                         const inference::RepositoryIndexRequest* request,
                                                         inference::RepositoryIndexResponse* response) {
  return Answer(context, [&] {
    Describe(server_, *request, response);
    return absl::OkStatus();
  });
}

}  // namespace rivulet
