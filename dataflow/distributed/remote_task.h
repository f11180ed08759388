// Calls between the tasks of one graph, as plain functions: TensorFlow's worker protocol without its encoding.
// dataflow/cluster implements them over gRPC. GraphWorker is the task of this process.
//
//   GetStatus ──→ CreateWorkerSession ──→ RegisterGraph ──→ (RunGraph, RecvTensor, CleanupGraph)* ──→
//   DeleteWorkerSession
//
// A master makes all of them except RecvTensor, by which a task fetches from another while both run a step.
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
  uint64_t incarnation = 0;  // random number per process of the task
};

struct WorkerSessionRequest {
  std::string session;
  bool isolate_session_state = false;  // variables and queues belong to this session alone
};

struct GraphRegistration {
  std::string session;
  std::string graph_def;  // the task's part of a step, with _Send and _Recv, every node with its device
  uint64_t seed = 0;      // of random ops
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// A task's trace of its part of a step, if requested and allowed by the task's owner (GraphWorkerOptions::send). Filled
// before the answer.
struct TaskTrace {
  bool step_stats = false, partition_graphs = false;  // the requested parts
  std::shared_ptr<proto::RunMetadata> metadata;       // null: none
  // By the task's clock, since 1970: arrival of the call, and departure of its answer. 0: not reported.
  int64_t received_nanos = 0, answered_nanos = 0;
};

// One step of a registered graph. `send` are stored under their keys before it runs, `recv` are taken after it. A
// partial step is a series of calls with one id: the first starts it, each takes its `recv` as soon as they are
// available, and the last also waits for the end.
struct TaskStep {
  std::string session, graph;
  int64_t id = 0;  // random
  NamedTensors send;
  std::vector<std::string> recv;
  std::optional<uint64_t> number;  // number of the step in its session, for random ops
  bool partial = false, last = false;
  std::shared_ptr<TaskTrace> trace;  // null: no trace; always null for partial steps
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
  // ALREADY_EXISTS: a session with this handle. RESOURCE_EXHAUSTED: the task's limit of sessions is reached.
  virtual void CreateWorkerSession(WorkerSessionRequest request, Done done) = 0;
  virtual void DeleteWorkerSession(const std::string& session, Done done) = 0;
  // ABORTED: the task has no such session; it may have been restarted. Otherwise the errors of ParseGraph.
  virtual void RegisterGraph(GraphRegistration request, HandleDone done) = 0;
  virtual void DeregisterGraph(const std::string& session, const std::string& graph, Done done) = 0;
  // ABORTED: no such session or graph. Otherwise the errors of Session::Run.
  virtual void RunGraph(TaskStep step, const CancellationToken& cancel, TensorsDone done) = 0;
  // Waits for the send of `key`, which may precede the step's RunGraph. ABORTED: the key has another incarnation of the
  // sending device, or the step has failed.
  virtual void RecvTensor(int64_t step, const std::string& key, const CancellationToken& cancel, TensorDone done) = 0;
  // Drops all data of the step.
  virtual void CleanupGraph(int64_t step, Done done) = 0;
  // Deletes variables and queues of these containers; of the default container if none is named.
  virtual void CleanupAll(std::vector<std::string> containers, Done done) = 0;
};

// Returns the task with this name, or null.
using TaskDirectory = std::function<std::shared_ptr<RemoteTask>(const std::string& task)>;

}  // namespace rivulet
