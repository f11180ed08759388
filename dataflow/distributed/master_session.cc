#include "dataflow/distributed/master_session.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "dataflow/distributed/join_traces.h"
#include "dataflow/placement/partition.h"
#include "dataflow/placement/rendezvous.h"
#include "dataflow/placement/run_graph.h"
#include "dataflow/session/active_run.h"
#include "dataflow/session/extend_graph.h"
#include "dataflow/session/once_cache.h"
#include "dataflow/session/thread_pool.h"
#include "engine/base/mutex.h"
#include "engine/base/shown_text.h"
#include "engine/base/vlog.h"
#include "engine/graph/function.h"
#include "engine/graphdef/graph_def.h"
#include "proto/graph/run_metadata.pb.h"

namespace rivulet {
namespace {

// Waits for a call that answers by a callback; `what` names the call in the error for a timeout.
template <typename Value, typename Call>
StatusOr<Value> Await(std::chrono::milliseconds timeout, const std::string& what, Call&& call) {
  struct Waiting {
    Mutex mutex;
    CondVar changed;
    std::optional<StatusOr<Value>> answer GUARDED_BY(mutex);
  };
  const auto waiting = std::make_shared<Waiting>();
  call([waiting](StatusOr<Value> answer) {
    MutexLock lock(waiting->mutex);
    waiting->answer = std::move(answer);
    waiting->changed.NotifyAll();
  });
  const auto until = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(waiting->mutex);
  while (!waiting->answer) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= std::chrono::steady_clock::duration::zero())
      return Unavailable("{} did not answer within {} ms", what, timeout.count());
    waiting->changed.WaitFor(
        waiting->mutex, std::chrono::duration_cast<std::chrono::milliseconds>(left) + std::chrono::milliseconds(1));
  }
  return *std::move(waiting->answer);
}

// For calls that return only a status.
RemoteTask::Done AsDone(std::function<void(StatusOr<int>)> done) {
  return [done = std::move(done)](Status status) {
    if (!status.ok()) return done(std::move(status));
    done(0);
  };
}

int64_t DrawStepId() {
  static Mutex mutex;
  static std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  MutexLock lock(mutex);
  return static_cast<int64_t>(generator() >> 1);
}

// One task's part of a step, as registered at the task.
struct TaskPart {
  std::shared_ptr<RemoteTask> task;
  std::string graph;                                    // handle of the part at the task
  std::vector<std::pair<size_t, std::string>> feeds;    // index in the step's feeds, key
  std::vector<std::pair<size_t, std::string>> fetches;  // the same for fetches
};

struct RegisteredStep {
  std::string session;
  std::shared_ptr<const std::atomic<bool>> session_over;  // true once the session has ended, and its graphs with it
  std::vector<TensorSpec> feed_specs;
  std::vector<TaskPart> parts;
  std::vector<std::set<size_t>> needs;  // for each fetch: the feeds that it depends on

  ~RegisteredStep() {
    if (*session_over) return;
    for (const TaskPart& part : parts)
      if (!part.graph.empty()) part.task->DeregisterGraph(session, part.graph, [](const Status&) {});
  }
};

// Errors that only report the failure of another part.
bool IsEcho(const Status& status) { return absl::IsCancelled(status) || absl::IsAborted(status); }

std::string PlainName(const std::string& name) { return name.ends_with(":0") ? name.substr(0, name.size() - 2) : name; }

}  // namespace

struct MasterSession::State : std::enable_shared_from_this<MasterSession::State> {
  MasterSessionOptions options;
  std::vector<std::shared_ptr<RemoteTask>> tasks;
  std::vector<TaskDevice> devices;
  std::shared_ptr<DevicePlacer> placer;
  std::shared_ptr<ThreadPool> pool;
  const std::shared_ptr<ActiveRuns> active = std::make_shared<ActiveRuns>();
  std::atomic<uint64_t> number{0};
  std::optional<OnceCache<const RegisteredStep>> registered;
  const std::shared_ptr<std::atomic<bool>> over = std::make_shared<std::atomic<bool>>(false);

  Mutex extend_mutex;  // held by one Extend at a time
  mutable Mutex mutex;
  std::shared_ptr<const Graph> graph GUARDED_BY(mutex);
  int64_t version GUARDED_BY(mutex) = 0;
  bool sessions_made GUARDED_BY(mutex) = false;
  bool closed GUARDED_BY(mutex) = false;
  // Running steps, for the heartbeat: by id, their tasks and a callback that ends them.
  struct Beating {
    std::set<std::string> tasks;
    std::function<void(const Status&)> fail;
  };
  std::map<int64_t, Beating> beating GUARDED_BY(mutex);
  std::map<std::string, bool> unanswered GUARDED_BY(mutex);  // tasks whose last heartbeat is unanswered
  std::optional<Alarm> next_beat GUARDED_BY(mutex);
  bool beats GUARDED_BY(mutex) = false;

  struct PartialStep;
  std::map<std::string, std::shared_ptr<PartialStep>> partials GUARDED_BY(mutex);
  uint64_t next_partial GUARDED_BY(mutex) = 1;

  std::shared_ptr<RemoteTask> TaskNamed(std::string_view name) const {
    const auto found = std::ranges::find_if(tasks, [&](const auto& task) { return task->name() == name; });
    return found == tasks.end() ? nullptr : *found;
  }

  StatusOr<std::shared_ptr<const RegisteredStep>> Registered(const std::vector<std::string>& feeds,
                                                             const std::vector<std::string>& fetches,
                                                             const std::vector<std::string>& targets) {
    std::string key;  // names contain no line ends
    for (const std::string& name : feeds) key.append(name).append("\n");
    for (const std::string& name : fetches) key.append("|").append(name).append("\n");
    for (const std::string& name : targets) key.append("^").append(name).append("\n");
    return registered->Get(key, [&] { return Register(feeds, fetches, targets); });
  }
  StatusOr<std::shared_ptr<const RegisteredStep>> Register(const std::vector<std::string>& feeds,
                                                           const std::vector<std::string>& fetches,
                                                           const std::vector<std::string>& targets);
  Status CheckFeeds(const RegisteredStep& step, const std::vector<size_t>& indices,
                    const std::vector<std::pair<std::string, Tensor>>& feeds) const;

  // One round of RunGraph calls, and their results.
  struct Calls;
  void Start(const std::shared_ptr<Calls>& calls, std::vector<std::pair<const TaskPart*, TaskStep>> steps);
  void CleanUp(const RegisteredStep& step, int64_t id) {
    for (const TaskPart& part : step.parts) part.task->CleanupGraph(id, [](const Status&) {});
  }

  void BeginBeating(int64_t id, const RegisteredStep& step, std::function<void(const Status&)> fail);
  void EndBeating(int64_t id);
  void Beat();
  void ArmBeat() REQUIRES(mutex);
};

struct MasterSession::State::Calls {
  std::shared_ptr<State> state;
  std::shared_ptr<const RegisteredStep> step;
  CancellationToken token;  // cancelled by the first error
  std::function<void(Status, std::vector<Tensor>)> done;
  std::map<std::string, size_t> fetch_of;        // key → index
  std::shared_ptr<proto::RunMetadata> metadata;  // null: not requested

  Mutex mutex;
  size_t left GUARDED_BY(mutex) = 0;
  Status error GUARDED_BY(mutex);
  std::vector<Tensor> results GUARDED_BY(mutex);

  void Fail(const Status& status) {
    {
      MutexLock lock(mutex);
      if (error.ok() || (IsEcho(error) && !IsEcho(status))) error = Status(status.code(), status.message());
    }
    token.Cancel();
  }
};

struct MasterSession::State::PartialStep {
  std::vector<std::string> feeds, fetches;
  std::shared_ptr<const RegisteredStep> step;
  std::unique_ptr<ActiveRun> active;
  int64_t id = 0;
  uint64_t number = 0;
  std::vector<bool> fed, fetched;
  bool started = false, failed = false, busy = false;
};

// The step's part of the graph, placed and cut at the edges between devices, with a separate graph for each task's
// nodes. Fed tensors arrive there through a receive, fetched ones leave through a send; RunGraph names their keys.
StatusOr<std::shared_ptr<const RegisteredStep>> MasterSession::State::Register(
    const std::vector<std::string>& feeds, const std::vector<std::string>& fetches,
    const std::vector<std::string>& targets) {
  std::shared_ptr<const Graph> whole;
  {
    MutexLock lock(mutex);
    whole = graph;
  }
  if (fetches.empty() && targets.empty()) return InvalidArgument("a run needs a fetch or a target");
  RIVULET_ASSIGN_OR_RETURN(RunGraph run, PruneForRun(*whole, feeds, fetches, targets));
  auto step = std::make_shared<RegisteredStep>();
  step->session = options.handle;
  step->session_over = over;
  std::map<std::string, size_t> feed_of;  // by the name of the feed's Placeholder
  for (size_t i = 0; i < run.feeds.size(); ++i) {
    feed_of[run.feeds[i]] = i;
    const Output& output = run.graph.Find(run.feeds[i])->output();
    step->feed_specs.push_back({output.dtype(), output.shape()});
    if (output.dtype() == DType::kResource || output.dtype() == DType::kVariant)
      return InvalidArgument("feed '{}' is {}, which means something within one run only; feed a tensor", feeds[i],
                             Name(output.dtype()));
  }
  for (const auto& node : run.graph.nodes()) {
    if (node->type() == "Placeholder" && !feed_of.contains(node->name()))
      return InvalidArgument("You must feed a value for placeholder tensor '{}' with dtype {} and shape {}",
                             node->name(), Name(node->outputs()[0].dtype), node->outputs()[0].shape.ToString());
  }
  for (size_t i = 0; i < run.fetches.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const Output output, run.graph.FindOutput(run.fetches[i]));
    if (output.dtype() == DType::kResource || output.dtype() == DType::kVariant)
      return InvalidArgument("fetch '{}' is {}, which means something within one run only; fetch a tensor", fetches[i],
                             Name(output.dtype()));
    std::set<size_t>& needs = step->needs.emplace_back();
    std::set<const Node*> seen{output.node};
    std::vector<const Node*> stack{output.node};
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      if (const auto feed = feed_of.find(node->name()); feed != feed_of.end()) needs.insert(feed->second);
      for (const Output& input : node->inputs())
        if (seen.insert(input.node).second) stack.push_back(input.node);
      for (const Node* before : node->control_inputs())
        if (seen.insert(before).second) stack.push_back(before);
    }
  }
  RIVULET_RETURN_IF_ERROR(placer->Partition(run));

  std::map<std::string, Graph, std::less<>> graphs;  // by task
  std::map<std::string, TaskPart, std::less<>> parts;
  std::map<std::string, uint64_t> incarnations;
  for (const TaskDevice& device : devices) incarnations[device.name] = device.incarnation;
  const auto terminal = [&](const std::string& device, std::string name) {
    return AttrMap{{"tensor_name", std::move(name)},
                   {"send_device", device},
                   {"send_device_incarnation", static_cast<int64_t>(incarnations[device])},
                   {"recv_device", device},
                   {"client_terminated", true}};
  };
  const auto key_of = [&](const std::string& device, std::string name) {
    return RendezvousKey{device, incarnations[device], device, std::move(name)}.ToString();
  };
  std::vector<Node*> all, copies(run.graph.nodes().size());
  for (const auto& node : run.graph.nodes()) all.push_back(node.get());
  for (Node* node : run.graph.TopologicalOrder(all)) {
    const std::string task(TaskOf(node->device()));
    const auto [entry, inserted] = graphs.try_emplace(task);
    Graph& mine = entry->second;
    if (inserted) {
      for (const auto& [name, function] : run.graph.functions()) RIVULET_RETURN_IF_ERROR(mine.AddFunction(function));
      parts[task].task = TaskNamed(task);
      if (parts[task].task == nullptr) return Internal("'{}' was placed on '{}', which is no task", node->name(), task);
    }
    NodeSpec spec{node->name(), std::string(node->type()), {}, {}, node->attrs(), node->source_line(), node->device()};
    if (const auto feed = feed_of.find(node->name()); feed != feed_of.end() && node->type() == "Placeholder") {
      const std::string name = fmt::format("feed_{}_{}", feed->second, node->name());
      const TensorSpec& given = step->feed_specs[feed->second];
      spec.op = "_Recv";
      spec.attrs = terminal(node->device(), name);
      spec.attrs["tensor_type"] = given.dtype;
      spec.attrs["_output_shapes"] = std::vector<Shape>{given.shape};
      parts[task].feeds.emplace_back(feed->second, key_of(node->device(), name));
    }
    for (const Output& input : node->inputs())
      spec.inputs.push_back({copies[static_cast<size_t>(input.node->id())], input.port});
    for (const Node* before : node->control_inputs())
      spec.control_inputs.push_back(copies[static_cast<size_t>(before->id())]);
    RIVULET_ASSIGN_OR_RETURN(copies[static_cast<size_t>(node->id())], mine.AddNode(std::move(spec)));
  }
  for (size_t i = 0; i < run.fetches.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const Output output, run.graph.FindOutput(run.fetches[i]));
    const std::string& device = output.node->device();
    const std::string task(TaskOf(device));
    Graph& mine = graphs.at(task);
    const std::string name = fmt::format("fetch_{}_{}", i, output.node->name());
    std::string send = fmt::format("{}/fetch_{}", output.node->name(), i);
    while (mine.Find(send) != nullptr) send += "_";
    RIVULET_RETURN_IF_ERROR(mine.AddNode({send,
                                          "_Send",
                                          {{copies[static_cast<size_t>(output.node->id())], output.port}},
                                          {},
                                          terminal(device, name),
                                          output.node->source_line(),
                                          device})
                                .status());
    parts[task].fetches.emplace_back(i, key_of(device, name));
  }
  RIVULET_VLOG(1, "a step of {} feeds, {} fetches and {} targets over {} tasks", feeds.size(), fetches.size(),
               targets.size(), graphs.size());
  // If a registration fails, `step` removes those that succeeded.
  for (auto& [task, part] : parts) step->parts.push_back(std::move(part));
  for (TaskPart& part : step->parts) {
    RIVULET_ASSIGN_OR_RETURN(
        part.graph, (Await<std::string>(options.control_timeout, part.task->name(), [&](RemoteTask::HandleDone done) {
          part.task->RegisterGraph({options.handle, SerializeGraph(graphs.at(part.task->name())), options.seed},
                                   std::move(done));
        })));
  }
  return std::shared_ptr<const RegisteredStep>(std::move(step));
}

Status MasterSession::State::CheckFeeds(const RegisteredStep& step, const std::vector<size_t>& indices,
                                        const std::vector<std::pair<std::string, Tensor>>& feeds) const {
  for (size_t i = 0; i < feeds.size(); ++i) {
    const auto& [name, value] = feeds[i];
    const TensorSpec& spec = step.feed_specs[indices[i]];
    if (value.empty()) return InvalidArgument("the feed of '{}' is no tensor", name);
    if (value.dtype() != spec.dtype || !Shape::Compatible(value.shape(), spec.shape))
      return InvalidArgument("'{}' is {}{}, but is fed {}{}", name, Name(spec.dtype), spec.shape.ToString(),
                             Name(value.dtype()), value.shape().ToString());
  }
  return absl::OkStatus();
}

void MasterSession::State::Start(const std::shared_ptr<Calls>& calls,
                                 std::vector<std::pair<const TaskPart*, TaskStep>> steps) {
  {
    MutexLock lock(calls->mutex);
    calls->left = steps.size();
  }
  for (auto& [part, step] : steps) {
    const std::shared_ptr<TaskTrace> trace = step.trace;
    part->task->RunGraph(std::move(step), calls->token,
                         [calls, task = part->task->name(), trace, sent = NowNanos()](StatusOr<NamedTensors> answer) {
                           Status failed;
                           if (answer.ok()) {
                             const int64_t arrived = NowNanos();
                             MutexLock lock(calls->mutex);
                             if (trace != nullptr) JoinTrace(*trace, sent, arrived, *calls->metadata);
                             for (auto& [key, value] : *answer)
                               if (const auto fetch = calls->fetch_of.find(key); fetch != calls->fetch_of.end())
                                 calls->results[fetch->second] = std::move(value);
                           } else {
                             failed = Annotate(answer.status(), fmt::format("from {}", task));
                             calls->Fail(failed);
                           }
                           Status error;
                           std::vector<Tensor> results;
                           {
                             MutexLock lock(calls->mutex);
                             if (--calls->left > 0) return;
                             error = calls->error;
                             results = std::move(calls->results);
                           }
                           // On the pool: this may be a callback of the step's own alarm, and the step's end waits for
                           // that callback.
                           calls->state->pool->Schedule([calls, error, results = std::move(results)]() mutable {
                             calls->done(Status(error.code(), error.message()), std::move(results));
                           });
                         });
  }
}

StatusOr<std::vector<TaskDevice>> DevicesOf(std::span<const std::shared_ptr<RemoteTask>> tasks,
                                            std::chrono::milliseconds timeout) {
  std::vector<TaskDevice> devices;
  const CancellationToken cancel = CancellationToken::Create();
  for (const std::shared_ptr<RemoteTask>& task : tasks) {
    const auto answer = Await<std::vector<TaskDevice>>(
        timeout, task->name(), [&](RemoteTask::DevicesDone done) { task->GetStatus(cancel, std::move(done)); });
    if (!answer.ok()) {
      cancel.Cancel();
      return answer.status();
    }
    for (const TaskDevice& device : *answer) {
      if (TaskOf(device.name) != task->name())
        return FailedPrecondition("'{}' answers at the address of '{}'; compare the cluster that both were given",
                                  device.name, task->name());
      devices.push_back(device);
    }
  }
  return devices;
}

StatusOr<std::shared_ptr<MasterSession>> MasterSession::Create(Graph graph, MasterSessionOptions options,
                                                               std::vector<std::shared_ptr<RemoteTask>> tasks) {
  if (tasks.empty()) return InvalidArgument("a session over several tasks needs a task");
  auto state = std::make_shared<State>();
  state->options = std::move(options);
  // Tasks that the device filters exclude are not asked.
  if (const auto& filters = state->options.placement.device_filters; !filters.empty()) {
    std::vector<DeviceName> patterns;
    for (const std::string& filter : filters) {
      RIVULET_ASSIGN_OR_RETURN(patterns.emplace_back(), ParseDeviceName(filter));
    }
    std::erase_if(tasks, [&](const std::shared_ptr<RemoteTask>& task) {
      const StatusOr<DeviceName> name = ParseDeviceName(task->name());
      return !name.ok() || std::ranges::none_of(patterns, [&](const DeviceName& p) { return AreCompatible(p, *name); });
    });
    if (tasks.empty()) return InvalidArgument("the device filters leave no task of the cluster");
  }
  state->tasks = std::move(tasks);
  state->registered.emplace(std::max<size_t>(1, state->options.max_steps));
  RIVULET_ASSIGN_OR_RETURN(state->pool, ThreadPool::Shared("master", 16));
  RIVULET_ASSIGN_OR_RETURN(state->devices, DevicesOf(state->tasks, state->options.control_timeout));
  std::vector<PlacementDevice> devices;
  for (const TaskDevice& device : state->devices) {
    RIVULET_ASSIGN_OR_RETURN(DeviceName name, ParseDeviceName(device.name));
    if (name.type != "CPU" && name.type != "GPU") continue;
    const bool gpu = name.type == "GPU";
    devices.push_back({std::move(name), gpu ? 1 : 0, device.incarnation, gpu ? RunsOnGpu : RunsOnCpu});
  }
  RIVULET_ASSIGN_OR_RETURN(DeviceSet set, DeviceSet::Create(std::move(devices)));
  RIVULET_ASSIGN_OR_RETURN(state->placer, DevicePlacer::Create(state->options.placement, std::move(set)));
  RIVULET_RETURN_IF_ERROR(state->placer->OnGraph(graph));
  {
    MutexLock lock(state->mutex);
    state->graph = std::make_shared<const Graph>(std::move(graph));
  }
  std::shared_ptr<MasterSession> session(new MasterSession(state));
  for (const std::shared_ptr<RemoteTask>& task : state->tasks) {
    // If a session cannot be created on all tasks, ~MasterSession deletes those that were.
    RIVULET_RETURN_IF_ERROR(
        Await<int>(state->options.control_timeout, task->name(), [&](std::function<void(StatusOr<int>)> done) {
          task->CreateWorkerSession({state->options.handle, state->options.isolate_session_state},
                                    AsDone(std::move(done)));
        }).status());
    MutexLock lock(state->mutex);
    state->sessions_made = true;
  }
  return session;
}

MasterSession::~MasterSession() { Close(); }

const std::string& MasterSession::handle() const { return state_->options.handle; }
const std::vector<TaskDevice>& MasterSession::devices() const { return state_->devices; }
int64_t MasterSession::graph_version() const {
  MutexLock lock(state_->mutex);
  return state_->version;
}

Status MasterSession::Extend(std::string_view graph_def, int64_t current_version) {
  State& state = *state_;
  if (state.active->closed()) return FailedPrecondition("the session is closed, and cannot be extended");
  if (state.options.static_graph)
    return FailedPrecondition("the session's graph was declared static, and cannot be extended");
  MutexLock extending(state.extend_mutex);
  std::shared_ptr<const Graph> graph;
  {
    MutexLock lock(state.mutex);
    if (state.version != current_version)
      return Aborted("the graph was to be extended from version {}, and has version {}", current_version,
                     state.version);
    graph = state.graph;
  }
  RIVULET_ASSIGN_OR_RETURN(Graph extended, ExtendedGraph(*graph, graph_def));
  RIVULET_RETURN_IF_ERROR(state.placer->OnGraph(extended));
  MutexLock lock(state.mutex);
  state.graph = std::make_shared<const Graph>(std::move(extended));
  ++state.version;
  return absl::OkStatus();
}

void MasterSession::RunStep(MasterStep step, const CancellationToken& cancel, StepDone done) {
  const std::shared_ptr<State>& state = state_;
  struct Run {
    std::unique_ptr<ActiveRun> active;
    std::shared_ptr<const RegisteredStep> step;
    int64_t id = DrawStepId();
  };
  const auto run = std::make_shared<Run>();
  std::vector<std::string> names;
  std::vector<size_t> indices;
  for (const auto& [name, value] : step.feeds) {
    indices.push_back(names.size());
    names.push_back(name);
  }
  const auto prepare = [&]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(
        run->active, ActiveRun::Create(state->active, cancel,
                                       step.timeout.count() > 0 ? step.timeout : state->options.operation_timeout));
    RIVULET_ASSIGN_OR_RETURN(run->step, state->Registered(names, step.fetches, step.targets));
    return state->CheckFeeds(*run->step, indices, step.feeds);
  };
  if (const Status prepared = prepare(); !prepared.ok())
    return done(run->active == nullptr ? prepared : run->active->Explain(prepared));
  const uint64_t number = state->number.fetch_add(1);
  const auto calls = std::make_shared<State::Calls>();
  calls->state = state;
  calls->step = run->step;
  calls->token = run->active->token();
  calls->metadata = step.metadata;
  {
    MutexLock lock(calls->mutex);
    calls->results.resize(step.fetches.size());
  }
  std::vector<std::pair<const TaskPart*, TaskStep>> steps;
  for (const TaskPart& part : run->step->parts) {
    TaskStep task_step{state->options.handle, part.graph, run->id, {}, {}, number};
    if (step.metadata != nullptr && (step.trace || step.output_partition_graphs))
      task_step.trace = std::make_shared<TaskTrace>(TaskTrace{step.trace, step.output_partition_graphs});
    for (const auto& [feed, key] : part.feeds) task_step.send.emplace_back(key, step.feeds[feed].second);
    for (const auto& [fetch, key] : part.fetches) {
      task_step.recv.push_back(key);
      calls->fetch_of[key] = fetch;
    }
    steps.emplace_back(&part, std::move(task_step));
  }
  calls->done = [state, run, done = std::move(done)](Status status, std::vector<Tensor> results) {
    state->EndBeating(run->id);
    state->CleanUp(*run->step, run->id);
    if (!status.ok()) status = run->active->Explain(status);
    run->active = nullptr;
    if (!status.ok()) return done(status);
    done(std::move(results));
  };
  state->BeginBeating(run->id, *run->step, [calls](const Status& status) { calls->Fail(status); });
  state->Start(calls, std::move(steps));
}

StatusOr<std::string> MasterSession::SetUpPartialRun(const std::vector<std::string>& feeds,
                                                     const std::vector<std::string>& fetches,
                                                     const std::vector<std::string>& targets) {
  auto partial = std::make_shared<State::PartialStep>();
  partial->feeds = feeds;
  partial->fetches = fetches;
  RIVULET_ASSIGN_OR_RETURN(partial->active, ActiveRun::Create(state_->active, {}, state_->options.operation_timeout));
  RIVULET_ASSIGN_OR_RETURN(partial->step, state_->Registered(feeds, fetches, targets));
  partial->id = DrawStepId();
  partial->number = state_->number.fetch_add(1);
  partial->fed.resize(feeds.size());
  partial->fetched.resize(fetches.size());
  MutexLock lock(state_->mutex);
  if (state_->partials.size() >= state_->options.max_steps)
    std::erase_if(state_->partials, [](const auto& entry) { return entry.second->failed; });
  if (state_->partials.size() >= state_->options.max_steps)
    return ResourceExhausted("the session has {} partial runs that are not ended", state_->partials.size());
  std::string handle = fmt::format("partial_{}", state_->next_partial++);
  state_->partials.emplace(handle, std::move(partial));
  return handle;
}

void MasterSession::RunPartialStep(const std::string& handle, MasterStep step, const CancellationToken& cancel,
                                   StepDone done) {
  const std::shared_ptr<State>& state = state_;
  std::shared_ptr<State::PartialStep> partial;
  std::vector<size_t> feeds, fetches;
  bool first = false, last = false;
  const auto prepare = [&]() -> Status {
    MutexLock lock(state->mutex);
    const auto found = state->partials.find(handle);
    if (found == state->partials.end())
      return InvalidArgument("there is no partial run '{}'; set one up", Shortened(handle));
    State::PartialStep& run = *found->second;
    if (run.failed) return FailedPrecondition("the partial run has failed; set up another one");
    if (run.busy) return FailedPrecondition("the partial run is under way in another call");
    const auto index_of = [](const std::vector<std::string>& names, const std::string& name) -> std::optional<size_t> {
      for (size_t i = 0; i < names.size(); ++i)
        if (PlainName(names[i]) == PlainName(name)) return i;
      return std::nullopt;
    };
    std::vector<bool> fed = run.fed, fetched = run.fetched;
    for (const auto& [name, value] : step.feeds) {
      const std::optional<size_t> index = index_of(run.feeds, name);
      if (!index) return InvalidArgument("'{}' was not named as a feed when the partial run was set up", name);
      if (fed[*index]) return InvalidArgument("'{}' was fed before; a partial run takes each feed once", name);
      fed[*index] = true;
      feeds.push_back(*index);
    }
    RIVULET_RETURN_IF_ERROR(state->CheckFeeds(*run.step, feeds, step.feeds));
    for (const std::string& name : step.fetches) {
      const std::optional<size_t> index = index_of(run.fetches, name);
      if (!index) return InvalidArgument("'{}' was not named as a fetch when the partial run was set up", name);
      if (fetched[*index]) return InvalidArgument("'{}' was fetched before; a partial run gives each fetch once", name);
      for (const size_t feed : run.step->needs[*index])
        if (!fed[feed]) return InvalidArgument("'{}' needs '{}', which was not fed yet", name, run.feeds[feed]);
      fetched[*index] = true;
      fetches.push_back(*index);
    }
    run.fed = std::move(fed);
    run.fetched = std::move(fetched);
    first = !run.started;
    run.started = run.busy = true;
    last = std::ranges::find(run.fed, false) == run.fed.end() &&
           std::ranges::find(run.fetched, false) == run.fetched.end();
    partial = found->second;
    return absl::OkStatus();
  };
  if (const Status prepared = prepare(); !prepared.ok()) return done(prepared);
  const auto calls = std::make_shared<State::Calls>();
  calls->state = state;
  calls->step = partial->step;
  calls->token = partial->active->token();
  {
    MutexLock lock(calls->mutex);
    calls->results.resize(fetches.size());
  }
  std::vector<std::pair<const TaskPart*, TaskStep>> steps;
  for (const TaskPart& part : partial->step->parts) {
    TaskStep task_step{state->options.handle, part.graph, partial->id, {}, {}, partial->number, true, last};
    for (const auto& [feed, key] : part.feeds)
      for (size_t i = 0; i < feeds.size(); ++i)
        if (feeds[i] == feed) task_step.send.emplace_back(key, step.feeds[i].second);
    for (const auto& [fetch, key] : part.fetches) {
      for (size_t i = 0; i < fetches.size(); ++i) {
        if (fetches[i] != fetch) continue;
        task_step.recv.push_back(key);
        calls->fetch_of[key] = i;
      }
    }
    if (first || last || !task_step.send.empty() || !task_step.recv.empty())
      steps.emplace_back(&part, std::move(task_step));
  }
  const uint64_t callback = cancel.OnCancel([token = calls->token] { token.Cancel(); });
  calls->done = [state, partial, handle, last, cancel, callback, done = std::move(done)](Status status,
                                                                                         std::vector<Tensor> results) {
    cancel.Forget(callback);
    state->EndBeating(partial->id);
    if (last || !status.ok()) state->CleanUp(*partial->step, partial->id);
    if (!status.ok()) status = partial->active->Explain(status);
    {
      MutexLock lock(state->mutex);
      partial->busy = false;
      partial->failed = !status.ok();
      if (last) state->partials.erase(handle);
    }
    if (!status.ok()) return done(status);
    done(std::move(results));
  };
  if (steps.empty()) return calls->done(absl::OkStatus(), {});
  state->BeginBeating(partial->id, *partial->step, [calls](const Status& status) { calls->Fail(status); });
  state->Start(calls, std::move(steps));
}

Status MasterSession::Reset(const std::vector<std::string>& containers) {
  for (const std::shared_ptr<RemoteTask>& task : state_->tasks) {
    RIVULET_RETURN_IF_ERROR(
        Await<int>(state_->options.control_timeout, task->name(), [&](std::function<void(StatusOr<int>)> done) {
          task->CleanupAll(containers, AsDone(std::move(done)));
        }).status());
  }
  return absl::OkStatus();
}

void MasterSession::Close() {
  std::map<std::string, std::shared_ptr<State::PartialStep>> partials;
  bool made = false;
  {
    MutexLock lock(state_->mutex);
    if (state_->closed) return;
    state_->closed = true;
    partials.swap(state_->partials);
    made = state_->sessions_made;
  }
  state_->active->Close(Cancelled("the session was closed while it ran"));
  for (const auto& [handle, partial] : partials) state_->CleanUp(*partial->step, partial->id);
  *state_->over = true;
  if (!made) return;
  for (const std::shared_ptr<RemoteTask>& task : state_->tasks)
    task->DeleteWorkerSession(state_->options.handle, [](const Status&) {});
}

// ---- heartbeat

// If a process dies, its connections close and its calls fail at once. A machine that vanishes sends nothing. So tasks
// are polled while steps run, and a task that has not answered by the next poll is considered gone.
void MasterSession::State::BeginBeating(int64_t id, const RegisteredStep& step,
                                        std::function<void(const Status&)> fail) {
  MutexLock lock(mutex);
  Beating& entry = beating[id];
  for (const TaskPart& part : step.parts) entry.tasks.insert(part.task->name());
  entry.fail = std::move(fail);
  if (!beats) ArmBeat();
}

void MasterSession::State::EndBeating(int64_t id) {
  Beating gone;  // its callback is destroyed without the lock
  MutexLock lock(mutex);
  if (const auto found = beating.find(id); found != beating.end()) {
    gone = std::move(found->second);
    beating.erase(found);
  }
}

void MasterSession::State::ArmBeat() {
  beats = true;
  // The alarm's own thread only passes the work on: the next alarm replaces this one, which cannot replace itself.
  next_beat.emplace(std::chrono::steady_clock::now() + options.heartbeat, [weak = weak_from_this(), pool = pool] {
    pool->Schedule([weak] {
      if (const std::shared_ptr<State> state = weak.lock()) state->Beat();
    });
  });
}

void MasterSession::State::Beat() {
  std::vector<std::function<void(const Status&)>> failing;
  std::vector<Status> why;
  std::set<std::string> ask;
  {
    MutexLock lock(mutex);
    for (const auto& [id, entry] : beating) {
      for (const std::string& task : entry.tasks) {
        if (unanswered[task]) {
          failing.push_back(entry.fail);
          why.push_back(
              Unavailable("'{}' does not answer any more: nothing came within {} ms", task, options.heartbeat.count()));
        } else {
          ask.insert(task);
        }
      }
    }
    for (const std::string& task : ask) unanswered[task] = true;
    if (beating.empty()) {
      beats = false;
      unanswered.clear();
    } else {
      ArmBeat();
    }
  }
  for (size_t i = 0; i < failing.size(); ++i) failing[i](why[i]);
  for (const std::string& name : ask) {
    TaskNamed(name)->GetStatus({}, [weak = weak_from_this(), name](const StatusOr<std::vector<TaskDevice>>& answer) {
      const std::shared_ptr<State> state = weak.lock();
      if (state == nullptr) return;
      MutexLock lock(state->mutex);
      if (answer.ok()) state->unanswered[name] = false;
    });
  }
}

}  // namespace rivulet
