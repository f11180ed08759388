// Service of a ControlApi over gRPC, for operators only. Internal to this folder.
#pragma once

#include <memory>

#include "engine/base/executor.h"
#include "federated/transport/callers.h"
#include "federated/transport/control_api.h"
#include "proto/rpc/control.grpc.pb.h"

namespace rivulet {

// Each call is authenticated by `callers` and then passed to `api`, on separate threads: starting a run takes seconds
// and must not delay clients.
class ControlService final : public rpc::Control::CallbackService {
 public:
  // `api` must outlive this.
  ControlService(ControlApi& api, const Callers& callers);

  grpc::ServerUnaryReactor* Runs(grpc::CallbackServerContext* context, const rpc::RunsRequestProto* request,
                                 rpc::RunsReplyProto* reply) override;
  grpc::ServerUnaryReactor* Clients(grpc::CallbackServerContext* context, const rpc::ClientsRequestProto* request,
                                    rpc::ClientsReplyProto* reply) override;
  grpc::ServerUnaryReactor* Audit(grpc::CallbackServerContext* context, const rpc::AuditRequestProto* request,
                                  rpc::AuditReplyProto* reply) override;
  grpc::ServerUnaryReactor* Command(grpc::CallbackServerContext* context, const rpc::CommandRequestProto* request,
                                    rpc::CommandReplyProto* reply) override;
  grpc::ServerReadReactor<rpc::StartRunRequestProto>* StartRun(grpc::CallbackServerContext* context,
                                                               rpc::StartRunReplyProto* reply) override;
  // Waits until all calls have been answered; no further calls may arrive.
  void Drain() { calls_.reset(); }

 private:
  template <typename Ask>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, Ask ask);

  ControlApi& api_;
  const Callers callers_;
  std::unique_ptr<Executor> calls_;
};

}  // namespace rivulet
