#include "dataflow/cluster/task_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/support/server_interceptor.h>

#include <map>
#include <mutex>

#include "dataflow/cluster/allowed_ops.h"
#include "dataflow/cluster/grpc_task.h"
#include "dataflow/cluster/master.h"
#include "dataflow/cluster/master_service.h"
#include "dataflow/cluster/wire.h"
#include "dataflow/cluster/worker_service.h"
#include "rpc/grpc_options.h"

namespace rivulet {
namespace {

// Calls of a connection that are under way at once; more wait at their client. Receives wait for their sends, and a
// step may have many.
constexpr int kMostClusterCalls = 1 << 16;
// Threads that answer calls of sessions, and of tasks: sessions wait for tasks, and so must not take their threads.
constexpr int kMasterThreads = 16, kWorkerThreads = 8;
// Of gRPC for the messages of all connections together: room for two of the largest, in and out.
constexpr size_t kQuota = 4 * static_cast<size_t>(kMaxClusterMessageBytes);

using CallObserver = std::function<void(std::string_view method, bool answering)>;

// Tells an observer of one call.
class ObservedCall final : public grpc::experimental::Interceptor {
 public:
  ObservedCall(const CallObserver& observer, const char* method) : observer_(observer), method_(method) {
    observer_(method_, /*answering=*/false);
  }
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS))
      observer_(method_, /*answering=*/true);
    methods->Proceed();
  }

 private:
  const CallObserver& observer_;  // of the server
  const std::string method_;
};

class ObservedCalls final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit ObservedCalls(CallObserver observer) : observer_(std::move(observer)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* call) override {
    return new ObservedCall(observer_, call->method());
  }

 private:
  const CallObserver observer_;
};

class Server final : public TaskServer {
 public:
  Server(ClusterTask task, std::unique_ptr<ServerSecurity> security, std::shared_ptr<GraphWorker> worker,
         std::vector<std::shared_ptr<RemoteTask>> tasks, MasterOptions options)
      : task_(std::move(task)),
        security_(std::move(security)),
        worker_(worker),
        master_(std::move(tasks), task_.name(), std::move(options)),
        worker_service_(worker, TaskCallers(*security_, std::make_shared<ThreadPool>("tasks", kWorkerThreads))),
        master_service_(master_, TaskCallers(*security_, std::make_shared<ThreadPool>("sessions", kMasterThreads))) {}
  ~Server() override { Stop(std::chrono::milliseconds(0)); }

  Status Listen(CallObserver on_call) {
    grpc::ServerBuilder builder;
    if (on_call) {
      std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> observers;
      observers.push_back(std::make_unique<ObservedCalls>(std::move(on_call)));
      builder.experimental().SetInterceptorCreators(std::move(observers));
    }
    SetCommonArguments([&](const std::string& name, int value) {
      if (name != GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH) builder.AddChannelArgument(name, value);
    });
    builder.SetMaxReceiveMessageSize(kMaxClusterMessageBytes);
    builder.SetMaxSendMessageSize(kMaxClusterMessageBytes);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostClusterCalls);
    grpc::ResourceQuota quota("tasks");
    quota.Resize(kQuota);
    builder.SetResourceQuota(quota);
    builder.RegisterService(&worker_service_);
    builder.RegisterService(&master_service_);
    int port = 0;
    builder.AddListeningPort(task_.address.ToString(), security_->credentials(), &port);
    grpc_ = builder.BuildAndStart();
    if (grpc_ == nullptr || port == 0)
      return Unavailable("cannot listen on {}: the address is in use, not this machine's, or not permitted",
                         task_.address.ToString());
    return absl::OkStatus();
  }

  const ClusterTask& task() const override { return task_; }
  const GraphWorker& worker() const override { return *worker_; }
  void Stop(std::chrono::milliseconds grace) override {
    if (grpc_ == nullptr) return;
    grpc_->Shutdown(std::chrono::system_clock::now() + grace);
    grpc_->Wait();
    grpc_ = nullptr;
  }

 private:
  const ClusterTask task_;
  const std::unique_ptr<ServerSecurity> security_;
  const std::shared_ptr<GraphWorker> worker_;
  Master master_;
  WorkerService worker_service_;
  MasterService master_service_;
  std::unique_ptr<grpc::Server> grpc_;
};

}  // namespace

StatusOr<std::unique_ptr<TaskServer>> TaskServer::Start(TaskServerOptions options) {
  RIVULET_ASSIGN_OR_RETURN(const ClusterTask task, options.cluster.Task(options.job, options.task));
  RIVULET_RETURN_IF_ERROR(options.credentials->Check(task.address));
  // The library prints a line for each field that is not well-formed: a stranger could send as many as he likes.
  static std::once_flag quiet;
  std::call_once(quiet, [] { google::protobuf::SetLogHandler(nullptr); });
  PrepareGrpc();
  RIVULET_RETURN_IF_ERROR(CheckRoomForGrpc());
  // Peers refer to each other by name. The directory is complete before the first call can come.
  const auto peers = std::make_shared<std::map<std::string, std::shared_ptr<RemoteTask>>>();
  options.worker.task = task.name();
  if (!options.worker.allow) options.worker.allow = CheckAllowedOps;
  RIVULET_ASSIGN_OR_RETURN(
      const std::shared_ptr<GraphWorker> worker,
      GraphWorker::Create(options.worker, [peers](const std::string& name) -> std::shared_ptr<RemoteTask> {
        const auto found = peers->find(name);
        return found == peers->end() ? nullptr : found->second;
      }));
  std::vector<std::shared_ptr<RemoteTask>> tasks;
  for (const ClusterTask& other : options.cluster.tasks()) {
    if (other.name() == task.name()) {
      tasks.push_back(worker);
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<RemoteTask> peer, GrpcTask(other, options.credentials));
    (*peers)[other.name()] = peer;
    tasks.push_back(std::move(peer));
  }
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<ServerSecurity> security, options.credentials->ForServer());
  MasterOptions master;
  master.max_sessions = options.max_sessions;
  master.allow = options.worker.allow;
  master.control_timeout = options.control_timeout;
  master.heartbeat = options.heartbeat;
  auto server = std::make_unique<Server>(task, std::move(security), worker, std::move(tasks), std::move(master));
  RIVULET_RETURN_IF_ERROR(server->Listen(std::move(options.on_call)));
  return server;
}

}  // namespace rivulet
