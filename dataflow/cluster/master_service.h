// The sessions of this process behind `/tensorflow.MasterService/`. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include "dataflow/cluster/master.h"
#include "dataflow/cluster/unary_call.h"
#include "proto/distributed/master_service.grpc.pb.h"

namespace rivulet {

class MasterService final : public tensorflow::MasterService::CallbackService {
 public:
  // `master` must outlive this.
  MasterService(Master& master, TaskCallers callers) : master_(master), callers_(std::move(callers)) {}

  grpc::ServerUnaryReactor* CreateSession(grpc::CallbackServerContext* context,
                                          const tensorflow::CreateSessionRequest* request,
                                          tensorflow::CreateSessionResponse* response) override;
  grpc::ServerUnaryReactor* ExtendSession(grpc::CallbackServerContext* context,
                                          const tensorflow::ExtendSessionRequest* request,
                                          tensorflow::ExtendSessionResponse* response) override;
  grpc::ServerUnaryReactor* PartialRunSetup(grpc::CallbackServerContext* context,
                                            const tensorflow::PartialRunSetupRequest* request,
                                            tensorflow::PartialRunSetupResponse* response) override;
  grpc::ServerUnaryReactor* RunStep(grpc::CallbackServerContext* context, const tensorflow::RunStepRequest* request,
                                    tensorflow::RunStepResponse* response) override;
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context,
                                         const tensorflow::CloseSessionRequest* request,
                                         tensorflow::CloseSessionResponse* response) override;
  grpc::ServerUnaryReactor* ListDevices(grpc::CallbackServerContext* context,
                                        const tensorflow::ListDevicesRequest* request,
                                        tensorflow::ListDevicesResponse* response) override;
  grpc::ServerUnaryReactor* Reset(grpc::CallbackServerContext* context, const tensorflow::ResetRequest* request,
                                  tensorflow::ResetResponse* response) override;

 private:
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext* context, const Request* request, Response* response);

  Master& master_;
  const TaskCallers callers_;
};

}  // namespace rivulet
