// Serves a CoordinatorApi over gRPC (proto/rpc/coordinator.proto).
//
// Calls are handed to the api as they come, from several threads at once. Uploads are read one message ahead of the api
// and no further, so that a slow disk or a full staging area holds the senders back. Messages of bytes carry at most
// 256 KiB, so that a hundred uploads at once cost a few dozen MB.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "federated/transport/coordinator_api.h"
#include "federated/transport/credentials.h"

namespace rivulet {

struct GrpcServerOptions {
  NetworkAddress listen;  // port 0: any free one
  std::shared_ptr<const TransportCredentials> credentials;
  // An upload or download whose peer moves nothing for so long is ended; the client goes on at the offset reached.
  std::chrono::milliseconds stall_timeout = std::chrono::minutes(2);
  int max_threads = 512;  // calls served at once; for more a GrpcClient sees UNAVAILABLE
};

class GrpcServer {
 public:
  // `api` must outlive the server. FAILED_PRECONDITION: the credentials refuse this address. UNAVAILABLE: it cannot be
  // listened on, for instance because it is in use.
  static StatusOr<std::unique_ptr<GrpcServer>> Start(CoordinatorApi& api, GrpcServerOptions options);
  virtual ~GrpcServer() = default;             // as Stop(0)
  virtual NetworkAddress address() const = 0;  // with the port chosen
  // Takes no new calls, gives those in flight `grace`, then ends them. May be called twice.
  virtual void Stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace rivulet
