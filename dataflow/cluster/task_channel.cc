#include "dataflow/cluster/task_channel.h"

#include "dataflow/cluster/wire.h"
#include "rpc/grpc_connection.h"
#include "rpc/grpc_options.h"

namespace rivulet {

StatusOr<std::shared_ptr<TaskChannel>> TaskChannel::Create(std::string name, NetworkAddress address,
                                                           std::shared_ptr<const TransportCredentials> credentials) {
  PrepareGrpc();
  KeepCallbackThreads();
  RIVULET_RETURN_IF_ERROR(CheckReachable("task", address, *credentials));
  return std::shared_ptr<TaskChannel>(new TaskChannel(std::move(name), std::move(address), std::move(credentials)));
}

std::shared_ptr<grpc::Channel> TaskChannel::channel() {
  MutexLock lock(mutex_);
  if (channel_ != nullptr && !security_->Stale(/*at_once=*/false)) return channel_;
  security_ = credentials_->ForChannel(address_);
  grpc::ChannelArguments arguments;
  SetCommonArguments([&](const std::string& name, int value) {
    // TensorFlow's server closes a connection on which pings come more often than every five minutes. A machine that
    // vanished is noticed by the master's heartbeat.
    if (name == GRPC_ARG_KEEPALIVE_TIME_MS || name == GRPC_ARG_KEEPALIVE_TIMEOUT_MS ||
        name == GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS || name == GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH)
      return;
    arguments.SetInt(name, value);
  });
  arguments.SetMaxReceiveMessageSize(kMaxClusterMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxClusterMessageBytes);
  // A task that is restarted is back within a second.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  channel_ = grpc::CreateCustomChannel(address_.ToString(), security_->credentials(), arguments);
  return channel_;
}

void TaskChannel::Answered() {
  MutexLock lock(mutex_);
  if (security_ != nullptr) security_->Answered();
}

Status TaskChannel::End(const grpc::Status& status) {
  if (status.ok()) {
    Answered();
    return absl::OkStatus();
  }
  const std::string& text = status.error_message();
  const bool lost = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                    text.find("Stream removed") != std::string::npos || text.find("RST_STREAM") != std::string::npos ||
                    text.find("GOAWAY") != std::string::npos;
  if (status.error_details().empty() && lost) {
    std::string refusal;
    {
      MutexLock lock(mutex_);
      if (security_ != nullptr) refusal = security_->Refusal();
    }
    return Unavailable("'{}' at {} cannot be reached{}; its process may have ended", name_, address_.ToString(),
                       refusal.empty() ? "" : ": " + refusal);
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && status.error_details().empty())
    return Unavailable("'{}' at {} did not answer in time", name_, address_.ToString());
  return StatusFrom(static_cast<int>(status.error_code()), text);
}

}  // namespace rivulet
