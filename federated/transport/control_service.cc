#include "federated/transport/control_service.h"

#include <utility>

#include "federated/transport/control_messages.h"
#include "federated/transport/grpc_options.h"

namespace rivulet {

ControlService::ControlService(ControlApi& api, ServerSecurity& security)
    : api_(api), security_(security), calls_(ThreadExecutor("control", 2)) {}

template <typename Ask>
grpc::ServerUnaryReactor* ControlService::Answer(grpc::CallbackServerContext* context, Ask ask) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  calls_->Run([this, context, reactor, ask = std::move(ask)] {
    OperatorCaller caller;
    Status status = security_.IdentifyOperator(*context, &caller);
    if (status.ok()) status = ask(caller);
    reactor->Finish(ToGrpc(status));
  });
  return reactor;
}

grpc::ServerUnaryReactor* ControlService::Runs(grpc::CallbackServerContext* context, const rpc::RunsRequestProto*,
                                               rpc::RunsReplyProto* reply) {
  return Answer(context, [this, reply](const OperatorCaller& caller) -> Status {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<RunState> runs, api_.Runs(caller));
    for (const RunState& run : runs) ToMessage(run, reply->add_runs());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ControlService::Clients(grpc::CallbackServerContext* context,
                                                  const rpc::ClientsRequestProto* request,
                                                  rpc::ClientsReplyProto* reply) {
  return Answer(context, [this, request, reply](const OperatorCaller& caller) -> Status {
    RIVULET_ASSIGN_OR_RETURN(const ClientPage page, api_.Clients(caller, request->after()));
    for (const ClientState& client : page.clients) ToMessage(client, reply->add_clients());
    reply->set_more(page.more);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ControlService::Audit(grpc::CallbackServerContext* context, const rpc::AuditRequestProto*,
                                                rpc::AuditReplyProto* reply) {
  return Answer(context, [this, reply](const OperatorCaller& caller) -> Status {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<AuditEntry> entries, api_.Audit(caller));
    for (const AuditEntry& entry : entries) ToMessage(entry, reply->add_entries());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ControlService::Command(grpc::CallbackServerContext* context,
                                                  const rpc::CommandRequestProto* request,
                                                  rpc::CommandReplyProto* reply) {
  return Answer(context, [this, request, reply](const OperatorCaller& caller) -> Status {
    RIVULET_ASSIGN_OR_RETURN(*reply->mutable_sentence(),
                             api_.Command(caller, {request->action(), request->subject(), request->detail()}));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ControlService::StartRun(grpc::CallbackServerContext* context,
                                                   const rpc::StartRunRequestProto* request,
                                                   rpc::StartRunReplyProto* reply) {
  return Answer(context, [this, request, reply](const OperatorCaller& caller) -> Status {
    RIVULET_ASSIGN_OR_RETURN(*reply->mutable_run_id(), api_.StartRun(caller, {request->scenario(), request->plan()}));
    return absl::OkStatus();
  });
}

}  // namespace rivulet
