#include "federated/transport/callers.h"

#include <utility>

#include "engine/base/display_name.h"
#include "rpc/credentials.h"

namespace rivulet {
namespace {

Status OperatorOf(const grpc::ServerContextBase& context, PeerIdentity peer, OperatorCaller* caller) {
  if (!peer.name) {
    // Without TLS, only the loopback address shows that the caller is on this machine.
    if (!IsLoopbackPeer(context.peer())) {
      return PermissionDenied(
          "without TLS only the coordinator's own machine may steer it, and this call is from another machine; call "
          "127.0.0.1 there, or use --tls and an operator's certificate");
    }
    caller->name = "local";
    return absl::OkStatus();
  }
  if (peer.name->role != Role::kOperator) {
    return PermissionDenied(
        "the certificate of '{}' is not an operator's, and only operators steer a coordinator; use one that 'rivulet "
        "ca issue operator/ID' makes",
        peer.name->ToString());
  }
  caller->name = std::move(peer.name->id);
  caller->serial = std::move(peer.serial);
  return absl::OkStatus();
}

}  // namespace

Status Callers::Identify(const grpc::ServerContextBase& context, Caller* caller) const {
  RIVULET_ASSIGN_OR_RETURN(PeerIdentity peer, security_.Identify(context));
  Status status = IdentifyBy(std::move(peer), caller);
  if (status.ok()) status = CheckDisplayName("the caller's name", caller->name);
  if (!status.ok()) security_.LogRefusal(fmt::format("refused a call: {}", Message(status)));
  return status;
}

Status Callers::IdentifyOperator(const grpc::ServerContextBase& context, OperatorCaller* caller) const {
  RIVULET_ASSIGN_OR_RETURN(PeerIdentity peer, security_.Identify(context));
  const Status status = OperatorOf(context, std::move(peer), caller);
  if (!status.ok()) security_.LogRefusal(fmt::format("refused an operator's call: {}", Message(status)));
  return status;
}

Status Callers::IdentifyBy(PeerIdentity peer, Caller* caller) const {
  if (!peer.name) return absl::OkStatus();  // accept the claimed name
  CertificateName& name = *peer.name;
  if (name.role != Role::kClient && !(name.role == Role::kAggregator && admit_aggregators_)) {
    return PermissionDenied(
        "the certificate of '{}' is not a client's, and only clients train here; use the kit of a client ('rivulet "
        "ca kit client/ID')",
        name.ToString());
  }
  if (!caller->name.empty() && caller->name != name.id) {
    return PermissionDenied(
        "a call in the name of '{}' came with the certificate of '{}'; a client has the name of its certificate",
        DisplayText(caller->name, 80), name.ToString());
  }
  caller->proven = name.role == Role::kAggregator ? Caller::Proven::kAggregator : Caller::Proven::kClient;
  caller->name = std::move(name.id);
  caller->certificate_serial = std::move(peer.serial);
  caller->certificate_until = peer.certificate_until;
  return absl::OkStatus();
}

}  // namespace rivulet
