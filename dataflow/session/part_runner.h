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

// What all parts of one run have in common.
struct RunInfo {
  StreamKey rng;
  uint64_t step = 0;
  CancellationToken cancel;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  int64_t max_loop_steps = -1;
  RunObserver* observer = nullptr;
  Mutex* observer_mutex = nullptr;  // held around each part that is observed, where the observer knows one thread
  bool report_allocations = false;  // in errors about memory
  RunTrace* trace = nullptr;        // notes what parts do
  CostObserver* costs = nullptr;    // watches too
  std::shared_ptr<Rendezvous> rendezvous;  // null: the run's own
};

// The variables that a session's graphs name. Thread-safe.
class SessionVariables {
 public:
  explicit SessionVariables(std::shared_ptr<ResourceManager> resources) : resources_(std::move(resources)) {}
  // Finds or makes the variable of every VarHandleOp of `graph`. INVALID_ARGUMENT: two of one name that differ in type,
  // shape or container. RESOURCE_EXHAUSTED: no memory. On an error none was added.
  Status Add(const Graph& graph);
  // Made again where its container was reset. NOT_FOUND names the nearest.
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
  // The smallest idle one of at least `bytes`, or a new one. RESOURCE_EXHAUSTED, after all idle ones were given back.
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

  // `key` names the part, unlike all others of the session; `inputs` are those of the part. Compiles a program for the
  // shapes that came where there is none yet. Runs that only read a variable go on at once; one that changes it waits
  // for them and they for it. Errors of CompileProgram and Instance::Run; FAILED_PRECONDITION: a variable is read
  // before it has a value. The calling thread must be a worker thread.
  StatusOr<std::vector<Tensor>> Run(const PlanPart& part, std::string_view key, std::span<const Tensor> inputs,
                                    const RunInfo& info);
  // The program that Run would use. Compiles it where needed.
  StatusOr<std::shared_ptr<const Program>> Compile(const PlanPart& part, std::string_view key,
                                                   std::span<const Tensor> inputs);

  const CompileOptions& options() const { return options_; }
  size_t programs() const;  // held now

 private:
  struct Compiled;
  struct Worker;
  StatusOr<std::shared_ptr<Compiled>> Find(const PlanPart& part, std::string_view key, std::span<const Tensor> inputs);
  StatusOr<std::shared_ptr<Compiled>> CompilePart(const PlanPart& part, std::span<const Tensor> inputs);
  StatusOr<std::shared_ptr<const Program>> CompileFor(const std::string& device, const Graph& graph,
                                                      const Signature& signature) const;
  Status WithReport(Status status, const Program& program) const;

  const CompileOptions options_;
  const std::vector<std::shared_ptr<GpuDevice>> gpus_;  // by number
  const std::shared_ptr<SessionVariables> variables_;
  ArenaPool arenas_;
  OnceCache<Compiled> programs_;
};

}  // namespace rivulet
