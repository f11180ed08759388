// The gRPC front of a model server: the Open Inference Protocol and TensorFlow Serving's services on one port.
//
// Calls are passed to the batcher as they arrive and answered on its threads; no gRPC thread blocks. Messages are
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

// The roles of model servers' callers, and of the servers themselves.
extern const Role kServeRole, kModelsRole;

struct GrpcFrontOptions {
  NetworkAddress listen;  // port 0: any free one
  std::shared_ptr<const TransportCredentials> credentials;
};

class GrpcFront {
 public:
  // `server` must outlive this. FAILED_PRECONDITION: the credentials refuse this address. UNAVAILABLE: it is not
  // free.
  static StatusOr<std::unique_ptr<GrpcFront>> Start(ModelServer& server, GrpcFrontOptions options);
  virtual ~GrpcFront() = default;              // as Stop(0)
  virtual NetworkAddress address() const = 0;  // with the actual port
  // Refuses new calls, gives running ones the time `grace`, then ends them.
  virtual void Stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace rivulet
