// A session over several tasks: places a graph on the devices of all of them, registers each task's part of a step
// once, and runs steps. TensorFlow's master without its wire.
//
//   Create ──→ (Extend, RunStep, SetUpPartialRun → RunPartialStep*)* ──→ Close
//
// Tensors are sent directly between tasks; only feeds and fetches pass through the master. A step computes the same
// bits as a Session in one process: placement never affects values, and random ops use the step's number, which is sent
// with the step.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataflow/distributed/remote_task.h"
#include "dataflow/placement/device_placer.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct MasterSessionOptions {
  std::string handle;  // unique among all sessions of these tasks
  uint64_t seed = 0;
  DevicePlacerOptions placement;  // cpus and gpus are ignored: the tasks report their devices
  bool isolate_session_state = false;
  bool static_graph = false;                                             // true: Extend is refused
  std::chrono::milliseconds operation_timeout{0};                        // for steps without their own timeout; 0: none
  std::chrono::milliseconds control_timeout = std::chrono::seconds(30);  // for all calls except RunGraph
  // Interval of heartbeats to tasks while a step runs.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);
  size_t max_steps = 1024;  // registered combinations of feeds, fetches and targets
};

struct MasterStep {
  std::vector<std::pair<std::string, Tensor>> feeds;
  std::vector<std::string> fetches, targets;
  std::chrono::milliseconds timeout{0};  // 0: the session's timeout
  // Receives the tasks' traces of a successful step, in this machine's time (join_traces.h). Null: none. Must be null
  // for partial steps.
  std::shared_ptr<proto::RunMetadata> metadata = nullptr;
  bool trace = false, output_partition_graphs = false;  // as in RunOptions
};

// Thread-safe. `done` callbacks run on threads of a pool.
class MasterSession {
 public:
  using StepDone = std::function<void(StatusOr<std::vector<Tensor>>)>;

  // Asks all tasks for their devices, and creates a session at each; blocks meanwhile. UNAVAILABLE: a task cannot be
  // reached; names the task. Errors of PlaceGraph.
  static StatusOr<std::shared_ptr<MasterSession>> Create(Graph graph, MasterSessionOptions options,
                                                         std::vector<std::shared_ptr<RemoteTask>> tasks);
  ~MasterSession();  // calls Close
  MasterSession(const MasterSession&) = delete;
  MasterSession& operator=(const MasterSession&) = delete;

  const std::string& handle() const;
  const std::vector<TaskDevice>& devices() const;
  int64_t graph_version() const;

  // Adds the nodes of a GraphDef. FAILED_PRECONDITION: the graph's version is not `current_version`, or the graph is
  // static. Errors of ExtendedGraph and PlaceGraph.
  Status Extend(std::string_view graph_def, int64_t current_version);

  // The first run of a combination plans and registers it, which blocks; the step itself holds no thread. Errors of
  // Session::Run, with TensorFlow's code for a placeholder without feed (INVALID_ARGUMENT). UNAVAILABLE: a task is gone
  // (names it); all others have then ended the step. ABORTED: a task was restarted since the session began.
  // DEADLINE_EXCEEDED: the timeout has passed. CANCELLED.
  void RunStep(MasterStep step, const CancellationToken& cancel, StepDone done);

  // Sets up a step in several calls, as in PartialRun. Returns a new handle.
  StatusOr<std::string> SetUpPartialRun(const std::vector<std::string>& feeds, const std::vector<std::string>& fetches,
                                        const std::vector<std::string>& targets);
  // `done` receives the fetches. INVALID_ARGUMENT: a name that is not in the set-up, a second feed or fetch of one
  // tensor, an unknown handle.
  void RunPartialStep(const std::string& handle, MasterStep step, const CancellationToken& cancel, StepDone done);

  // Deletes variables and queues of these containers at all tasks; of the default container if none is named.
  Status Reset(const std::vector<std::string>& containers);
  // Ends all steps with CANCELLED, refuses later ones, and deletes the tasks' sessions.
  void Close();

 private:
  struct State;
  explicit MasterSession(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State> state_;
};

// The devices of all tasks, in the tasks' order; blocks. UNAVAILABLE: names the task.
StatusOr<std::vector<TaskDevice>> DevicesOf(std::span<const std::shared_ptr<RemoteTask>> tasks,
                                            std::chrono::milliseconds timeout);

}  // namespace rivulet
