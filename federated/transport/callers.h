// Authentication of the callers of a coordinator's services, and the rights of their certificates: to poll, submit or
// control. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include "engine/base/status.h"
#include "federated/transport/control_api.h"
#include "federated/transport/coordinator_api.h"
#include "rpc/security.h"

namespace rivulet {

// Without TLS a client's claimed name is accepted, and any caller from this machine is an operator. With TLS the
// certificate decides: clients need the role client, aggregators (if admitted) aggregator, operators operator;
// operators may call nothing else. Refusals are logged. Thread-safe.
class Callers {
 public:
  // `security` must outlive this.
  Callers(ServerSecurity& security, bool admit_aggregators)
      : security_(security), admit_aggregators_(admit_aggregators) {}

  // Replaces `caller`, as stated in the call's message, by the client that the connection authenticates.
  // UNAUTHENTICATED: its certificate is no longer valid. PERMISSION_DENIED: the certificate has another name or role.
  // INVALID_ARGUMENT: a name that is not displayable (engine/base/display_name.h), also without TLS.
  Status Identify(const grpc::ServerContextBase& context, Caller* caller) const;
  // Returns the calling operator. Errors as in Identify.
  Status IdentifyOperator(const grpc::ServerContextBase& context, OperatorCaller* caller) const;

 private:
  Status IdentifyBy(PeerIdentity peer, Caller* caller) const;

  ServerSecurity& security_;
  const bool admit_aggregators_;
};

}  // namespace rivulet
