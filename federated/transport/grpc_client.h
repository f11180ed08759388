// A CoordinatorApi at the other end of a gRPC connection. Thread-safe.
//
// Status codes arrive as the coordinator gave them. A connection that cannot be made, is lost, or answers nothing in
// time is UNAVAILABLE: repeat the call. The connection is made at the first call and made again when needed: a call
// that finds it lost waits up to two seconds for it. Pings keep it open while a client trains and makes no call.
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
  // "http://[USER:PASSWORD@]HOST:PORT": an HTTP proxy that is asked to CONNECT to the coordinator, whose name it looks
  // up itself. "": directly, whatever the environment says.
  std::string proxy = {};
  // What is fetched and submitted is packed by zstd on its way, where the coordinator does that too and it makes a
  // chunk shorter.
  bool zstd = false;
  std::chrono::milliseconds call_timeout = std::chrono::seconds(30);  // of Poll and Fail
  // Of one Fetch or Submit, without anything that moves; until its first answer, for which it may wait behind others,
  // as long as the connection lives. What was moved by then is not lost.
  std::chrono::milliseconds stream_patience = std::chrono::minutes(30);
};

class GrpcClient : public CoordinatorApi {
 public:
  // FAILED_PRECONDITION: the credentials refuse this address. INVALID_ARGUMENT: port 0. Does not connect yet.
  static StatusOr<std::unique_ptr<GrpcClient>> Create(GrpcClientOptions options);
  // Ends every call in flight and refuses new ones, all with CANCELLED: for a client that is being stopped.
  virtual void Cancel() = 0;
};

}  // namespace rivulet
