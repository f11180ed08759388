// A session over several tasks: places a graph on the devices of all of them, registers each task's part of a step
// once, and runs steps. TensorFlow's master without its wire.
//
//   Create ──→ (Extend, RunStep, SetUpPartialRun → RunPartialStep*)* ──→ Close
//
// Tensors travel from task to task; only feeds and fetches come through here. A step computes the
// bits that a Session of one process does: placement never decides values, and random ops draw by the step's number,
// which travels with it.
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
  std::string handle;  // unlike those of all other sessions of these tasks
  uint64_t seed = 0;
  DevicePlacerOptions placement;  // cpus and gpus do not count: the tasks say what they have
  bool isolate_session_state = false;
  bool static_graph = false;                                             // Extend is refused
  std::chrono::milliseconds operation_timeout{0};                        // of steps that state none; 0: none
  std::chrono::milliseconds control_timeout = std::chrono::seconds(30);  // of the calls beside RunGraph
  // How often tasks are asked whether they are alive while a step runs.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);
  size_t max_steps = 1024;  // registered ones: names of feeds, fetches and targets
};

struct MasterStep {
  std::vector<std::pair<std::string, Tensor>> feeds;
  std::vector<std::string> fetches, targets;
  std::chrono::milliseconds timeout{0};  // 0: the session's
  // Receives what the tasks record of a step that succeeds, in the time of this machine (join_traces.h). Null: nothing;
  // not of partial steps.
  std::shared_ptr<proto::RunMetadata> metadata = nullptr;
  bool trace = false, output_partition_graphs = false;  // as in RunOptions
};

// Thread-safe. `done` callbacks come on threads of a pool.
class MasterSession {
 public:
  using StepDone = std::function<void(StatusOr<std::vector<Tensor>>)>;

  // Asks all tasks for their devices, and makes a session at each; blocks meanwhile. UNAVAILABLE: a task cannot be
  // reached, by name. Errors of PlaceGraph.
  static StatusOr<std::shared_ptr<MasterSession>> Create(Graph graph, MasterSessionOptions options,
                                                         std::vector<std::shared_ptr<RemoteTask>> tasks);
  ~MasterSession();  // as Close
  MasterSession(const MasterSession&) = delete;
  MasterSession& operator=(const MasterSession&) = delete;

  const std::string& handle() const;
  const std::vector<TaskDevice>& devices() const;
  int64_t graph_version() const;

  // Adds the nodes of a GraphDef. FAILED_PRECONDITION: the graph has another version than `current_version`, or is
  // static. Errors of ExtendedGraph and PlaceGraph.
  Status Extend(std::string_view graph_def, int64_t current_version);

  // Plans and registers what was not run before, which blocks; the step itself holds no thread. Errors of
  // Session::Run, with TensorFlow's code where a placeholder is not fed (INVALID_ARGUMENT). UNAVAILABLE: a task is
  // gone, by name; all others have ended the step then. ABORTED: a task was restarted since the session began.
  // DEADLINE_EXCEEDED: the time is up. CANCELLED.
  void RunStep(MasterStep step, const CancellationToken& cancel, StepDone done);

  // A step in pieces, as PartialRun. The handle of a new one.
  StatusOr<std::string> SetUpPartialRun(const std::vector<std::string>& feeds, const std::vector<std::string>& fetches,
                                        const std::vector<std::string>& targets);
  // `done` gets the fetches. INVALID_ARGUMENT: a name that was not given at the set-up, a second feed or fetch of one
  // tensor, an unknown handle.
  void RunPartialStep(const std::string& handle, MasterStep step, const CancellationToken& cancel, StepDone done);

  // Forgets variables and queues of these containers at all tasks; of the default one when none is named.
  Status Reset(const std::vector<std::string>& containers);
  // Ends all steps with CANCELLED, refuses later ones, and deletes the tasks' sessions.
  void Close();

 private:
  struct State;
  explicit MasterSession(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State> state_;
};

// The devices of all tasks, in the tasks' order; blocks. UNAVAILABLE names the task.
StatusOr<std::vector<TaskDevice>> DevicesOf(std::span<const std::shared_ptr<RemoteTask>> tasks,
                                            std::chrono::milliseconds timeout);

}  // namespace rivulet
