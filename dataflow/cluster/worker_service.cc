#include "dataflow/cluster/worker_service.h"

#include "dataflow/cluster/worker_calls.h"

namespace rivulet {

template <typename Request, typename Response>
grpc::ServerUnaryReactor* WorkerService::Start(grpc::CallbackServerContext* context, const Request* request,
                                               Response* response) {
  return UnaryCall::Start(context, callers_,
                          [this, request, response](const CancellationToken& cancel, const FinishCall& finish) {
                            AnswerCall(*worker_, *request, response, cancel, finish);
                          });
}

grpc::ServerUnaryReactor* WorkerService::GetStatus(grpc::CallbackServerContext* context,
                                                   const tensorflow::GetStatusRequest* request,
                                                   tensorflow::GetStatusResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* WorkerService::CreateWorkerSession(grpc::CallbackServerContext* context,
                                                             const tensorflow::CreateWorkerSessionRequest* request,
                                                             tensorflow::CreateWorkerSessionResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* WorkerService::DeleteWorkerSession(grpc::CallbackServerContext* context,
                                                             const tensorflow::DeleteWorkerSessionRequest* request,
                                                             tensorflow::DeleteWorkerSessionResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* WorkerService::RegisterGraph(grpc::CallbackServerContext* context,
                                                       const tensorflow::RegisterGraphRequest* request,
                                                       tensorflow::RegisterGraphResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* WorkerService::DeregisterGraph(grpc::CallbackServerContext* context,
                                                         const tensorflow::DeregisterGraphRequest* request,
                                                         tensorflow::DeregisterGraphResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* WorkerService::RunGraph(grpc::CallbackServerContext* context,
                                                  const tensorflow::RunGraphRequest* request,
                                                  tensorflow::RunGraphResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* WorkerService::CleanupGraph(grpc::CallbackServerContext* context,
                                                      const tensorflow::CleanupGraphRequest* request,
                                                      tensorflow::CleanupGraphResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* WorkerService::CleanupAll(grpc::CallbackServerContext* context,
                                                    const tensorflow::CleanupAllRequest* request,
                                                    tensorflow::CleanupAllResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* WorkerService::RecvTensor(grpc::CallbackServerContext* context,
                                                    const tensorflow::RecvTensorRequest* request,
                                                    tensorflow::RecvTensorResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* WorkerService::MarkRecvFinished(grpc::CallbackServerContext* context,
                                                          const tensorflow::MarkRecvFinishedRequest* request,
                                                          tensorflow::MarkRecvFinishedResponse* response) {
  return Start(context, request, response);
}

}  // namespace rivulet
