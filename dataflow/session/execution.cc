#include "dataflow/session/execution.h"

#include <atomic>
#include <utility>

#include "dataflow/placement/rendezvous.h"
#include "dataflow/session/run_cut_call.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"

namespace rivulet {

// A started asynchronous op. Its callback and its return synchronise: the second of the
// two continues the run. An op may call back before it returns, from this thread or
// another. Two flags ensure that exactly one side continues, and that an op which is
// done at once continues on this thread without growing the stack or using the pool.
struct Execution::AsyncCall {
  explicit AsyncCall(AsyncContext given) : context(std::move(given)) {}
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  AsyncContext context;
  std::atomic<bool> done{false};
  std::atomic<int> arrived{0};
  StatusOr<std::vector<Tensor>> outputs = std::vector<Tensor>();
};

Execution::Execution(ExecutionEnvironment environment)
    : environment_(std::move(environment)), plan_(*environment_.plan) {
  if (environment_.info.rendezvous != nullptr) scope_.Put<Rendezvous>(environment_.info.rendezvous);
  MutexLock lock(mutex_);
  values_.resize(static_cast<size_t>(plan_.num_values));
  has_value_.resize(values_.size(), false);
  uses_ = plan_.uses;
  for (const PlanStep& step : plan_.steps) waits_.push_back(step.waits);
  left_ = static_cast<int>(plan_.steps.size());
}

// Without a pool only the waiting thread works, from a
// queue; callbacks from other threads only add to the queue.
void Execution::Schedule(std::function<void()> closure) {
  if (environment_.pool != nullptr) {
    environment_.pool->Schedule(std::move(closure), environment_.priority);
    return;
  }
  MutexLock lock(mutex_);
  own_work_.push(std::move(closure));
  changed_.NotifyAll();
}

// Counts all steps as started before any is scheduled: otherwise the first might end before the second is scheduled,
// and the run would seem finished.
void Execution::Start(std::vector<Tensor> feeds) {
  std::vector<int> ready;
  {
    MutexLock lock(mutex_);
    bool later = false;
    for (const PlanStep& step : plan_.steps) later = later || step.kind == PlanStep::Kind::kFeed;
    for (size_t i = 0; i < feeds.size() && !later; ++i) {
      const size_t value = static_cast<size_t>(plan_.feeds[i]);
      values_[value] = std::move(feeds[i]);
      has_value_[value] = true;
    }
    for (size_t step = 0; step < plan_.steps.size(); ++step)
      if (waits_[step] == 0 && plan_.steps[step].kind != PlanStep::Kind::kFeed) ready.push_back(static_cast<int>(step));
    under_way_ += static_cast<int>(ready.size());
  }
  for (const int step : ready) Schedule([self = shared_from_this(), step] { self->RunStep(step); });
}

void Execution::Feed(int feed, Tensor value) {
  int step = -1;
  for (size_t i = 0; i < plan_.steps.size(); ++i)
    if (plan_.steps[i].kind == PlanStep::Kind::kFeed && plan_.steps[i].index == feed) step = static_cast<int>(i);
  RIVULET_CHECK(step >= 0, "feed {} is no step", feed);
  {
    MutexLock lock(mutex_);
    const size_t index = static_cast<size_t>(plan_.feeds[static_cast<size_t>(feed)]);
    values_[index] = std::move(value);
    has_value_[index] = true;
    ++under_way_;
  }
  for (const int next : Complete(step, absl::OkStatus()))
    Schedule([self = shared_from_this(), next] { self->RunStep(next); });
}

// Runs `first` and then, on this thread, one of the steps that become ready
// after it; the others go to the pool. So a chain of parts stays on its thread,
// with its results in the cache, and only forks of the graph use the pool.
void Execution::RunStep(int first) {
  for (int step = first; step >= 0;) {
    Status status;
    if (environment_.info.cancel.cancelled()) {
      status = Cancelled("the run was cancelled");
    } else if (plan_.steps[static_cast<size_t>(step)].kind == PlanStep::Kind::kPart) {
      status = RunPart(step);
    } else if (!StartAsync(step, &status)) {
      return;  // its done-callback continues
    }
    const std::vector<int> ready = Complete(step, status);
    for (size_t i = 1; i < ready.size(); ++i)
      Schedule([self = shared_from_this(), next = ready[i]] { self->RunStep(next); });
    step = ready.empty() ? -1 : ready[0];
  }
}

// Tensors share their memory, so taking is cheap, and the last user is the last owner: large values between parts are
// freed as soon as they are not needed.
std::vector<Tensor> Execution::TakeInputs(const std::vector<int>& values) {
  MutexLock lock(mutex_);
  std::vector<Tensor> taken;
  for (const int value : values) {
    const size_t index = static_cast<size_t>(value);
    taken.push_back(values_[index]);
    if (--uses_[index] == 0) values_[index] = Tensor();  // frees its memory with the last user
  }
  return taken;
}

Status Execution::RunPart(int step) {
  const int index = plan_.steps[static_cast<size_t>(step)].index;
  const PlanPart& part = plan_.parts[static_cast<size_t>(index)];
  const std::vector<Tensor> inputs = TakeInputs(part.inputs);
  if (part.nothing) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(
      std::vector<Tensor> outputs,
      environment_.parts->Run(part, fmt::format("{}#{}:", environment_.plan_key, index), inputs, environment_.info));
  MutexLock lock(mutex_);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t value = static_cast<size_t>(part.outputs[i]);
    values_[value] = std::move(outputs[i]);
    has_value_[value] = true;
  }
  return absl::OkStatus();
}

// Looks the resource up by name in every run, because the container may have been reset. The handle's attributes are
// compared with the resource: another session may have made it, with another type.
StatusOr<std::shared_ptr<Resource>> Execution::ResourceOf(const Node& handle) const {
  const Graph& graph = *plan_.graph;
  const std::string& container = handle.attr<std::string>("container");
  const std::string name(VariableName(handle));
  ResourceManager& resources = *environment_.resources;
  std::shared_ptr<Resource> resource;
  if (handle.type() == "VarHandleOp") {
    RIVULET_ASSIGN_OR_RETURN(resource, resources.Find(container, VariableResource::kType, name));
  } else {
    const AsyncOpRegistry::ResourceOp* op = AsyncOpRegistry::Global().FindResource(handle.type());
    if (op == nullptr)
      return Unimplemented("{} '{}' names no resource that a session can make", handle.type(), handle.name());
    StatusOr<std::shared_ptr<Resource>> found = resources.FindOrMake(container, op->type, name, [&] {
      return op->make({handle, graph, resources, environment_.parts->options()});
    });
    if (!found.ok()) return Annotate(found.status(), fmt::format("{} '{}'", handle.type(), handle.name()));
    resource = *std::move(found);
  }
  const Status checked = resource->CheckHandle(handle);
  if (!checked.ok()) return Annotate(checked, fmt::format("{} '{}'", handle.type(), handle.name()));
  return resource;
}

Status Execution::RunCall(int step, const PlanAsync& async) {
  const auto begin = std::chrono::steady_clock::now();
  StatusOr<std::vector<Tensor>> results = RunCutCall(*async.call, *async.node, TakeInputs(async.inputs), environment_);
  // Handles have no value, but keep their ports.
  if (results.ok()) {
    size_t next = 0;
    std::vector<Tensor> outputs;
    for (const TensorSpec& spec : async.node->outputs())
      outputs.push_back(spec.dtype == DType::kResource ? Tensor() : std::move((*results)[next++]));
    results = std::move(outputs);
  }
  return Finish(step, *async.node, begin, std::move(results));
}

// The call's context is shared with the callback, which may outlive this frame and, in an abandoned run, the caller.
bool Execution::StartAsync(int step, Status* status) {
  const PlanAsync& async = plan_.asyncs[static_cast<size_t>(plan_.steps[static_cast<size_t>(step)].index)];
  const Node& node = *async.node;
  if (async.call != nullptr) {
    *status = RunCall(step, async);
    return true;
  }
  const auto call = std::make_shared<AsyncCall>(
      AsyncContext{node,
                   *plan_.graph,
                   TakeInputs(async.inputs),
                   {},
                   *environment_.resources,
                   scope_,
                   environment_.parts->options(),
                   environment_.info.cancel,
                   environment_.info.rng,
                   environment_.info.step,
                   [self = shared_from_this()](std::function<void()> work) { self->Schedule(std::move(work)); }});
  for (const Node* handle : async.handles) {
    StatusOr<std::shared_ptr<Resource>> resource = ResourceOf(*handle);
    if (!resource.ok()) {
      *status = resource.status();
      return true;
    }
    call->context.resources.push_back(*std::move(resource));
  }
  if (async.run == nullptr) {  // a handle whose resource is created
    *status = ResourceOf(node).status();
    return true;
  }
  (*async.run)(call->context, [self = shared_from_this(), call, step](StatusOr<std::vector<Tensor>> outputs) {
    RIVULET_CHECK(!call->done.exchange(true), "{} '{}' was done twice", call->context.node.type(),
                  call->context.node.name());
    call->outputs = std::move(outputs);
    if (call->arrived.fetch_add(1, std::memory_order_acq_rel) == 0) return;  // the op has not returned yet
    const Status done = self->FinishAsync(step, *call, std::move(call->outputs));
    for (const int next : self->Complete(step, done)) self->Schedule([self, next] { self->RunStep(next); });
  });
  if (call->arrived.fetch_add(1, std::memory_order_acq_rel) == 0) return false;
  *status = FinishAsync(step, *call, std::move(call->outputs));
  return true;
}

Status Execution::FinishAsync(int step, const AsyncCall& call, StatusOr<std::vector<Tensor>> outputs) {
  return Finish(step, call.context.node, call.begin, std::move(outputs));
}

Status Execution::Finish(int step, const Node& node, std::chrono::steady_clock::time_point begin,
                         StatusOr<std::vector<Tensor>> outputs) {
  if (environment_.info.trace != nullptr)
    environment_.info.trace->AddAsync(node, begin, std::chrono::steady_clock::now());
  const PlanAsync& async = plan_.asyncs[static_cast<size_t>(plan_.steps[static_cast<size_t>(step)].index)];
  const std::string where = fmt::format("{} '{}'", node.type(), node.name());
  if (!outputs.ok()) return Annotate(outputs.status(), where);
  if (outputs->size() != node.outputs().size())
    return Internal("{} gave {} outputs, and has {}", where, outputs->size(), node.outputs().size());
  // Programs are compiled for the types and shapes in the graph. Values from asynchronous ops are checked here, so that
  // errors name the op and not a part that fails to compile.
  for (size_t port = 0; port < outputs->size(); ++port) {
    const TensorSpec& spec = node.outputs()[port];
    const Tensor& value = (*outputs)[port];
    if (spec.dtype == DType::kResource) continue;
    if (value.empty() || value.dtype() != spec.dtype || !Shape::Compatible(value.shape(), spec.shape))
      return InvalidArgument("{}: output {} is {}{}, but the graph has {}{}", where, port, Name(value.dtype()),
                             value.shape().ToString(), Name(spec.dtype), spec.shape.ToString());
  }
  MutexLock lock(mutex_);
  for (size_t port = 0; port < outputs->size(); ++port) {
    if (async.outputs[port] < 0) continue;
    const size_t value = static_cast<size_t>(async.outputs[port]);
    values_[value] = std::move((*outputs)[port]);
    has_value_[value] = true;
  }
  return absl::OkStatus();
}

// After an error no new step starts, but started steps are awaited: they use the run's memory, variables and callbacks,
// which the caller may free as soon as it has the error.
std::vector<int> Execution::Complete(int step, const Status& status) {
  std::vector<int> ready;
  bool failed = false;
  {
    MutexLock lock(mutex_);
    --left_;
    if (!status.ok() && error_.ok()) {
      error_ = status;
      failed = true;
    }
    if (error_.ok()) {
      for (const int next : plan_.steps[static_cast<size_t>(step)].before)
        if (--waits_[static_cast<size_t>(next)] == 0) ready.push_back(next);
      under_way_ += static_cast<int>(ready.size());
    }
  }
  // Cancels the others before this step counts as done, so that no waiter misses the cancellation.
  if (failed) environment_.info.cancel.Cancel();
  bool settled = false;
  {
    MutexLock lock(mutex_);
    --under_way_;
    changed_.NotifyAll();
    settled = when_done_ != nullptr && (error_.ok() ? left_ == 0 : under_way_ == 0);
  }
  // On the pool: this may be a callback of the run's own alarm
  // or token, and the run's end waits for that callback.
  if (settled) Schedule([self = shared_from_this()] { self->CallWhenDone(); });
  return ready;
}

void Execution::WhenDone(Done done) {
  RIVULET_CHECK(environment_.pool != nullptr, "a run without a waiting thread needs a pool");
  MutexLock lock(mutex_);
  when_done_ = std::move(done);
}

void Execution::CallWhenDone() {
  Done done;
  std::vector<int> all(plan_.fetches.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  {
    MutexLock lock(mutex_);
    std::swap(done, when_done_);
  }
  if (done) done(Wait(all, /*all=*/true));
}

bool Execution::Settled(std::span<const int> fetches, bool all) const {
  if (!error_.ok()) return under_way_ == 0;
  if (all && left_ > 0) return false;
  for (const int fetch : fetches)
    if (!has_value_[static_cast<size_t>(plan_.fetches[static_cast<size_t>(fetch)])]) return false;
  return true;
}

StatusOr<std::vector<Tensor>> Execution::Wait(std::span<const int> fetches, bool all) {
  mutex_.Lock();
  while (!Settled(fetches, all)) {
    if (own_work_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    const std::function<void()> work = std::move(own_work_.front());
    own_work_.pop();
    mutex_.Unlock();
    work();
    mutex_.Lock();
  }
  // A separate copy: the thread sanitizer cannot see reference counting in the distribution's absl.
  const Status error = error_.ok() ? error_ : Status(error_.code(), error_.message());
  std::vector<Tensor> results;
  for (size_t i = 0; i < fetches.size() && error.ok(); ++i) {
    const size_t value = static_cast<size_t>(plan_.fetches[static_cast<size_t>(fetches[i])]);
    results.push_back(values_[value]);
    if (--uses_[value] == 0) values_[value] = Tensor();
  }
  mutex_.Unlock();
  if (!error.ok()) return error;
  return results;
}

void Execution::Abandon() {
  environment_.info.cancel.Cancel();
  mutex_.Lock();
  if (error_.ok()) error_ = Cancelled("the run was given up");
  mutex_.Unlock();
  (void)Wait({}, /*all=*/true);
}

}  // namespace rivulet
