#include "serving/grpc_callers.h"

#include "serving/grpc_front.h"

namespace rivulet {

Status GrpcCallers::Check(const grpc::ServerContextBase& context) const {
  RIVULET_ASSIGN_OR_RETURN(const PeerIdentity peer, security_.Identify(context));
  if (!peer.name || peer.name->role == kServeRole) return absl::OkStatus();
  const Status refused =
      PermissionDenied("'{}' may not ask for predictions; that takes a certificate of 'rivulet ca issue serve/NAME'",
                       peer.name->ToString());
  security_.LogRefusal(std::string(Message(refused)));
  return refused;
}

void FillFrom(grpc::CallbackServerContext& context, InferenceCall& call) {
  const auto user = context.client_metadata().find(kUserHeader);
  if (user != context.client_metadata().end()) call.user = std::string(user->second.data(), user->second.size());
  // A caller without a deadline has one that is years away.
  const auto left = context.deadline() - std::chrono::system_clock::now();
  if (left < std::chrono::hours(24))
    call.deadline = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(left);
  call.gone = [&context] { return context.IsCancelled(); };
}

}  // namespace rivulet
