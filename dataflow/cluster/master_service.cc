#include "dataflow/cluster/master_service.h"

#include "dataflow/cluster/master_calls.h"

namespace rivulet {

template <typename Request, typename Response>
grpc::ServerUnaryReactor* MasterService::Start(grpc::CallbackServerContext* context, const Request* request,
                                               Response* response) {
  return UnaryCall::Start(context, callers_,
                          [this, request, response](const CancellationToken& cancel, const FinishCall& finish) {
                            AnswerCall(master_, *request, response, cancel, finish);
                          });
}

grpc::ServerUnaryReactor* MasterService::CreateSession(grpc::CallbackServerContext* context,
                                                       const tensorflow::CreateSessionRequest* request,
                                                       tensorflow::CreateSessionResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* MasterService::ExtendSession(grpc::CallbackServerContext* context,
                                                       const tensorflow::ExtendSessionRequest* request,
                                                       tensorflow::ExtendSessionResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* MasterService::PartialRunSetup(grpc::CallbackServerContext* context,
                                                         const tensorflow::PartialRunSetupRequest* request,
                                                         tensorflow::PartialRunSetupResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* MasterService::RunStep(grpc::CallbackServerContext* context,
                                                 const tensorflow::RunStepRequest* request,
                                                 tensorflow::RunStepResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* MasterService::CloseSession(grpc::CallbackServerContext* context,
                                                      const tensorflow::CloseSessionRequest* request,
                                                      tensorflow::CloseSessionResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* MasterService::ListDevices(grpc::CallbackServerContext* context,
                                                     const tensorflow::ListDevicesRequest* request,
                                                     tensorflow::ListDevicesResponse* response) {
  return Start(context, request, response);
}
grpc::ServerUnaryReactor* MasterService::Reset(grpc::CallbackServerContext* context,
                                               const tensorflow::ResetRequest* request,
                                               tensorflow::ResetResponse* response) {
  return Start(context, request, response);
}

}  // namespace rivulet
