// The callers of a coordinator's services, and the rights of their certificates: poll, submit or steer. Internal to
// this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include "engine/base/status.h"
#include "federated/transport/control_api.h"
#include "federated/transport/coordinator_api.h"
#include "rpc/security.h"

namespace rivulet {

// Without TLS a client is whoever it says, and an operator whoever calls from this machine. Under TLS the certificate
// decides: a client's role for clients, an aggregator's where aggregators are admitted, an operator's for operators,
// who may call nothing else. Refusals are logged. Thread-safe.
class Callers {
 public:
  // `security` must outlive it.
  Callers(ServerSecurity& security, bool admit_aggregators)
      : security_(security), admit_aggregators_(admit_aggregators) {}

  // Makes `caller`, as the call's message has it, the client that the call's connection proves. UNAUTHENTICATED: its
  // certificate is no longer valid. PERMISSION_DENIED: it is another name's, or of another role. INVALID_ARGUMENT: no
  // name that shows (engine/base/display_name.h), at whichever port.
  Status Identify(const grpc::ServerContextBase& context, Caller* caller) const;
  // The operator that calls. Codes as Identify's.
  Status IdentifyOperator(const grpc::ServerContextBase& context, OperatorCaller* caller) const;

 private:
  Status IdentifyBy(PeerIdentity peer, Caller* caller) const;

  ServerSecurity& security_;
  const bool admit_aggregators_;
};

}  // namespace rivulet
