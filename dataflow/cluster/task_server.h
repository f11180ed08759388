// A task of a cluster as a server: both of TensorFlow's services on one port.
//
//   RIVULET_ASSIGN_OR_RETURN(ClusterSpec cluster, ClusterSpec::Parse("ps=h0:2222;worker=h1:2222,h2:2222"));
//   RIVULET_ASSIGN_OR_RETURN(auto server, TaskServer::Start({cluster, "worker", 1, InsecureCredentials(false)}));
//
// Sessions whose target is this address run over all tasks of the cluster. Under TLS a caller needs a certificate of
// the role `task`; TensorFlow itself speaks plaintext alone.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "certificates/role.h"
#include "dataflow/cluster/cluster_spec.h"
#include "dataflow/distributed/graph_worker.h"
#include "engine/base/status.h"
#include "rpc/credentials.h"

namespace rivulet {

// "task/ID": tasks, and clients of their sessions.
extern const Role kTaskRole;

struct TaskServerOptions {
  ClusterSpec cluster;
  std::string job;
  int task = 0;
  std::shared_ptr<const TransportCredentials> credentials;
  // What this task is given and may be asked for; its name is set from `job` and `task`.
  GraphWorkerOptions worker;
  size_t max_sessions = 64;  // whose master is this task
  std::chrono::milliseconds control_timeout = std::chrono::seconds(30);
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);
  // Told of each call, "/tensorflow.WorkerService/RunGraph": when it comes, and when its answer is about to be sent.
  // On threads of gRPC, which it must not hold up; null: nobody.
  std::function<void(std::string_view method, bool answering)> on_call;
};

class TaskServer {
 public:
  // NOT_FOUND: the cluster has no such task. FAILED_PRECONDITION: the credentials refuse an address of the cluster.
  // UNAVAILABLE: its address cannot be listened on.
  static StatusOr<std::unique_ptr<TaskServer>> Start(TaskServerOptions options);
  virtual ~TaskServer() = default;  // as Stop(0)
  virtual const ClusterTask& task() const = 0;
  virtual const GraphWorker& worker() const = 0;
  // Takes no new calls, gives those in flight `grace`, then ends them.
  virtual void Stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace rivulet
