// A channel to a task, made anew when a certificate was replaced, and calls on it. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "rpc/credentials.h"
#include "rpc/security.h"

namespace rivulet {

// Thread-safe.
class TaskChannel {
 public:
  // `name` is the task in errors.
  static StatusOr<std::shared_ptr<TaskChannel>> Create(std::string name, NetworkAddress address,
                                                       std::shared_ptr<const TransportCredentials> credentials);
  std::shared_ptr<grpc::Channel> channel();
  // The task has answered a call.
  void Answered();
  // The end of a call. What only says that the connection is gone, in whichever of its ways gRPC says it, becomes
  // UNAVAILABLE and names the task; what the task itself answered keeps its code.
  Status End(const grpc::Status& status);

 private:
  TaskChannel(std::string name, NetworkAddress address, std::shared_ptr<const TransportCredentials> credentials)
      : name_(std::move(name)), address_(std::move(address)), credentials_(std::move(credentials)) {}
  const std::string name_;
  const NetworkAddress address_;
  const std::shared_ptr<const TransportCredentials> credentials_;
  Mutex mutex_;
  std::shared_ptr<ChannelSecurity> security_ GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Channel> channel_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
