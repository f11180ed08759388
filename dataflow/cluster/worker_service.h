// The task of this process behind `/tensorflow.WorkerService/`. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "dataflow/cluster/unary_call.h"
#include "dataflow/distributed/graph_worker.h"
#include "proto/distributed/worker_service.grpc.pb.h"

namespace rivulet {

class WorkerService final : public tensorflow::WorkerService::CallbackService {
 public:
  // RecvTensor is answered from the tensor's memory (tensor_stream.h), and not by a message.
  WorkerService(std::shared_ptr<GraphWorker> worker, TaskCallers callers);

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const tensorflow::GetStatusRequest* request,
                                      tensorflow::GetStatusResponse* response) override;
  grpc::ServerUnaryReactor* CreateWorkerSession(grpc::CallbackServerContext* context,
                                                const tensorflow::CreateWorkerSessionRequest* request,
                                                tensorflow::CreateWorkerSessionResponse* response) override;
  grpc::ServerUnaryReactor* DeleteWorkerSession(grpc::CallbackServerContext* context,
                                                const tensorflow::DeleteWorkerSessionRequest* request,
                                                tensorflow::DeleteWorkerSessionResponse* response) override;
  grpc::ServerUnaryReactor* RegisterGraph(grpc::CallbackServerContext* context,
                                          const tensorflow::RegisterGraphRequest* request,
                                          tensorflow::RegisterGraphResponse* response) override;
  grpc::ServerUnaryReactor* DeregisterGraph(grpc::CallbackServerContext* context,
                                            const tensorflow::DeregisterGraphRequest* request,
                                            tensorflow::DeregisterGraphResponse* response) override;
  grpc::ServerUnaryReactor* RunGraph(grpc::CallbackServerContext* context, const tensorflow::RunGraphRequest* request,
                                     tensorflow::RunGraphResponse* response) override;
  grpc::ServerUnaryReactor* CleanupGraph(grpc::CallbackServerContext* context,
                                         const tensorflow::CleanupGraphRequest* request,
                                         tensorflow::CleanupGraphResponse* response) override;
  grpc::ServerUnaryReactor* CleanupAll(grpc::CallbackServerContext* context,
                                       const tensorflow::CleanupAllRequest* request,
                                       tensorflow::CleanupAllResponse* response) override;
  grpc::ServerUnaryReactor* MarkRecvFinished(grpc::CallbackServerContext* context,
                                             const tensorflow::MarkRecvFinishedRequest* request,
                                             tensorflow::MarkRecvFinishedResponse* response) override;

 private:
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext* context, const Request* request, Response* response);

  const std::shared_ptr<GraphWorker> worker_;
  const TaskCallers callers_;
};

}  // namespace rivulet
