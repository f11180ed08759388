// Execution of one run: starts parts and asynchronous ops when their inputs are ready.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "dataflow/resources/async_op.h"
#include "dataflow/session/part_runner.h"
#include "dataflow/session/run_plan.h"
#include "dataflow/session/thread_pool.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace rivulet {

// Inputs of an execution, which it keeps alive.
struct ExecutionEnvironment {
  std::shared_ptr<const RunPlan> plan;
  std::string plan_key;  // unique among the session's plans
  std::shared_ptr<PartRunner> parts;
  std::shared_ptr<ResourceManager> resources;
  std::shared_ptr<ThreadPool> pool;  // null: the waiting thread does the work, step by step
  int64_t priority = 0;              // in the pool
  RunInfo info;
};

// Create with std::make_shared. Call Start once; then Feed and Wait, from one thread at a time.
class Execution : public std::enable_shared_from_this<Execution> {
 public:
  explicit Execution(ExecutionEnvironment environment);

  // Call before Start, instead of Wait: `done` is called on a thread of the pool when all steps are done or the run has
  // failed.
  using Done = std::function<void(StatusOr<std::vector<Tensor>>)>;
  void WhenDone(Done done);
  // `feeds` in the plan's order; if feeds are steps, an empty tensor means that Feed will follow.
  void Start(std::vector<Tensor> feeds);
  // Provides a feed that is a step.
  void Feed(int feed, Tensor value);
  // Waits until the `fetches` (indices into the plan's) have values, or with `all` until every step is done, and moves
  // the values out. The first error ends the run: other steps are cancelled and awaited.
  StatusOr<std::vector<Tensor>> Wait(std::span<const int> fetches, bool all);
  // Cancels started steps and waits for them.
  void Abandon();

 private:
  struct AsyncCall;
  void Schedule(std::function<void()> closure);
  void RunStep(int step);
  Status RunPart(int step);
  // Returns true if the op was done before it returned (`status` has its result); else its callback continues the run.
  bool StartAsync(int step, Status* status);
  Status FinishAsync(int step, const AsyncCall& call, StatusOr<std::vector<Tensor>> outputs);
  Status RunCall(int step, const PlanAsync& async);
  Status Finish(int step, const Node& node, std::chrono::steady_clock::time_point begin,
                StatusOr<std::vector<Tensor>> outputs);
  std::vector<Tensor> TakeInputs(const std::vector<int>& values);
  // Marks the step as done or failed; returns the steps that can start now.
  std::vector<int> Complete(int step, const Status& status);
  StatusOr<std::shared_ptr<Resource>> ResourceOf(const Node& handle) const;
  void CallWhenDone();
  bool Settled(std::span<const int> fetches, bool all) const REQUIRES(mutex_);

  const ExecutionEnvironment environment_;
  const RunPlan& plan_;
  RunScope scope_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Tensor> values_ GUARDED_BY(mutex_);
  std::vector<bool> has_value_ GUARDED_BY(mutex_);
  std::vector<int> uses_ GUARDED_BY(mutex_);   // remaining uses of each value
  std::vector<int> waits_ GUARDED_BY(mutex_);  // remaining dependencies of each step
  int under_way_ GUARDED_BY(mutex_) = 0;       // steps that were started and are not done
  int left_ GUARDED_BY(mutex_) = 0;            // steps that are not done
  Status error_ GUARDED_BY(mutex_);
  Done when_done_ GUARDED_BY(mutex_);
  std::queue<std::function<void()>> own_work_ GUARDED_BY(mutex_);  // without a pool
};

}  // namespace rivulet
