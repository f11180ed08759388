// Unary calls of the cluster's services. A call checks its caller, runs on a pool, and cancels its handler's work when
// the caller is gone. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "dataflow/session/thread_pool.h"
#include "engine/base/status.h"
#include "engine/program/cancellation.h"
#include "rpc/grpc_options.h"
#include "rpc/security.h"

namespace rivulet {

// What the services have in common. Outlives the calls. Thread-safe.
class TaskCallers {
 public:
  TaskCallers(ServerSecurity& security, std::shared_ptr<ThreadPool> pool)
      : security_(security), pool_(std::move(pool)) {}
  // UNAUTHENTICATED, PERMISSION_DENIED: the caller may not call.
  Status Check(const grpc::ServerContextBase& context) const;
  ThreadPool& pool() const { return *pool_; }

 private:
  ServerSecurity& security_;
  const std::shared_ptr<ThreadPool> pool_;
};

// gRPC owns it from Start on, and calls OnDone last, whatever has become of the call.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  using Finish = std::function<void(const Status& status)>;
  // The handler may finish later, on any thread, once. Request and response stay until then.
  using Handler = std::function<void(const CancellationToken& cancel, Finish finish)>;

  // `handler` runs on the callers' pool: none of gRPC's threads waits for it.
  static grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext* context, const TaskCallers& callers,
                                         Handler handler);

 private:
  UnaryCall() = default;
  void OnCancel() override { cancel_.Cancel(); }
  void OnDone() override { delete this; }
  const CancellationToken cancel_ = CancellationToken::Create();
};

}  // namespace rivulet
