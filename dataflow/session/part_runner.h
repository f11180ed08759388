// Compiler and runner of a run's parts: programs by shape, instances, arenas and variables of one session.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataflow/placement/cost_model.h"
#include "dataflow/resources/resource_manager.h"
#include "dataflow/session/once_cache.h"
#include "dataflow/session/run_plan.h"
#include "dataflow/session/run_trace.h"
#include "dataflow/session/variable.h"
#include "engine/base/mutex.h"
#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"
#include "engine/program/program.h"

namespace rivulet {

class Rendezvous;

// State shared by all parts of one run.
struct RunInfo {
  StreamKey rng;
  uint64_t step = 0;
  CancellationToken cancel;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  int64_t max_loop_steps = -1;
  RunObserver* observer = nullptr;
  Mutex* observer_mutex = nullptr;         // held around each observed part, if the observer is not thread-safe
  bool report_allocations = false;         // adds a report to errors about memory
  RunTrace* trace = nullptr;               // records the parts' work
  CostObserver* costs = nullptr;           // a further observer
  std::shared_ptr<Rendezvous> rendezvous;  // null: the run's own
};

// The variables named by a session's graphs. Thread-safe.
class SessionVariables {
 public:
  explicit SessionVariables(std::shared_ptr<ResourceManager> resources) : resources_(std::move(resources)) {}
  // Finds or creates the variable of every VarHandleOp of `graph`. INVALID_ARGUMENT: two with one name differ in type,
  // shape or container. RESOURCE_EXHAUSTED: no memory. On an error none is added.
  Status Add(const Graph& graph);
  // Creates it again if its container was reset. NOT_FOUND names the nearest.
  StatusOr<std::shared_ptr<VariableResource>> Find(std::string_view name) const;
  std::vector<std::string> names() const;  // in order of creation
  ResourceManager& resources() const { return *resources_; }

 private:
  struct Entry {
    std::string name, container;
    TensorSpec spec;
    std::weak_ptr<VariableResource> variable;
  };
  StatusOr<std::shared_ptr<VariableResource>> Resolve(const Entry& entry) const;
  const std::shared_ptr<ResourceManager> resources_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);
  std::map<std::string, size_t, std::less<>> by_name_ GUARDED_BY(mutex_);
};

// Arenas that no run is using. Thread-safe.
class ArenaPool {
 public:
  explicit ArenaPool(std::shared_ptr<MemoryBudget> memory) : memory_(std::move(memory)) {}
  // Returns the smallest idle arena of at least `bytes`, or a new one. RESOURCE_EXHAUSTED, after freeing idle ones.
  StatusOr<BudgetedBuffer> Take(size_t bytes);
  void Give(BudgetedBuffer arena);

 private:
  const std::shared_ptr<MemoryBudget> memory_;
  Mutex mutex_;
  std::vector<BudgetedBuffer> idle_ GUARDED_BY(mutex_);
};

class PartRunner {
 public:
  PartRunner(CompileOptions options, std::shared_ptr<SessionVariables> variables, std::shared_ptr<MemoryBudget> memory,
             size_t max_programs, std::vector<std::shared_ptr<GpuDevice>> gpus = {});
  ~PartRunner();

  // `key` is a unique name of the part in the session; `inputs` are those of the part. Compiles a program for the
  // inputs' shapes if needed. Runs that only read a variable are concurrent; one that changes it excludes all others.
  // Errors of CompileProgram and Instance::Run; FAILED_PRECONDITION: a variable is read before it has a value. The
  // calling thread must be a worker thread.
  StatusOr<std::vector<Tensor>> Run(const PlanPart& part, std::string_view key, std::span<const Tensor> inputs,
                                    const RunInfo& info);
  // The program that Run would use. Compiles it if needed.
  StatusOr<std::shared_ptr<const Program>> Compile(const PlanPart& part, std::string_view key,
                                                   std::span<const Tensor> inputs);

  const CompileOptions& options() const { return options_; }
  size_t programs() const;  // number of cached programs

 private:
  struct Compiled;
  struct Worker;
  StatusOr<std::shared_ptr<Compiled>> Find(const PlanPart& part, std::string_view key, std::span<const Tensor> inputs);
  StatusOr<std::shared_ptr<Compiled>> CompilePart(const PlanPart& part, std::span<const Tensor> inputs);
  StatusOr<std::shared_ptr<const Program>> CompileFor(const std::string& device, const Graph& graph,
                                                      const Signature& signature) const;
  Status WithReport(Status status, const Program& program) const;

  const CompileOptions options_;
  const std::vector<std::shared_ptr<GpuDevice>> gpus_;  // by device number
  const std::shared_ptr<SessionVariables> variables_;
  ArenaPool arenas_;
  OnceCache<Compiled> programs_;
};

}  // namespace rivulet
