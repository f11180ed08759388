#include "dataflow/distributed/graph_worker.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "dataflow/distributed/join_traces.h"
#include "dataflow/input/bound_data.h"
#include "dataflow/placement/rendezvous.h"
#include "dataflow/session/session.h"
#include "engine/base/mutex.h"
#include "engine/base/shown_text.h"
#include "engine/graph/device_name.h"
#include "engine/graphdef/graph_def.h"
#include "proto/graph/run_metadata.pb.h"

namespace rivulet {
namespace {

using StepClock = std::chrono::steady_clock;

uint64_t DrawIncarnation() {
  std::random_device device;
  uint64_t drawn = 0;
  while (drawn == 0) drawn = static_cast<uint64_t>(device()) << 32 | device();
  return drawn;
}

// Nodes without consumers: running them runs the whole registered graph.
std::vector<std::string> Sinks(const Graph& graph) {
  std::vector<bool> used(graph.nodes().size());
  for (const auto& node : graph.nodes()) {
    for (const Output& input : node->inputs()) used[static_cast<size_t>(input.node->id())] = true;
    for (const Node* before : node->control_inputs()) used[static_cast<size_t>(before->id())] = true;
  }
  std::vector<std::string> sinks;
  for (const auto& node : graph.nodes())
    if (!used[static_cast<size_t>(node->id())]) sinks.push_back(node->name());
  return sinks;
}

// Fetches keys from other tasks within one step.
class StepSources final : public RemoteRendezvous {
 public:
  StepSources(TaskDirectory peers, int64_t step) : peers_(std::move(peers)), step_(step) {}
  void RecvAsync(const std::string& task, const std::string& key, const CancellationToken& cancel, Done done) override {
    const std::shared_ptr<RemoteTask> peer = peers_ ? peers_(task) : nullptr;
    if (peer == nullptr)
      return done(NotFound("the tensor '{}' comes from '{}', which is no task of this cluster", key, task));
    peer->RecvTensor(step_, key, cancel, std::move(done));
  }

 private:
  const TaskDirectory peers_;
  const int64_t step_;
};

struct RegisteredGraph {
  std::unique_ptr<Session> session;
  std::vector<std::string> targets;
};

struct WorkerSession {
  std::shared_ptr<ResourceManager> resources;
  std::map<std::string, std::shared_ptr<RegisteredGraph>> graphs;
  uint64_t next_graph = 1;
  StepClock::time_point used = StepClock::now();
};

struct Step {
  std::shared_ptr<Rendezvous> rendezvous;
  CancellationToken cancel = CancellationToken::Create();  // cancels the local part of the step
  bool started = false;
  size_t waiting = 0;                           // pending RecvTensor calls
  std::optional<Status> finished;               // result of the local part
  std::vector<RemoteTask::Done> when_finished;  // last calls of a partial step; several if the call was sent again
  std::optional<StepClock::time_point> ended;
};

}  // namespace

struct GraphWorker::State {
  GraphWorkerOptions options;
  TaskDirectory peers;
  TaskDevice device;
  std::shared_ptr<ResourceManager> resources;
  std::shared_ptr<MemoryBudget> parked;

  mutable Mutex mutex;
  std::map<std::string, WorkerSession> sessions GUARDED_BY(mutex);
  std::map<int64_t, std::shared_ptr<Step>> steps GUARDED_BY(mutex);
  size_t waiting GUARDED_BY(mutex) = 0;

  // Returns the step with this id, created at the first use. RESOURCE_EXHAUSTED: too many steps.
  StatusOr<std::shared_ptr<Step>> StepOf(int64_t id) REQUIRES(mutex) {
    if (const auto found = steps.find(id); found != steps.end()) return found->second;
    if (steps.size() >= options.max_steps) {
      const StepClock::time_point now = StepClock::now();
      std::erase_if(steps, [&](const auto& entry) {
        return entry.second->ended && now - *entry.second->ended > options.forget_after;
      });
    }
    if (steps.size() >= options.max_steps)
      return ResourceExhausted("'{}' has {} steps under way or not cleaned up, and takes no more; end some first",
                               options.task, steps.size());
    auto step = std::make_shared<Step>();
    step->rendezvous = std::make_shared<Rendezvous>(std::make_shared<StepSources>(peers, id), parked);
    steps.emplace(id, step);
    return step;
  }

  StatusOr<std::shared_ptr<RegisteredGraph>> GraphOf(const std::string& session, const std::string& graph) {
    MutexLock lock(mutex);
    const auto found = sessions.find(session);
    if (found == sessions.end())
      return Aborted("'{}' has no session '{}'; its process may have been restarted", options.task, Shortened(session));
    found->second.used = StepClock::now();
    const auto registered = found->second.graphs.find(graph);
    if (registered == found->second.graphs.end())
      return Aborted("'{}' has no graph '{}' in this session; its process may have been restarted", options.task,
                     Shortened(graph));
    return registered->second;
  }

  Status Bind(ResourceManager& manager) const {
    for (const auto& [name, files] : options.data) RIVULET_RETURN_IF_ERROR(BindData(manager, name, files));
    return absl::OkStatus();
  }

  // A run's error as other tasks may see it. Messages of kernels may quote tensors (Assert does). Only codes that come
  // from the session and its transport, not from kernels, are passed on.
  Status ForOthers(const Status& status) const {
    if (!options.send || status.ok() || absl::IsCancelled(status) || absl::IsAborted(status) ||
        absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))
      return status;
    if (options.withheld) options.withheld(std::string(Message(status)));
    return Status(status.code(), fmt::format("the step failed at '{}', which keeps its message to itself: it may quote "
                                             "data; the task's owner has it in its log",
                                             options.task));
  }

  void Ended(Step& step, const Status& status) {
    // Notifies peers that wait for tensors of a failed step, and drops its parked tensors.
    if (!status.ok()) step.rendezvous->Abort(status);
    std::vector<RemoteTask::Done> when_finished;
    {
      MutexLock lock(mutex);
      step.ended = StepClock::now();
      step.finished = Status(status.code(), status.message());
      std::swap(when_finished, step.when_finished);
    }
    for (const RemoteTask::Done& finish : when_finished) finish(status);
  }
};

StatusOr<std::shared_ptr<GraphWorker>> GraphWorker::Create(GraphWorkerOptions options, TaskDirectory peers) {
  RIVULET_ASSIGN_OR_RETURN(DeviceName name, ParseDeviceName(options.task));
  if (!name.job || !name.replica || !name.task || name.type || name.id)
    return InvalidArgument("'{}' names no task; write '/job:worker/replica:0/task:1'", options.task);
  name.type = "CPU";
  name.id = 0;
  auto state = std::make_shared<State>();
  state->device = {name.ToString(), "CPU", static_cast<int64_t>(options.memory_limit_bytes), DrawIncarnation()};
  state->resources = std::make_shared<ResourceManager>(options.memory_limit_bytes, fmt::format("'{}'", options.task));
  state->parked =
      std::make_shared<MemoryBudget>(fmt::format("the transfers of '{}'", options.task), options.parked_bytes);
  state->options = std::move(options);
  if (!state->options.data.empty() && !state->options.send) state->options.send.emplace();
  RIVULET_RETURN_IF_ERROR(state->Bind(*state->resources));
  state->peers = std::move(peers);
  return std::shared_ptr<GraphWorker>(new GraphWorker(std::move(state)));
}

// Running parts own what they need; they are cancelled.
GraphWorker::~GraphWorker() {
  std::map<int64_t, std::shared_ptr<Step>> steps;
  std::map<std::string, WorkerSession> sessions;
  {
    MutexLock lock(state_->mutex);
    steps.swap(state_->steps);
    sessions.swap(state_->sessions);
  }
  for (const auto& [id, step] : steps) {
    step->cancel.Cancel();
    step->rendezvous->Abort(Aborted("'{}' was stopped", state_->options.task));
  }
}

const std::string& GraphWorker::name() const { return state_->options.task; }
const TaskDevice& GraphWorker::device() const { return state_->device; }
const std::shared_ptr<ResourceManager>& GraphWorker::resources() const { return state_->resources; }
size_t GraphWorker::steps() const {
  MutexLock lock(state_->mutex);
  return state_->steps.size();
}
size_t GraphWorker::sessions() const {
  MutexLock lock(state_->mutex);
  return state_->sessions.size();
}
size_t GraphWorker::parked_bytes() const { return state_->parked->used(); }

void GraphWorker::GetStatus(const CancellationToken&, DevicesDone done) { done(std::vector{state_->device}); }

void GraphWorker::CreateWorkerSession(WorkerSessionRequest request, Done done) {
  std::vector<WorkerSession> gone;  // their graphs are destroyed without the lock
  const auto create = [&]() -> Status {
    std::shared_ptr<ResourceManager> resources = state_->resources;
    if (request.isolate_session_state) {
      resources = std::make_shared<ResourceManager>(state_->options.memory_limit_bytes, "the session");
      RIVULET_RETURN_IF_ERROR(state_->Bind(*resources));
    }
    MutexLock lock(state_->mutex);
    if (request.session.empty()) return InvalidArgument("a session of '{}' needs a handle", state_->options.task);
    if (state_->sessions.contains(request.session))
      return AlreadyExists("'{}' has a session '{}' already", state_->options.task, Shortened(request.session));
    if (state_->sessions.size() >= state_->options.max_sessions) {
      const StepClock::time_point now = StepClock::now();
      for (auto entry = state_->sessions.begin(); entry != state_->sessions.end();) {
        if (now - entry->second.used < state_->options.idle_after) {
          ++entry;
          continue;
        }
        gone.push_back(std::move(entry->second));
        entry = state_->sessions.erase(entry);
      }
    }
    if (state_->sessions.size() >= state_->options.max_sessions)
      return ResourceExhausted("'{}' has {} sessions, and takes no more; close some first", state_->options.task,
                               state_->sessions.size());
    state_->sessions[request.session].resources = std::move(resources);
    return absl::OkStatus();
  };
  done(create());
}

void GraphWorker::DeleteWorkerSession(const std::string& session, Done done) {
  WorkerSession gone;  // its graphs are destroyed without the lock
  {
    MutexLock lock(state_->mutex);
    const auto found = state_->sessions.find(session);
    if (found != state_->sessions.end()) {
      gone = std::move(found->second);
      state_->sessions.erase(found);
    }
  }
  done(absl::OkStatus());
}

void GraphWorker::RegisterGraph(GraphRegistration request, HandleDone done) {
  const auto make = [&]() -> StatusOr<std::string> {
    std::shared_ptr<ResourceManager> resources;
    {
      MutexLock lock(state_->mutex);
      const auto found = state_->sessions.find(request.session);
      if (found == state_->sessions.end())
        return Aborted("'{}' has no session '{}'; its process may have been restarted", state_->options.task,
                       Shortened(request.session));
      if (found->second.graphs.size() >= state_->options.max_graphs)
        return ResourceExhausted("the session has {} graphs at '{}', and may register no more",
                                 found->second.graphs.size(), state_->options.task);
      resources = found->second.resources;
    }
    RIVULET_ASSIGN_OR_RETURN(Graph graph, ParseGraph(request.graph_def));
    if (state_->options.allow) RIVULET_RETURN_IF_ERROR(state_->options.allow(graph));
    if (state_->options.send) RIVULET_RETURN_IF_ERROR(CheckSends(graph, *state_->options.send, state_->options.task));
    for (const auto& node : graph.nodes()) {
      if (node->type() == "Placeholder")
        return InvalidArgument("You must feed a value for placeholder tensor '{}' with dtype {} and shape {}",
                               node->name(), Name(node->outputs()[0].dtype), node->outputs()[0].shape.ToString());
      if (node->device().empty() || TaskOf(node->device()) == state_->options.task) continue;
      return InvalidArgument("the graph's node '{}' is on '{}', and not on '{}'", node->name(), node->device(),
                             state_->options.task);
    }
    auto registered = std::make_shared<RegisteredGraph>();
    registered->targets = Sinks(graph);
    SessionConfig config;
    config.seed = request.seed;
    config.shared_state = std::move(resources);
    config.inter_op_threads = state_->options.threads;
    RIVULET_ASSIGN_OR_RETURN(registered->session, Session::Create(std::move(graph), config));
    MutexLock lock(state_->mutex);
    const auto found = state_->sessions.find(request.session);
    if (found == state_->sessions.end()) return Aborted("the session was deleted while a graph was registered");
    std::string handle = fmt::format("{:016x}", found->second.next_graph++);
    found->second.graphs.emplace(handle, std::move(registered));
    return handle;
  };
  done(make());
}

void GraphWorker::DeregisterGraph(const std::string& session, const std::string& graph, Done done) {
  std::shared_ptr<RegisteredGraph> gone;
  {
    MutexLock lock(state_->mutex);
    if (const auto found = state_->sessions.find(session); found != state_->sessions.end()) {
      if (const auto registered = found->second.graphs.find(graph); registered != found->second.graphs.end()) {
        gone = std::move(registered->second);
        found->second.graphs.erase(registered);
      }
    }
  }
  done(absl::OkStatus());
}

namespace {

// Takes the tensors of `keys` as they arrive; the first error ends it.
void TakeAll(const std::shared_ptr<Rendezvous>& rendezvous, const std::vector<std::string>& keys,
             const CancellationToken& cancel, RemoteTask::TensorsDone done) {
  struct Taking {
    Mutex mutex;
    NamedTensors tensors GUARDED_BY(mutex);
    size_t left GUARDED_BY(mutex) = 0;
    Status error GUARDED_BY(mutex);
    RemoteTask::TensorsDone done;
  };
  if (keys.empty()) return done(NamedTensors{});
  const auto taking = std::make_shared<Taking>();
  taking->done = std::move(done);
  {
    MutexLock lock(taking->mutex);
    for (const std::string& key : keys) taking->tensors.emplace_back(key, Tensor());
    taking->left = keys.size();
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    rendezvous->RecvAsync(keys[i], cancel, [taking, i](StatusOr<Tensor> value) {
      NamedTensors tensors;
      Status error;
      {
        MutexLock lock(taking->mutex);
        if (value.ok()) {
          taking->tensors[i].second = *std::move(value);
        } else if (taking->error.ok()) {
          taking->error = value.status();
        }
        if (--taking->left > 0) return;
        tensors.swap(taking->tensors);
        error = taking->error;
      }
      if (!error.ok()) return taking->done(error);
      taking->done(std::move(tensors));
    });
  }
}

}  // namespace

// A step ends by its master's cancellation, its own error, or CleanupGraph. All three cancel one token, so that the
// run, its receives from peers, and its peers' waiting receives end together.
void GraphWorker::RunGraph(TaskStep task_step, const CancellationToken& cancel, TensorsDone done) {
  const std::shared_ptr<TaskTrace> trace = task_step.trace;
  if (trace != nullptr) trace->received_nanos = NowNanos();
  const StatusOr<std::shared_ptr<RegisteredGraph>> graph = state_->GraphOf(task_step.session, task_step.graph);
  if (!graph.ok()) return done(graph.status());
  std::shared_ptr<Step> step;
  Status refused;
  bool starts = false;
  {
    MutexLock lock(state_->mutex);
    StatusOr<std::shared_ptr<Step>> found = state_->StepOf(task_step.id);
    if (found.ok()) {
      step = *std::move(found);
      starts = !step->started;
      step->started = true;
    } else {
      refused = found.status();
    }
  }
  if (step == nullptr) return done(refused);
  if (!starts && !task_step.partial)
    return done(Aborted("the step {} was run here before; a step runs once", task_step.id));
  for (auto& [key, value] : task_step.send) {
    const Status sent = step->rendezvous->Send(key, std::move(value));
    if (!sent.ok()) {
      step->cancel.Cancel();
      state_->Ended(*step, sent);
      return done(sent);
    }
  }
  const uint64_t callback = cancel.OnCancel([token = step->cancel] { token.Cancel(); });
  if (cancel.cancelled()) step->cancel.Cancel();
  const auto forget = [cancel, callback] { cancel.Forget(callback); };
  if (!task_step.partial) {
    RunOptions options;
    options.cancel = step->cancel;
    options.rendezvous = step->rendezvous;
    options.step = task_step.number;
    // Times and sizes also reveal something about data: a task with a send list reports none.
    std::shared_ptr<proto::RunMetadata> metadata;
    if (trace != nullptr && !state_->options.send) {
      options.trace = trace->step_stats;
      options.output_partition_graphs = trace->partition_graphs;
      trace->metadata = metadata = std::make_shared<proto::RunMetadata>();
    }
    (*graph)->session->RunAsync(
        options, {}, {}, (*graph)->targets,
        [state = state_, graph = *graph, step, forget, trace, recv = std::move(task_step.recv),
         done = std::move(done)](StatusOr<std::vector<Tensor>> result) {
          if (!result.ok()) {
            forget();
            const Status failed = state->ForOthers(result.status());
            state->Ended(*step, failed);
            return done(failed);
          }
          // A key that this graph never sends is awaited until the caller cancels.
          TakeAll(step->rendezvous, recv, step->cancel,
                  [state, step, forget, trace, done](StatusOr<NamedTensors> tensors) {
                    forget();
                    state->Ended(*step, tensors.status());
                    if (trace != nullptr) trace->answered_nanos = NowNanos();
                    done(std::move(tensors));
                  });
        },
        std::move(metadata));
    return;
  }
  // A partial step: its fetches are taken as they arrive, and the last call waits for its end.
  if (starts) {
    RunOptions options;
    options.cancel = step->cancel;
    options.rendezvous = step->rendezvous;
    options.step = task_step.number;
    (*graph)->session->RunAsync(options, {}, {}, (*graph)->targets,
                                [state = state_, graph = *graph, step](const StatusOr<std::vector<Tensor>>& result) {
                                  state->Ended(*step, state->ForOthers(result.status()));
                                });
  }
  TakeAll(
      step->rendezvous, task_step.recv, step->cancel,
      [state = state_, step, forget, last = task_step.last, done = std::move(done)](StatusOr<NamedTensors> tensors) {
        if (!last || !tensors.ok()) {
          forget();
          return done(std::move(tensors));
        }
        auto finish = [forget, done, tensors = *std::move(tensors)](const Status& status) mutable {
          forget();
          if (!status.ok()) return done(status);
          done(std::move(tensors));
        };
        Status finished;
        {
          MutexLock lock(state->mutex);
          if (!step->finished) {
            step->when_finished.push_back(std::move(finish));
            return;
          }
          finished = *step->finished;
        }
        finish(finished);
      });
}

// The key names the intended process: a restarted process must not serve a step of its predecessor.
void GraphWorker::RecvTensor(int64_t id, const std::string& key, const CancellationToken& cancel, TensorDone done) {
  const StatusOr<RendezvousKey> parsed = RendezvousKey::Parse(key);
  if (!parsed.ok()) return done(parsed.status());
  if (parsed->send_device != state_->device.name)
    return done(InvalidArgument("the tensor '{}' comes from '{}', which is no device of '{}'",
                                Shortened(parsed->tensor_name), Shortened(parsed->send_device), state_->options.task));
  if (parsed->send_incarnation != state_->device.incarnation)
    return done(Aborted("the tensor '{}' was meant to come from an earlier process of '{}', which was restarted",
                        Shortened(parsed->tensor_name), state_->options.task));
  if (TaskOf(parsed->recv_device) == state_->options.task)
    return done(InvalidArgument("the tensor '{}' stays within '{}' and is not for other tasks",
                                Shortened(parsed->tensor_name), state_->options.task));
  std::shared_ptr<Step> step;
  Status refused;
  {
    MutexLock lock(state_->mutex);
    if (state_->waiting >= state_->options.max_waiting) {
      refused =
          ResourceExhausted("'{}' has {} receives that wait, and takes no more", state_->options.task, state_->waiting);
    } else {
      StatusOr<std::shared_ptr<Step>> found = state_->StepOf(id);
      if (found.ok()) {
        step = *found;
        ++step->waiting;
        ++state_->waiting;
      } else {
        refused = found.status();
      }
    }
  }
  if (step == nullptr) return done(refused);
  step->rendezvous->RecvAsync(key, cancel, [state = state_, step, id, done = std::move(done)](StatusOr<Tensor> value) {
    {
      MutexLock lock(state->mutex);
      --state->waiting;
      // Removes a step that was only asked for, and has no more waiting receives.
      if (--step->waiting == 0 && !step->started) {
        const auto found = state->steps.find(id);
        if (found != state->steps.end() && found->second == step) state->steps.erase(found);
      }
    }
    done(std::move(value));
  });
}

void GraphWorker::CleanupGraph(int64_t id, Done done) {
  std::shared_ptr<Step> step;
  {
    MutexLock lock(state_->mutex);
    if (const auto found = state_->steps.find(id); found != state_->steps.end()) {
      step = std::move(found->second);
      state_->steps.erase(found);
    }
  }
  if (step != nullptr) {
    step->cancel.Cancel();
    step->rendezvous->Abort(Aborted("the step {} was cleaned up", id));
  }
  done(absl::OkStatus());
}

void GraphWorker::CleanupAll(std::vector<std::string> containers, Done done) {
  std::erase(containers, kBoundDataContainer);  // it belongs to the task's owner, not to a session
  if (containers.empty()) containers.emplace_back(ResourceManager::kDefaultContainer);
  state_->resources->Reset(containers);
  done(absl::OkStatus());
}

}  // namespace rivulet
