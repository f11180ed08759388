// A model server for the tests' four pixels, with its fronts, in this process.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "proto/serving/open_inference.grpc.pb.h"
#include "proto/serving/tensorflow_serving.grpc.pb.h"
#include "rpc/grpc_options.h"
#include "serving/grpc_front.h"
#include "serving/model_server.h"
#include "tests/serving/served_model.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::testing {

// Serves "pixels" over gRPC on a free port.
class RunningServer {
 public:
  explicit RunningServer(BatchOptions batch = {.max_batch = 8, .threads = 2}) {
    const auto version = FourPixelsVersion();
    const Plan& plan = version->plan->plan();
    const std::string bytes = ModelToSafetensors(*version->model, {});
    Digest digest;
    EXPECT_OK(ModelFromSafetensors(plan.layout(), bytes, &digest).status());
    NameToServe served{.name = "pixels"};
    served.fixed = {{1, "run", 1, digest.Hex(), plan.digest().Hex()},
                    folder_.Write("plan", plan.bytes()),
                    folder_.Write("version", bytes)};
    ModelServerOptions options{.names = {served}, .batch = std::move(batch), .plan = {.scores = LogitsOf}};
    auto server = ModelServer::Start(FileSystem::Default(), std::move(options));
    EXPECT_OK(server);
    server_ = *std::move(server);
    auto front = GrpcFront::Start(*server_, {{"127.0.0.1", 0}, InsecureCredentials(false)});
    EXPECT_OK(front);
    front_ = *std::move(front);
    channel_ = grpc::CreateChannel(front_->address().ToString(), grpc::InsecureChannelCredentials());
    inference = inference::GRPCInferenceService::NewStub(channel_);
    prediction = tensorflow::serving::PredictionService::NewStub(channel_);
  }
  ModelServer& server() { return *server_; }
  std::string address() const { return front_->address().ToString(); }

 private:
  TempFolder folder_;
  std::unique_ptr<ModelServer> server_;
  std::unique_ptr<GrpcFront> front_;
  std::shared_ptr<grpc::Channel> channel_;

 public:
  std::unique_ptr<inference::GRPCInferenceService::Stub> inference;
  std::unique_ptr<tensorflow::serving::PredictionService::Stub> prediction;
};

}  // namespace rivulet::testing
