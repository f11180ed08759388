// The task of this process: it runs its parts of steps for masters, and keeps their sent tensors until another task
// fetches them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataflow/distributed/remote_task.h"
#include "dataflow/distributed/send_list.h"
#include "dataflow/resources/resource_manager.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

class Dataset;  // engine/data/dataset.h

struct GraphWorkerOptions {
  std::string task;                       // "/job:worker/replica:0/task:1"
  size_t memory_limit_bytes = 0;          // limit of variables and arenas of all sessions together; 0: none
  size_t parked_bytes = size_t{1} << 30;  // limit of tensors that wait for their receive
  size_t max_sessions = 256;              // sessions that their masters have not ended
  size_t max_graphs = 1024;               // registered graphs per session
  size_t max_steps = 4096;                // running steps, and steps that are not cleaned up
  size_t max_waiting = 65'536;            // receives that wait for their send
  int threads = 0;                        // threads that run parts; 0: one per core
  // Decides whether a graph may run here (AllowedOps); null: any graph.
  std::function<Status(const Graph& graph)> allow;
  // Files of the task's owner, by the name in a graph's BoundDataset; sessions cannot unbind them.
  std::vector<std::pair<std::string, std::vector<std::shared_ptr<const Dataset>>>> data;
  // Tensors that may leave the task. nullopt: any; but none if `data` has a set. With a list, callers get only the code
  // of a step's error, because its message may quote values: that goes to `withheld` (null: dropped).
  std::optional<SendList> send;
  std::function<void(const std::string& message)> withheld;
  // Ended steps are forgotten after this time if their master did not clean up.
  std::chrono::seconds forget_after = std::chrono::minutes(10);
  // If there are too many sessions, those without a step for this long are removed: their master may be gone.
  std::chrono::milliseconds idle_after = std::chrono::hours(1);
};

// Thread-safe. Sessions without isolation share their variables and queues for the life of the process.
class GraphWorker final : public RemoteTask {
 public:
  // `peers`: the tasks from which keys are fetched. INVALID_ARGUMENT: not a task's name. ALREADY_EXISTS: two data sets
  // with one name.
  static StatusOr<std::shared_ptr<GraphWorker>> Create(GraphWorkerOptions options, TaskDirectory peers);
  ~GraphWorker() override;

  const std::string& name() const override;
  const TaskDevice& device() const;  // its CPU
  const std::shared_ptr<ResourceManager>& resources() const;
  size_t steps() const;  // not yet cleaned up
  size_t sessions() const;
  size_t parked_bytes() const;  // current total

  void GetStatus(const CancellationToken& cancel, DevicesDone done) override;
  void CreateWorkerSession(WorkerSessionRequest request, Done done) override;
  void DeleteWorkerSession(const std::string& session, Done done) override;
  void RegisterGraph(GraphRegistration request, HandleDone done) override;
  void DeregisterGraph(const std::string& session, const std::string& graph, Done done) override;
  void RunGraph(TaskStep step, const CancellationToken& cancel, TensorsDone done) override;
  void RecvTensor(int64_t step, const std::string& key, const CancellationToken& cancel, TensorDone done) override;
  void CleanupGraph(int64_t step, Done done) override;
  void CleanupAll(std::vector<std::string> containers, Done done) override;

 private:
  struct State;
  explicit GraphWorker(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State> state_;
};

}  // namespace rivulet
