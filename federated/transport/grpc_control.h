// A stub for a ControlApi over a gRPC connection. Thread-safe. Status codes are those of the coordinator; UNAVAILABLE:
// the connection cannot be made, was lost, or did not reply in time.
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
  std::string proxy = {};  // as in GrpcClientOptions
  std::chrono::milliseconds call_timeout = std::chrono::seconds(30);
  std::chrono::milliseconds start_timeout = std::chrono::minutes(10);  // for StartRun: a large model's plan takes long
};

// The connection determines the caller; the first argument of calls is ignored. Errors as GrpcClient::Create.
StatusOr<std::unique_ptr<ControlApi>> ConnectControl(GrpcControlOptions options);

}  // namespace rivulet
