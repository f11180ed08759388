// Calls between the tasks of one graph, as plain functions: TensorFlow's worker protocol without its wire.
// dataflow/cluster implements them over gRPC. GraphWorker is the task of this process.
//
//   GetStatus ──→ CreateWorkerSession ──→ RegisterGraph ──→ (RunGraph, RecvTensor, CleanupGraph)* ──→
//   DeleteWorkerSession
//
// A master makes all of them but RecvTensor, by which a task fetches from another one while both run a step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/cancellation.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

namespace proto {
class RunMetadata;  // proto/graph/run_metadata.pb.h
}  // namespace proto

struct TaskDevice {
  std::string name;  // "/job:worker/replica:0/task:1/device:CPU:0"
  std::string type;  // "CPU"
  int64_t memory_limit = 0;
  uint64_t incarnation = 0;  // drawn when the task's process starts
};

struct WorkerSessionRequest {
  std::string session;
  bool isolate_session_state = false;  // variables and queues are this session's alone
};

struct GraphRegistration {
  std::string session;
  std::string graph_def;  // the task's part of a step, with _Send and _Recv, every node with its device
  uint64_t seed = 0;      // of random ops
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// What a task records of its part of a step, if it is asked for and its owner lets it (GraphWorkerOptions::send).
// Filled before the answer.
struct TaskTrace {
  bool step_stats = false, partition_graphs = false;  // what is asked for
  std::shared_ptr<proto::RunMetadata> metadata;       // null: nothing
  // By the task's clock, since 1970: when the call came, and when its answer left. 0: the task does not say.
  int64_t received_nanos = 0, answered_nanos = 0;
};

// One step of a registered graph. `send` are stored under their keys before it runs, `recv` are taken after it.
// A partial step is a series of calls of one id: the first starts it, and each takes what it names as soon as that is
// there; the last one also waits for the end.
struct TaskStep {
  std::string session, graph;
  int64_t id = 0;  // random
  NamedTensors send;
  std::vector<std::string> recv;
  std::optional<uint64_t> number;  // of the step in its session: random ops draw by it
  bool partial = false, last = false;
  std::shared_ptr<TaskTrace> trace;  // null: nobody wants one; not of partial steps
};

// Thread-safe. Nothing blocks: `done` is called exactly once, on any thread, perhaps before the call returns.
// UNAVAILABLE, from all: the task cannot be reached; the message names it.
class RemoteTask {
 public:
  using Done = std::function<void(Status)>;
  using DevicesDone = std::function<void(StatusOr<std::vector<TaskDevice>>)>;
  using HandleDone = std::function<void(StatusOr<std::string>)>;
  using TensorsDone = std::function<void(StatusOr<NamedTensors>)>;
  using TensorDone = std::function<void(StatusOr<Tensor>)>;
  virtual ~RemoteTask() = default;

  virtual const std::string& name() const = 0;  // "/job:worker/replica:0/task:1"
  virtual void GetStatus(const CancellationToken& cancel, DevicesDone done) = 0;
  // ALREADY_EXISTS: there is one of this handle. RESOURCE_EXHAUSTED: the task has as many as it may have.
  virtual void CreateWorkerSession(WorkerSessionRequest request, Done done) = 0;
  virtual void DeleteWorkerSession(const std::string& session, Done done) = 0;
  // ABORTED: the task has no such session; it may have been restarted. Otherwise the errors of ParseGraph.
  virtual void RegisterGraph(GraphRegistration request, HandleDone done) = 0;
  virtual void DeregisterGraph(const std::string& session, const std::string& graph, Done done) = 0;
  // ABORTED: no such session or graph. Otherwise the errors of Session::Run.
  virtual void RunGraph(TaskStep step, const CancellationToken& cancel, TensorsDone done) = 0;
  // Waits for the send of `key`, which may come before the step's RunGraph does. ABORTED: the key is of another
  // incarnation of the sending device, or the step has failed.
  virtual void RecvTensor(int64_t step, const std::string& key, const CancellationToken& cancel, TensorDone done) = 0;
  // Drops what the step has left.
  virtual void CleanupGraph(int64_t step, Done done) = 0;
  // Forgets variables and queues of these containers; of the default one when none is named.
  virtual void CleanupAll(std::vector<std::string> containers, Done done) = 0;
};

// The task of a name, or null.
using TaskDirectory = std::function<std::shared_ptr<RemoteTask>(const std::string& task)>;

}  // namespace rivulet
