// A stub for a CoordinatorApi over a gRPC connection. Thread-safe.
//
// Status codes are those of the coordinator. UNAVAILABLE: the connection cannot be made, was lost, or did not reply in
// time: repeat the call. The connection is made at the first call and remade as needed: a call on a lost connection
// waits up to two seconds for it. Pings keep it open while a client trains without calls.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "federated/transport/coordinator_api.h"
#include "rpc/credentials.h"

namespace rivulet {

struct GrpcClientOptions {
  NetworkAddress coordinator;
  std::shared_ptr<const TransportCredentials> credentials;
  // "http://[USER:PASSWORD@]HOST:PORT": an HTTP proxy for CONNECT to the coordinator; it resolves the coordinator's
  // name. "": a direct connection; environment variables are ignored.
  std::string proxy = {};
  // Compress fetched and submitted chunks with zstd, if the
  // coordinator supports it and a chunk becomes shorter.
  bool zstd = false;
  std::chrono::milliseconds call_timeout = std::chrono::seconds(30);  // for Poll and Fail
  // For one Fetch or Submit: the time without progress. Until the first reply the stream may wait in a queue for as
  // long as the connection lives. Bytes transferred before a timeout are kept.
  std::chrono::milliseconds stream_patience = std::chrono::minutes(30);
};

class GrpcClient : public CoordinatorApi {
 public:
  // FAILED_PRECONDITION: the credentials do not allow this address. INVALID_ARGUMENT: port 0. Does not connect yet.
  static StatusOr<std::unique_ptr<GrpcClient>> Create(GrpcClientOptions options);
  // Ends every pending call and refuses new ones, all with CANCELLED: to stop a client.
  virtual void Cancel() = 0;
};

}  // namespace rivulet
