// Callers of the gRPC front: their identity, the deadline of their call, and the beginning of its answer. Internal to
// this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <string>

#include "engine/base/status.h"
#include "rpc/security.h"
#include "serving/inference.h"

namespace rivulet {

// Outlives the calls. Thread-safe.
class GrpcCallers {
 public:
  explicit GrpcCallers(ServerSecurity& security) : security_(security) {}
  // UNAUTHENTICATED, PERMISSION_DENIED: the caller may not call.
  Status Check(const grpc::ServerContextBase& context) const;

 private:
  ServerSecurity& security_;
};

// Sets deadline, user and cancellation of a call from its context, which must outlive the call.
void FillFrom(grpc::CallbackServerContext& context, InferenceCall& call);

}  // namespace rivulet
