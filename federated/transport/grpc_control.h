// A ControlApi at the other end of a gRPC connection. Thread-safe. Status codes arrive as the coordinator gave them;
// a connection that cannot be made, is lost, or answers nothing in time is UNAVAILABLE.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "federated/transport/control_api.h"
#include "rpc/credentials.h"

namespace rivulet {

struct GrpcControlOptions {
  NetworkAddress coordinator;
  std::shared_ptr<const TransportCredentials> credentials;
  std::string proxy = {};  // as GrpcClientOptions'
  std::chrono::milliseconds call_timeout = std::chrono::seconds(30);
  std::chrono::milliseconds start_timeout = std::chrono::minutes(10);  // of StartRun: a large model's plan takes long
};

// Calls take the caller from the connection, whatever their first argument says. Errors as GrpcClient::Create.
StatusOr<std::unique_ptr<ControlApi>> ConnectControl(GrpcControlOptions options);

}  // namespace rivulet
