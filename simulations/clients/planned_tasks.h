// Planned cost of tasks, known from their compiled programs before any of them runs: memory, for the number of training
// threads, and arithmetic, for the distribution of tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "federated/plan/plan.h"
#include "federated/transport/coordinator_api.h"
#include "simulations/clients/virtual_clients.h"

namespace rivulet {

class PlannedTasks {
 public:
  // Plans the tasks of the client with the most examples. Compiles its programs, which the tasks use later. Errors are
  // those of PassPrograms.
  static StatusOr<PlannedTasks> Create(VirtualClients& clients, const std::shared_ptr<const Plan>& plan);

  // Peak bytes of so many threads, each with a task and its sums, without decoded examples, which have a separate
  // budget.
  int64_t Memory(int threads) const { return shared_bytes_ + threads * thread_bytes_; }
  int64_t thread_bytes() const { return thread_bytes_; }
  // The number of threads, at most `wanted`, that fit into `bytes`; at least 1.
  int ThreadsWithin(int64_t bytes, int wanted) const;
  // Floating-point operations of a task over so many examples, over all its epochs, or the drawn number of
  // epochs with client.partial_work; at least 1, so that tasks of kernels without counts are compared by their
  // number.
  int64_t Cost(const Task& task, int64_t examples) const;
  // The same for an average task of this kind.
  int64_t MeanCost(TaskKind kind, int64_t examples) const;

 private:
  // The work of one pass over the examples.
  struct PassWork {
    LocalPass pass;
    double operations = 0;  // of one example
  };
  // `epochs` gives the number of repetitions of a pass.
  template <typename Epochs>
  int64_t CostOf(TaskKind kind, int64_t examples, const Epochs& epochs) const;

  int64_t shared_bytes_ = 0, thread_bytes_ = 0;
  std::map<TaskKind, std::vector<PassWork>> passes_;
};

// Bytes that a training task downloads of a version, and the most bytes of its update.
struct PlannedBytes {
  int64_t down = 0, up = 0;
};
StatusOr<PlannedBytes> BytesOfTask(const Plan& plan);

// Number of training threads, at most `wanted`, in a process with `memory` bytes (0: AvailableMemory). If it is
// smaller, `note` receives one sentence. A plan without a computable limit is not limited: its tasks report the reason.
int ThreadsToTrain(const StatusOr<PlannedTasks>& planned, int wanted, int64_t memory,
                   const std::function<void(const std::string& sentence)>& note);

}  // namespace rivulet
