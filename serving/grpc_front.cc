#include "serving/grpc_front.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>

#include "rpc/grpc_options.h"
#include "rpc/security.h"
#include "serving/grpc_inference.h"
#include "serving/grpc_prediction.h"

namespace rivulet {
namespace {

constexpr RoleSpec kServeSpec{.name = "serve", .text = "a caller of a model server"};
constexpr RoleSpec kModelsSpec{
    .name = "models", .text = "a model server", .serves = true, .connects = false, .named_by_host = true};
const RegisterRole kRegisterServe(kServeSpec), kRegisterModels(kModelsSpec);

// The most simultaneous calls of a connection; more wait at their client.
constexpr int kMostCalls = 1024;
// For the parts of a message besides its values: names, shapes, framing.
constexpr int64_t kMessageRoom = 1 << 20;
// Values in fields of messages or in text take more bytes than raw ones; float64 twice as many.
constexpr int64_t kWidest = 2;
// The most memory of all connections together: some large messages, and the read buffers of many small ones.
constexpr size_t kQuota = size_t{256} << 20;

class Front final : public GrpcFront {
 public:
  Front(ModelServer& server, std::unique_ptr<ServerSecurity> security, NetworkAddress address)
      : security_(std::move(security)),
        inference_(server, GrpcCallers(*security_)),
        prediction_(server, GrpcCallers(*security_)),
        status_(server, GrpcCallers(*security_)),
        message_bytes_(std::min<int64_t>(server.BatchBytes() * kWidest + kMessageRoom, INT32_MAX)),
        address_(std::move(address)) {}
  ~Front() override { Stop(std::chrono::milliseconds(0)); }

  Status Listen() {
    grpc::ServerBuilder builder;
    SetCommonArguments([&](const char* name, int value) { builder.AddChannelArgument(name, value); });
    builder.SetMaxReceiveMessageSize(static_cast<int>(message_bytes_));
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCalls);
    grpc::ResourceQuota quota("serving");
    quota.Resize(kQuota + 4 * static_cast<size_t>(message_bytes_));
    builder.SetResourceQuota(quota);
    builder.RegisterService(&inference_);
    builder.RegisterService(&prediction_);
    builder.RegisterService(&status_);
    int port = 0;
    builder.AddListeningPort(address_.ToString(), security_->credentials(), &port);
    grpc_ = builder.BuildAndStart();
    if (grpc_ == nullptr || port == 0)
      return Unavailable("cannot listen on {}: the address is in use, not this machine's, or not permitted",
                         address_.ToString());
    address_.port = port;
    return absl::OkStatus();
  }

  NetworkAddress address() const override { return address_; }
  void Stop(std::chrono::milliseconds grace) override {
    if (grpc_ == nullptr) return;
    grpc_->Shutdown(std::chrono::system_clock::now() + grace);
    grpc_->Wait();
    grpc_ = nullptr;
  }

 private:
  const std::unique_ptr<ServerSecurity> security_;
  GrpcInference inference_;
  GrpcPrediction prediction_;
  GrpcModelStatus status_;
  const int64_t message_bytes_;
  NetworkAddress address_;
  std::unique_ptr<grpc::Server> grpc_;
};

}  // namespace

const Role kServeRole(kServeSpec), kModelsRole(kModelsSpec);

StatusOr<std::unique_ptr<GrpcFront>> GrpcFront::Start(ModelServer& server, GrpcFrontOptions options) {
  RIVULET_RETURN_IF_ERROR(options.credentials->Check(options.listen));
  PrepareGrpc();
  RIVULET_RETURN_IF_ERROR(CheckRoomForGrpc());
  RIVULET_ASSIGN_OR_RETURN(auto security, options.credentials->ForServer());
  auto front = std::make_unique<Front>(server, std::move(security), std::move(options.listen));
  RIVULET_RETURN_IF_ERROR(front->Listen());
  return front;
}

}  // namespace rivulet
