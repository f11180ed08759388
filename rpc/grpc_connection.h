// One connection to a server, and calls on it. For classes that implement a service's interface over gRPC.
//
//   ClientConnection ──→ ClientChannel, made anew after its certificate has been replaced
//       └──→ ClientCalls ←── ClientCall, one each
//
// Time is measured by the monotonic clock: a machine whose time is set back must not wait longer. gRPC's timers wait on
// the wall clock. After such a change they are late until another timer wakes them, so nothing here waits for one of
// them alone.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "engine/base/mutex.h"
#include "rpc/credentials.h"
#include "rpc/grpc_options.h"
#include "rpc/security.h"

namespace rivulet {

// The calls in flight, so that Cancel can end them. A blocked call cannot be woken otherwise. A call that is added
// after Cancel is cancelled at once, so none slips through between the two. Thread-safe.
class ClientCalls {
 public:
  ClientCalls() = default;
  ~ClientCalls();  // it must be empty
  ClientCalls(const ClientCalls&) = delete;
  ClientCalls& operator=(const ClientCalls&) = delete;

  // False: the connection is being closed.
  bool Add(grpc::ClientContext* context);
  // The stream of `context` has progressed: from now on it is cancelled if nothing more moves for `patience`.
  void Moved(grpc::ClientContext* context, std::chrono::milliseconds patience);
  // Whether it was cancelled for that reason.
  bool stalled(grpc::ClientContext* context) const;
  void Remove(grpc::ClientContext* context);
  void Cancel();
  bool cancelled() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    Clock::time_point patient_until = Clock::time_point::max();
    bool stalled = false;
  };
  void Watch();

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<grpc::ClientContext*, State> calls_ GUARDED_BY(mutex_);
  bool cancelled_ GUARDED_BY(mutex_) = false;
  bool closing_ GUARDED_BY(mutex_) = false;
  bool watched_ GUARDED_BY(mutex_) = false;
  Clock::time_point wakes_ GUARDED_BY(mutex_) = Clock::time_point::max();  // when watch_ looks without a signal
  std::thread watch_;                                                      // from the first stream on
};

// One channel with its certificate. Running calls keep it; a new one is made when the certificate was replaced.
class ClientChannel {
 public:
  ClientChannel(std::unique_ptr<ChannelSecurity> security, const std::string& address,
                const grpc::ChannelArguments& arguments);
  ~ClientChannel();
  ClientChannel(const ClientChannel&) = delete;
  ClientChannel& operator=(const ClientChannel&) = delete;

  ChannelSecurity& security() { return *security_; }
  const std::shared_ptr<grpc::Channel>& channel() { return channel_; }
  grpc::GenericStub& raw() { return *raw_; }
  // Whether the last attempt to connect has failed; another one begins at its due time.
  bool failing() { return channel_->GetState(true) == GRPC_CHANNEL_TRANSIENT_FAILURE; }
  // Starts another attempt now.
  void TryAtOnce() { grpc::experimental::ChannelResetConnectionBackoff(channel_.get()); }
  // Advances a running attempt; returns once the channel is not failing any more, or after `slice`.
  void AwaitAttempt(std::chrono::milliseconds slice);

 private:
  std::unique_ptr<ChannelSecurity> security_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericStub> raw_;
  grpc::CompletionQueue news_;  // that it is not failing any more
  Mutex mutex_;
  bool asked_ GUARDED_BY(mutex_) = false;  // a notification in news_ is pending
};

class ClientConnection {
 public:
  // `what` names the server in messages: "coordinator".
  ClientConnection(std::string what, NetworkAddress server, std::shared_ptr<const TransportCredentials> credentials,
                   std::string proxy)
      : what_(std::move(what)),
        server_(std::move(server)),
        credentials_(std::move(credentials)),
        proxy_(std::move(proxy)) {}

  const NetworkAddress& server() const { return server_; }
  // "the coordinator at HOST:PORT cannot be reached", and the proxy if any; never a proxy's password.
  std::string Unreached() const;
  ClientCalls& calls() { return calls_; }
  // Waits for a running attempt to connect, at most two seconds.
  std::shared_ptr<ClientChannel> channel();

 private:
  std::shared_ptr<ClientChannel> Current();
  void Open() REQUIRES(mutex_);

  const std::string what_;
  const NetworkAddress server_;
  const std::shared_ptr<const TransportCredentials> credentials_;
  const std::string proxy_;
  ClientCalls calls_;
  Mutex mutex_;
  std::shared_ptr<ClientChannel> channel_ GUARDED_BY(mutex_);
};

// One call: its context, registered for Cancel, and the meaning of its end.
class ClientCall {
 public:
  // A call that ends within `timeout`.
  ClientCall(std::shared_ptr<ClientConnection> connection, std::chrono::milliseconds timeout);
  // A stream. It waits for its first answer as long as the connection lives, because the server may serve others first;
  // after that it is cancelled when nothing has moved for `patience`.
  struct Stream {
    std::chrono::milliseconds patience;
  };
  ClientCall(std::shared_ptr<ClientConnection> connection, Stream stream);
  ~ClientCall() { connection_->calls().Remove(&context_); }
  ClientCall(const ClientCall&) = delete;
  ClientCall& operator=(const ClientCall&) = delete;

  grpc::ClientContext* context() { return &context_; }
  // A stub of a generated service: call.StubOf<rpc::Coordinator>()->Poll(call.context(), …).
  template <typename Service>
  std::unique_ptr<typename Service::Stub> StubOf() {
    return Service::NewStub(channel_->channel());
  }
  grpc::GenericStub& raw() { return channel_->raw(); }
  void Moved() { connection_->calls().Moved(&context_, patience_); }

  // A client acts by the code alone: UNAVAILABLE means "try again". So every status that only means a lost
  // connection, in any of gRPC's forms, becomes that code, and a status from the server itself is
  // unchanged.
  Status End(const grpc::Status& status);

 private:
  using Clock = std::chrono::steady_clock;
  void Register();
  std::string Why(std::string_view message) const;

  std::shared_ptr<ClientConnection> connection_;
  std::shared_ptr<ClientChannel> channel_;
  Clock::time_point deadline_ = Clock::time_point::max();
  std::chrono::milliseconds patience_{0};
  grpc::ClientContext context_;
};

// Check before a connection to `server`, a `what`. INVALID_ARGUMENT: it has no port. FAILED_PRECONDITION: the
// credentials refuse this address. RESOURCE_EXHAUSTED: as CheckRoomForGrpc.
Status CheckReachable(std::string_view what, const NetworkAddress& server, const TransportCredentials& credentials);

}  // namespace rivulet
