// Members of a session; private to session.cc and partial_run.cc.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "dataflow/session/active_run.h"
#include "dataflow/session/execution.h"
#include "dataflow/session/once_cache.h"
#include "dataflow/session/part_runner.h"
#include "dataflow/session/remote_session.h"
#include "dataflow/session/run_plan.h"
#include "dataflow/session/run_trace.h"
#include "dataflow/session/session.h"
#include "dataflow/session/thread_pool.h"
#include "engine/base/mutex.h"

namespace rivulet {

struct Session::State {
  explicit State(const SessionConfig& given) : config(given), plans(given.max_programs) {}

  const SessionConfig config;
  std::shared_ptr<RemoteSession> remote;  // null: everything runs here; else nothing below is used but the graphs
  std::shared_ptr<ResourceManager> resources;
  std::shared_ptr<Placer> placer;              // null: there is none
  std::shared_ptr<DevicePlacer> costs_wanted;  // where placement goes by what runs cost
  std::shared_ptr<SessionVariables> variables;
  std::shared_ptr<PartRunner> parts;
  const std::shared_ptr<ActiveRuns> active = std::make_shared<ActiveRuns>();
  std::atomic<uint64_t> step{0};

  mutable Mutex graph_mutex;
  // The last one is the session's; earlier ones stay for those who hold a reference to them.
  std::vector<std::shared_ptr<const Graph>> graphs GUARDED_BY(graph_mutex);
  Mutex extend_mutex;  // held by one Extend at a time

  OnceCache<const RunPlan> plans;

  Mutex pools_mutex;
  std::vector<std::shared_ptr<ThreadPool>> pools GUARDED_BY(pools_mutex);  // made when first used

  std::shared_ptr<const Graph> graph() const {
    MutexLock lock(graph_mutex);
    return graphs.back();
  }

  // `key` receives the plan's name.
  StatusOr<std::shared_ptr<const RunPlan>> Plan(const RunNames& names, std::string* key);
  // The pool of a run; null: the calling thread. `always`: also for a run of one program.
  struct PoolChoice {
    std::shared_ptr<ThreadPool> pool;
    bool always = false;
  };
  StatusOr<PoolChoice> ChoosePool(const RunOptions& options);
  RunInfo InfoOf(const RunOptions& options, const ActiveRun& active_run, Mutex* observer_mutex);
  TraceWishes TraceOf(const RunOptions& options, uint64_t run) const;
  void DescribeSession(proto::RunMetadata& metadata) const;
  std::chrono::milliseconds TimeoutOf(const RunOptions& options) const {
    return options.timeout.count() > 0 ? options.timeout : config.operation_timeout;
  }
  // Adds the graph's variables and makes it the session's.
  Status Adopt(Graph graph);
};

// INVALID_ARGUMENT: no tensor, or one of another type or shape than the graph says.
Status CheckFeed(const std::string& name, const Tensor& value, const TensorSpec& spec);

}  // namespace rivulet
