#include "dataflow/session/session.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "dataflow/session/extend_graph.h"
#include "dataflow/session/session_state.h"
#include "engine/base/vlog.h"
#include "engine/graph/compose.h"
#include "engine/graph/function.h"
#include "engine/graphdef/graph_def.h"
#include "proto/graph/run_metadata.pb.h"

namespace rivulet {
namespace {

constexpr char kElsewhere[] =
    "the session runs at its target, which holds its variables; use Run, and fetch their reads";

}  // namespace

Status CheckFeed(const std::string& name, const Tensor& value, const TensorSpec& spec) {
  if (value.empty()) return InvalidArgument("the feed of '{}' is no tensor", name);
  if (value.dtype() == spec.dtype && Shape::Compatible(value.shape(), spec.shape)) return absl::OkStatus();
  return InvalidArgument("'{}' is {}{}, but is fed {}{}", name, Name(spec.dtype), spec.shape.ToString(),
                         Name(value.dtype()), value.shape().ToString());
}

// A run is described by a set of names, and few sets occur: each is planned once. The key has the names in the given
// order, because feeds and results are matched by position. A changed placement gives other plans.
StatusOr<std::shared_ptr<const RunPlan>> Session::State::Plan(const RunNames& names, std::string* key) {
  // Names contain no spaces or line ends.
  key->assign(names.feeds_come_later ? "later" : "");
  for (const std::string& name : names.feeds) key->append(name).append("\n");
  for (const std::string& name : names.fetches) key->append("|").append(name).append("\n");
  for (const std::string& name : names.targets) key->append("^").append(name).append("\n");
  if (placer != nullptr) key->append(fmt::format("@{}", placer->generation()));
  return plans.Get(*key, [&]() -> StatusOr<std::shared_ptr<const RunPlan>> {
    if (placer == nullptr) return PlanRun(graph(), names);
    RIVULET_ASSIGN_OR_RETURN(RunGraph run, PruneForRun(*graph(), names.feeds, names.fetches, names.targets));
    RIVULET_RETURN_IF_ERROR(placer->Partition(run));
    RunNames placed{std::move(run.feeds), std::move(run.fetches), std::move(run.targets), names.feeds_come_later,
                    /*placed=*/true};
    return PlanRun(std::make_shared<const Graph>(std::move(run.graph)), placed);
  });
}

StatusOr<Session::State::PoolChoice> Session::State::ChoosePool(const RunOptions& options) {
  if (options.use_run_handler_pool) {
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<ThreadPool> pool, ThreadPool::Shared("run_handler", 0));
    return PoolChoice{std::move(pool), true};
  }
  const size_t count = std::max<size_t>(1, config.inter_op_pools.size());
  if (options.inter_op_pool < -1 || options.inter_op_pool >= static_cast<int>(count))
    return InvalidArgument(
        "there is no inter-op pool {}; the session has {}, counted from 0, and -1 means the calling thread",
        options.inter_op_pool, count);
  if (options.inter_op_pool == -1 || config.single_threaded ||
      (config.inter_op_pools.empty() && config.inter_op_threads < 0))
    return PoolChoice{};
  const size_t index = static_cast<size_t>(options.inter_op_pool);
  MutexLock lock(pools_mutex);
  pools.resize(count);
  std::shared_ptr<ThreadPool>& pool = pools[index];
  if (pool == nullptr) {
    const InterOpPool asked =
        config.inter_op_pools.empty()
            ? InterOpPool{config.inter_op_threads,
                          config.per_session_threads ? "" : fmt::format("inter_op/{}", config.inter_op_threads)}
            : config.inter_op_pools[index];
    if (asked.global_name.empty()) {
      pool = std::make_shared<ThreadPool>(fmt::format("inter_op {}", index), asked.threads);
    } else {
      RIVULET_ASSIGN_OR_RETURN(pool, ThreadPool::Shared(asked.global_name, asked.threads));
    }
  }
  return PoolChoice{pool, !config.inter_op_pools.empty() || config.inter_op_threads > 0};
}

RunInfo Session::State::InfoOf(const RunOptions& options, const ActiveRun& active_run, Mutex* observer_mutex) {
  RunInfo info;
  info.rng.key.words = {static_cast<uint32_t>(config.seed), static_cast<uint32_t>(config.seed >> 32)};
  info.step = options.step.value_or(step.fetch_add(1));
  info.rendezvous = options.rendezvous;
  info.cancel = active_run.token();
  info.deadline = active_run.deadline();
  info.max_loop_steps = options.max_loop_steps;
  info.observer = options.observer;
  info.observer_mutex = options.observer_is_thread_safe ? nullptr : observer_mutex;
  info.report_allocations = options.report_allocations;
  return info;
}

TraceWishes Session::State::TraceOf(const RunOptions& options, uint64_t run) const {
  TraceWishes wishes;
  const auto every = [](uint64_t count, int64_t period) {
    return period > 0 && (count + 1) % static_cast<uint64_t>(period) == 0;
  };
  wishes.step_stats = options.trace || every(run, config.timeline_step);
  const uint64_t skipped = static_cast<uint64_t>(config.build_cost_model_after);
  wishes.cost_graph = run >= skipped && every(run - skipped, config.build_cost_model);
  wishes.partition_graphs = options.output_partition_graphs;
  wishes.output_shapes = config.infer_shapes;
  return wishes;
}

void Session::State::DescribeSession(proto::RunMetadata& metadata) const {
  if (config.metadata_name.empty() && config.metadata_version == 0) return;
  metadata.mutable_session_metadata()->set_name(config.metadata_name);
  metadata.mutable_session_metadata()->set_version(config.metadata_version);
}

// Variables first, because they may fail for lack of memory: then the session is unchanged. Old graphs are kept,
// because their runs may be in progress and plans point into them.
Status Session::State::Adopt(Graph graph) {
  RIVULET_RETURN_IF_ERROR(variables->Add(graph));
  auto adopted = std::make_shared<const Graph>(std::move(graph));
  if (placer != nullptr) RIVULET_RETURN_IF_ERROR(placer->OnGraph(*adopted));
  MutexLock lock(graph_mutex);
  graphs.push_back(std::move(adopted));
  return absl::OkStatus();
}

Session::Session() = default;

Session::~Session() { Close(); }

namespace {

// As many GPUs as nodes may be placed on, in order.
StatusOr<std::vector<std::shared_ptr<GpuDevice>>> OpenGpus(const SessionConfig& config) {
  std::vector<std::shared_ptr<GpuDevice>> devices;
  const int count = config.placement.has_value() ? config.placement->gpus : 0;
  const std::vector<int>& visible = config.gpus.visible;
  if (count == 0) return devices;
  if (!visible.empty() && static_cast<size_t>(count) > visible.size())
    return InvalidArgument("{} GPUs were asked for, and visible_device_list names {}", count, visible.size());
  const RivuletGpuApi* backend = config.gpus.backend;
  if (backend == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(backend, CudaBackend());
  }
  for (int i = 0; i < count; ++i) {
    const int number = visible.empty() ? i : visible[static_cast<size_t>(i)];
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<GpuDevice> device, GpuDevice::Open(*backend, number, config.gpus.options));
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace

StatusOr<std::unique_ptr<Session>> Session::Create(Graph graph, const SessionConfig& config) {
  for (const InterOpPool& pool : config.inter_op_pools)
    if (pool.threads < 0) return InvalidArgument("an inter-op pool cannot have {} threads", pool.threads);
  if (config.max_programs == 0) return InvalidArgument("a session keeps at least 1 program");
  std::unique_ptr<Session> session(new Session());
  session->state_ = std::make_shared<State>(config);
  State& state = *session->state_;
  if (!config.target.empty()) {
    RIVULET_ASSIGN_OR_RETURN(state.remote, OpenRemoteSession(SerializeGraph(graph), config));
    state.resources = std::make_shared<ResourceManager>();
    state.variables = std::make_shared<SessionVariables>(state.resources);
    MutexLock lock(state.graph_mutex);
    state.graphs.push_back(std::make_shared<const Graph>(std::move(graph)));
    return session;
  }
  state.placer = config.placer;
  if (config.placement.has_value()) {
    if (config.placer != nullptr)
      return InvalidArgument("the session has both a placer and options for a new one; drop one of the two");
    RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<DevicePlacer> own, DevicePlacer::Create(*config.placement));
    state.placer = own;
    if (config.placement->placement_period > 0) state.costs_wanted = own;
  }
  std::shared_ptr<MemoryBudget> memory;
  if (config.shared_state == nullptr) {
    state.resources = std::make_shared<ResourceManager>(config.memory_limit_bytes, "the session");
    memory = state.resources->memory();
  } else {
    state.resources = config.shared_state;
    memory = std::make_shared<MemoryBudget>("the session", config.memory_limit_bytes, state.resources->memory());
  }
  RIVULET_ASSIGN_OR_RETURN(std::vector<std::shared_ptr<GpuDevice>> gpus, OpenGpus(config));
  state.variables = std::make_shared<SessionVariables>(state.resources);
  state.parts = std::make_shared<PartRunner>(CompileOptions{config.kernels, config.passes}, state.variables,
                                             std::move(memory), config.max_programs, std::move(gpus));
  RIVULET_RETURN_IF_ERROR(state.Adopt(std::move(graph)));
  return session;
}

StatusOr<std::vector<Tensor>> Session::Run(const Feeds& feeds, const std::vector<std::string>& fetches,
                                           const std::vector<std::string>& targets, const CancellationToken& cancel) {
  RunOptions options;
  options.cancel = cancel;
  return RunWith(options, feeds, fetches, targets);
}

StatusOr<std::vector<Tensor>> Session::RunWith(const RunOptions& options, const Feeds& feeds,
                                               const std::vector<std::string>& fetches,
                                               const std::vector<std::string>& targets, proto::RunMetadata* metadata) {
  State& state = *state_;
  if (metadata != nullptr) metadata->Clear();
  if (state.remote != nullptr) return state.remote->Run(options, feeds, fetches, targets, metadata);
  if (options.output_partition_graphs && !state.config.allow_partition_graphs)
    return InvalidArgument("the run asks for its partition graphs, which the session's options switch off");
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<ActiveRun> active_run,
                           ActiveRun::Create(state.active, options.cancel, state.TimeoutOf(options)));
  RunNames names;
  names.fetches = fetches;
  names.targets = targets;
  std::vector<Tensor> values;
  for (const auto& [name, value] : feeds) {
    names.feeds.push_back(name);
    values.push_back(value);
  }
  std::string key;
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const RunPlan> plan, state.Plan(names, &key));
  for (size_t i = 0; i < feeds.size(); ++i)
    RIVULET_RETURN_IF_ERROR(CheckFeed(feeds[i].first, feeds[i].second, plan->feed_specs[i]));
  Mutex observer_mutex;
  RunInfo info = state.InfoOf(options, *active_run, &observer_mutex);
  std::optional<RunTrace> trace;
  if (metadata != nullptr) {
    trace.emplace(state.TraceOf(options, info.step));
    info.trace = trace->wanted() ? &*trace : nullptr;
    state.DescribeSession(*metadata);
  }
  std::optional<CostObserver> costs;
  if (state.costs_wanted != nullptr) info.costs = &costs.emplace();
  const auto finish = [&](StatusOr<std::vector<Tensor>> results) -> StatusOr<std::vector<Tensor>> {
    if (results.ok() && costs.has_value()) RIVULET_RETURN_IF_ERROR(state.costs_wanted->AddCosts(costs->model()));
    if (info.trace != nullptr) trace->Write(*plan->graph, *metadata);
    if (!results.ok()) return active_run->Explain(results.status());
    return results;
  };
  RIVULET_ASSIGN_OR_RETURN(const State::PoolChoice choice, state.ChoosePool(options));
  RIVULET_VLOG(2, "a run of {} feeds, {} fetches and {} targets in {} parts", feeds.size(), fetches.size(),
               targets.size(), plan->parts.size());

  // The usual run, on the caller's thread: no execution, no pool, no values passed between steps. A pool is used for it
  // only if the user configured one.
  if (plan->whole && (choice.pool == nullptr || !choice.always)) {
    EnterWorkerThread();
    return finish(state.parts->Run(plan->parts[0], key, values, info));
  }
  if (choice.pool == nullptr) EnterWorkerThread();
  const auto execution = std::make_shared<Execution>(
      ExecutionEnvironment{plan, key, state.parts, state.resources, choice.pool, options.priority, info});
  execution->Start(std::move(values));
  std::vector<int> all(fetches.size());
  std::iota(all.begin(), all.end(), 0);
  return finish(execution->Wait(all, /*all=*/true));
}

// The pool plans, compiles and runs. The last callback owns everything that must live as long as the run.
void Session::RunAsync(const RunOptions& options, Feeds feeds, const std::vector<std::string>& fetches,
                       const std::vector<std::string>& targets, Done done,
                       std::shared_ptr<proto::RunMetadata> metadata) {
  if (state_->remote != nullptr) return done(Unimplemented("{}", kElsewhere));
  const StatusOr<State::PoolChoice> choice = state_->ChoosePool(options);
  if (!choice.ok()) return done(choice.status());
  if (choice->pool == nullptr)
    return done(InvalidArgument("a run without a thread that waits needs a pool, and its options name none"));
  struct Run {
    std::shared_ptr<State> state;
    RunOptions options;
    Feeds feeds;
    RunNames names;
    std::unique_ptr<ActiveRun> active;
    Mutex observer_mutex;
    std::shared_ptr<const RunPlan> plan;
    std::shared_ptr<proto::RunMetadata> metadata;
    std::optional<RunTrace> trace;
  };
  const auto run = std::make_shared<Run>();
  run->state = state_;
  run->options = options;
  run->feeds = std::move(feeds);
  run->metadata = std::move(metadata);
  run->names.fetches = fetches;
  run->names.targets = targets;
  for (const auto& [name, value] : run->feeds) run->names.feeds.push_back(name);
  // Registered from now on: a Close before the pool starts also ends it.
  StatusOr<std::unique_ptr<ActiveRun>> active =
      ActiveRun::Create(state_->active, options.cancel, state_->TimeoutOf(options));
  if (!active.ok()) return done(active.status());
  run->active = *std::move(active);
  choice->pool->Schedule(
      [run, pool = choice->pool, done = std::move(done)]() mutable {
        State& state = *run->state;
        std::string key;
        const auto start = [&]() -> StatusOr<std::shared_ptr<Execution>> {
          if (run->active->token().cancelled()) return Cancelled("the run was cancelled");
          RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const RunPlan> plan, state.Plan(run->names, &key));
          for (size_t i = 0; i < run->feeds.size(); ++i)
            RIVULET_RETURN_IF_ERROR(CheckFeed(run->feeds[i].first, run->feeds[i].second, plan->feed_specs[i]));
          RunInfo info = state.InfoOf(run->options, *run->active, &run->observer_mutex);
          if (run->metadata != nullptr) {
            run->plan = plan;
            run->trace.emplace(state.TraceOf(run->options, info.step));
            info.trace = run->trace->wanted() ? &*run->trace : nullptr;
            state.DescribeSession(*run->metadata);
          }
          return std::make_shared<Execution>(ExecutionEnvironment{std::move(plan), key, state.parts, state.resources,
                                                                  std::move(pool), run->options.priority, info});
        };
        const StatusOr<std::shared_ptr<Execution>> execution = start();
        if (!execution.ok()) {
          const Status failed = run->active->Explain(execution.status());
          run->active = nullptr;
          return done(failed);
        }
        std::vector<Tensor> values;
        for (auto& [name, value] : run->feeds) values.push_back(std::move(value));
        // The run's inputs are freed before `done` is called.
        (*execution)->WhenDone([run, done = std::move(done)](StatusOr<std::vector<Tensor>> results) {
          if (!results.ok()) results = run->active->Explain(results.status());
          if (run->trace && run->trace->wanted()) run->trace->Write(*run->plan->graph, *run->metadata);
          run->active = nullptr;
          done(std::move(results));
        });
        (*execution)->Start(std::move(values));
      },
      options.priority);
}

Status Session::Extend(const Graph& more) {
  State& state = *state_;
  if (state.remote != nullptr) return ExtendDef(SerializeGraph(more));
  if (state.config.static_graph)
    return FailedPrecondition("the session's graph was declared static, and cannot be extended");
  if (state.active->closed()) return FailedPrecondition("the session is closed, and cannot be extended");
  MutexLock lock(state.extend_mutex);
  Graph extended = state.graph()->Clone();
  for (const auto& node : more.nodes())
    if (extended.Find(node->name()) != nullptr)
      return AlreadyExists("the session's graph has a node '{}' already; nothing was added", node->name());
  RIVULET_RETURN_IF_ERROR(ImportInto(extended, more, ""));
  return state.Adopt(std::move(extended));
}

Status Session::ExtendDef(std::string_view graph_def) {
  State& state = *state_;
  if (state.config.static_graph)
    return FailedPrecondition("the session's graph was declared static, and cannot be extended");
  if (state.active->closed()) return FailedPrecondition("the session is closed, and cannot be extended");
  MutexLock lock(state.extend_mutex);
  RIVULET_ASSIGN_OR_RETURN(Graph extended, ExtendedGraph(*state.graph(), graph_def));
  if (state.remote != nullptr) {
    RIVULET_RETURN_IF_ERROR(state.remote->Extend(graph_def));
    MutexLock graphs_lock(state.graph_mutex);
    state.graphs.push_back(std::make_shared<const Graph>(std::move(extended)));
    return absl::OkStatus();
  }
  return state.Adopt(std::move(extended));
}

void Session::Close() {
  if (state_->remote != nullptr) state_->remote->Close();
  state_->active->Close(Cancelled("the session was closed while it ran"));
}

void Session::Reset(std::span<const std::string> containers) {
  if (state_->remote != nullptr) {
    (void)state_->remote->Reset(containers);
    return;
  }
  state_->resources->Reset(containers);
}

const Graph& Session::graph() const { return *state_->graph(); }

std::vector<std::string> Session::variables() const { return state_->variables->names(); }

const std::shared_ptr<ResourceManager>& Session::resources() const { return state_->resources; }

size_t Session::programs() const { return state_->parts == nullptr ? 0 : state_->parts->programs(); }

// A copy under the shared lock, because the next run changes the memory in place.
StatusOr<Tensor> Session::GetVariable(std::string_view name) const {
  if (state_->remote != nullptr) return Unimplemented("{}", kElsewhere);
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<VariableResource> variable, state_->variables->Find(name));
  std::shared_lock<std::shared_mutex> lock(variable->mutex());
  if (!variable->initialized()) return FailedPrecondition("the variable '{}' has no value yet", name);
  RIVULET_ASSIGN_OR_RETURN(Tensor value, Tensor::Create(variable->spec().dtype, variable->spec().shape));
  if (value.bytes() > 0) std::memcpy(value.data(), variable->data(), value.bytes());
  return value;
}

Status Session::SetVariable(std::string_view name, const Tensor& value) {
  if (state_->remote != nullptr) return Unimplemented("{}", kElsewhere);
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<VariableResource> variable, state_->variables->Find(name));
  const TensorSpec& spec = variable->spec();
  if (value.empty() || value.dtype() != spec.dtype || value.shape() != spec.shape)
    return InvalidArgument("the variable '{}' is {}{}, and cannot be set to {}{}", name, Name(spec.dtype),
                           spec.shape.ToString(), Name(value.dtype()), value.shape().ToString());
  std::unique_lock<std::shared_mutex> lock(variable->mutex());
  if (value.bytes() > 0) std::memcpy(variable->data(), value.data(), value.bytes());
  variable->set_initialized();
  return absl::OkStatus();
}

}  // namespace rivulet
