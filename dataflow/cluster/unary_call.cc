#include "dataflow/cluster/unary_call.h"

#include "dataflow/cluster/task_server.h"

namespace rivulet {
namespace {

constexpr RoleSpec kTaskSpec{.name = "task", .text = "a task of a cluster", .serves = true};
const RegisterRole kRegisterTask(kTaskSpec);

}  // namespace

const Role kTaskRole(kTaskSpec);

Status TaskCallers::Check(const grpc::ServerContextBase& context) const {
  RIVULET_ASSIGN_OR_RETURN(const PeerIdentity peer, security_.Identify(context));
  if (!peer.name || peer.name->role == kTaskRole) return absl::OkStatus();
  const Status refused = PermissionDenied(
      "'{}' may not run graphs here; that takes a certificate of 'rivulet ca issue task/ID'", peer.name->ToString());
  security_.LogRefusal(std::string(Message(refused)));
  return refused;
}

grpc::ServerUnaryReactor* UnaryCall::Start(grpc::CallbackServerContext* context, const TaskCallers& callers,
                                           Handler handler) {
  auto* const call = new UnaryCall();
  if (const Status allowed = callers.Check(*context); !allowed.ok()) {
    call->grpc::ServerUnaryReactor::Finish(ToGrpc(allowed));
    return call;
  }
  callers.pool().Schedule([call, cancel = call->cancel_, handler = std::move(handler)] {
    handler(cancel, [call](const Status& status) { call->grpc::ServerUnaryReactor::Finish(ToGrpc(status)); });
  });
  return call;
}

}  // namespace rivulet
