// Private members of a session, for session.cc and partial_run.cc.
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
  std::shared_ptr<RemoteSession> remote;  // null: runs here; else only `graphs` is used besides
  std::shared_ptr<ResourceManager> resources;
  std::shared_ptr<Placer> placer;              // null: no placement
  std::shared_ptr<DevicePlacer> costs_wanted;  // for placement by measured costs
  std::shared_ptr<SessionVariables> variables;
  std::shared_ptr<PartRunner> parts;
  const std::shared_ptr<ActiveRuns> active = std::make_shared<ActiveRuns>();
  std::atomic<uint64_t> step{0};

  mutable Mutex graph_mutex;
  // The last one is the session's; earlier ones stay alive for references to them.
  std::vector<std::shared_ptr<const Graph>> graphs GUARDED_BY(graph_mutex);
  Mutex extend_mutex;  // held by one Extend at a time

  OnceCache<const RunPlan> plans;

  Mutex pools_mutex;
  std::vector<std::shared_ptr<ThreadPool>> pools GUARDED_BY(pools_mutex);  // created at first use

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
  // Adds the graph's variables and makes it the session's graph.
  Status Adopt(Graph graph);
};

// INVALID_ARGUMENT: no tensor, or one with another type or shape than in the graph.
Status CheckFeed(const std::string& name, const Tensor& value, const TensorSpec& spec);

}  // namespace rivulet
