#include "dataflow/cluster/worker_service.h"

#include "dataflow/cluster/foreign_graph.h"
#include "dataflow/cluster/wire.h"
#include "engine/graphdef/proto_conversion.h"

namespace rivulet {

namespace tfw = tensorflow;

grpc::ServerUnaryReactor* WorkerService::GetStatus(grpc::CallbackServerContext* context, const tfw::GetStatusRequest*,
                                                   tfw::GetStatusResponse* response) {
  return UnaryCall::Start(context, callers_, [this, response](const CancellationToken& cancel, const auto& finish) {
    worker_->GetStatus(cancel, [response, finish](const StatusOr<std::vector<TaskDevice>>& devices) {
      if (devices.ok())
        for (const TaskDevice& device : *devices) ToProto(device, response->add_device_attributes());
      finish(devices.status());
    });
  });
}

// A session's own cluster is not taken from it: this process calls the tasks that it was started with, and no others.
grpc::ServerUnaryReactor* WorkerService::CreateWorkerSession(grpc::CallbackServerContext* context,
                                                             const tfw::CreateWorkerSessionRequest* request,
                                                             tfw::CreateWorkerSessionResponse*) {
  return UnaryCall::Start(context, callers_, [this, request](const CancellationToken&, const auto& finish) {
    worker_->CreateWorkerSession({request->session_handle(), request->isolate_session_state()}, finish);
  });
}

grpc::ServerUnaryReactor* WorkerService::DeleteWorkerSession(grpc::CallbackServerContext* context,
                                                             const tfw::DeleteWorkerSessionRequest* request,
                                                             tfw::DeleteWorkerSessionResponse*) {
  return UnaryCall::Start(context, callers_, [this, request](const CancellationToken&, const auto& finish) {
    worker_->DeleteWorkerSession(request->session_handle(), finish);
  });
}

grpc::ServerUnaryReactor* WorkerService::RegisterGraph(grpc::CallbackServerContext* context,
                                                       const tfw::RegisterGraphRequest* request,
                                                       tfw::RegisterGraphResponse* response) {
  return UnaryCall::Start(context, callers_, [this, request, response](const CancellationToken&, const auto& finish) {
    worker_->RegisterGraph(
        {request->session_handle(), WithoutForeignNames(request->graph_def()), request->rivulet_seed()},
        [response, finish](const StatusOr<std::string>& handle) {
          if (handle.ok()) response->set_graph_handle(*handle);
          finish(handle.status());
        });
  });
}

grpc::ServerUnaryReactor* WorkerService::DeregisterGraph(grpc::CallbackServerContext* context,
                                                         const tfw::DeregisterGraphRequest* request,
                                                         tfw::DeregisterGraphResponse*) {
  return UnaryCall::Start(context, callers_, [this, request](const CancellationToken&, const auto& finish) {
    worker_->DeregisterGraph(request->session_handle(), request->graph_handle(), finish);
  });
}

grpc::ServerUnaryReactor* WorkerService::RunGraph(grpc::CallbackServerContext* context,
                                                  const tfw::RunGraphRequest* request,
                                                  tfw::RunGraphResponse* response) {
  return UnaryCall::Start(
      context, callers_, [this, request, response](const CancellationToken& cancel, const auto& finish) {
        const auto end = [request, response, finish](const Status& status) {
          if (status.ok() || !request->store_errors_in_response_body()) return finish(status);
          response->set_status_code(static_cast<int>(status.code()));
          response->set_status_error_message(BodyText(status));
          finish(absl::OkStatus());
        };
        StatusOr<NamedTensors> send = TensorsFrom(request->send());
        if (!send.ok()) return end(send.status());
        TaskStep step{request->session_handle(), request->graph_handle(), request->step_id(), *std::move(send)};
        step.recv.assign(request->recv_key().begin(), request->recv_key().end());
        if (request->has_rivulet_step()) step.number = request->rivulet_step();
        step.partial = request->is_partial();
        step.last = request->is_last_partial_run();
        worker_->RunGraph(std::move(step), cancel, [response, end](const StatusOr<NamedTensors>& tensors) {
          if (tensors.ok()) ToProto(*tensors, response->mutable_recv());
          end(tensors.status());
        });
      });
}

grpc::ServerUnaryReactor* WorkerService::CleanupGraph(grpc::CallbackServerContext* context,
                                                      const tfw::CleanupGraphRequest* request,
                                                      tfw::CleanupGraphResponse*) {
  return UnaryCall::Start(context, callers_, [this, request](const CancellationToken&, const auto& finish) {
    worker_->CleanupGraph(request->step_id(), finish);
  });
}

grpc::ServerUnaryReactor* WorkerService::CleanupAll(grpc::CallbackServerContext* context,
                                                    const tfw::CleanupAllRequest* request, tfw::CleanupAllResponse*) {
  return UnaryCall::Start(context, callers_, [this, request](const CancellationToken&, const auto& finish) {
    worker_->CleanupAll({request->container().begin(), request->container().end()}, finish);
  });
}

grpc::ServerUnaryReactor* WorkerService::RecvTensor(grpc::CallbackServerContext* context,
                                                    const tfw::RecvTensorRequest* request,
                                                    tfw::RecvTensorResponse* response) {
  return UnaryCall::Start(context, callers_,
                          [this, request, response](const CancellationToken& cancel, const auto& finish) {
                            worker_->RecvTensor(request->step_id(), request->rendezvous_key(), cancel,
                                                [response, finish](const StatusOr<Tensor>& value) {
                                                  if (value.ok()) ToProto(*value, response->mutable_tensor());
                                                  finish(value.status());
                                                });
                          });
}

// Answers of RecvTensor are not kept for a second asking.
grpc::ServerUnaryReactor* WorkerService::MarkRecvFinished(grpc::CallbackServerContext* context,
                                                          const tfw::MarkRecvFinishedRequest*,
                                                          tfw::MarkRecvFinishedResponse*) {
  return UnaryCall::Start(context, callers_,
                          [](const CancellationToken&, const auto& finish) { finish(absl::OkStatus()); });
}

}  // namespace rivulet
