// The gRPC front of a model server: the Open Inference Protocol and TensorFlow Serving's services on one port.
//
// Calls are handed to the batcher as they come and answered on its threads; none of gRPC's threads blocks. Messages are
// limited by the served models' largest batch, and the memory of all connections by a quota. Under TLS a caller needs a
// certificate of the role `serve`.
#pragma once

#include <chrono>
#include <memory>

#include "certificates/role.h"
#include "engine/base/status.h"
#include "rpc/credentials.h"
#include "serving/model_server.h"

namespace rivulet {

// Of callers of model servers, and of the servers themselves.
extern const Role kServeRole, kModelsRole;

struct GrpcFrontOptions {
  NetworkAddress listen;  // port 0: any free one
  std::shared_ptr<const TransportCredentials> credentials;
};

class GrpcFront {
 public:
  // `server` must outlive this. FAILED_PRECONDITION: the credentials refuse this address. UNAVAILABLE: it cannot be
  // listened on.
  static StatusOr<std::unique_ptr<GrpcFront>> Start(ModelServer& server, GrpcFrontOptions options);
  virtual ~GrpcFront() = default;              // as Stop(0)
  virtual NetworkAddress address() const = 0;  // with the port chosen
  // Takes no new calls, gives those in flight `grace`, then ends them.
  virtual void Stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace rivulet
