#include "dataflow/cluster/worker_service.h"

#include "dataflow/cluster/tensor_stream.h"
#include "dataflow/cluster/worker_calls.h"

namespace rivulet {
namespace {

int MethodIndex(const char* name) {
  const auto* const file = tensorflow::RecvTensorRequest::descriptor()->file();
  const auto* const service = file->pool()->FindServiceByName("tensorflow.WorkerService");
  return service->FindMethodByName(name)->index();
}

}  // namespace

WorkerService::WorkerService(std::shared_ptr<GraphWorker> worker, TaskCallers callers)
    : worker_(std::move(worker)), callers_(std::move(callers)) {
  using Handler = grpc::internal::CallbackServerStreamingHandler<grpc::ByteBuffer, grpc::ByteBuffer>;
  MarkMethodRawCallback(MethodIndex("RecvTensor"),
                        new Handler([this](grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
                          return SendTensor(context, callers_, worker_, request);
                        }));
}

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
grpc::ServerUnaryReactor* WorkerService::MarkRecvFinished(grpc::CallbackServerContext* context,
                                                          const tensorflow::MarkRecvFinishedRequest* request,
                                                          tensorflow::MarkRecvFinishedResponse* response) {
  return Start(context, request, response);
}

}  // namespace rivulet
