#include "dataflow/session/part_runner.h"

#include <algorithm>
#include <optional>
#include <shared_mutex>

#include "dataflow/session/allocation_report.h"
#include "engine/base/nearest.h"
#include "engine/compile/compile.h"
#include "engine/compile/compile_gpu.h"
#include "engine/graph/device_name.h"
#include "engine/graph/function.h"
#include "engine/graph/variable_name.h"
#include "engine/program/staged_gpu_program.h"

namespace rivulet {

// ---- variables

StatusOr<std::shared_ptr<VariableResource>> SessionVariables::Resolve(const Entry& entry) const {
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<Resource> resource,
                           resources_->FindOrMake(entry.container, VariableResource::kType, entry.name,
                                                  [&]() -> StatusOr<std::shared_ptr<Resource>> {
                                                    return VariableResource::Create(entry.name, entry.spec,
                                                                                    resources_->memory());
                                                  }));
  return std::static_pointer_cast<VariableResource>(std::move(resource));
}

// Adds all variables or none: a failed extension of the graph must not change the session. New variables are owned by
// this frame until all fit, and are freed otherwise.
Status SessionVariables::Add(const Graph& graph) {
  MutexLock lock(mutex_);
  std::vector<Entry> added;
  std::vector<std::shared_ptr<VariableResource>> held;  // until all are known to fit
  std::vector<const Node*> handles;
  const auto collect = [&](const Graph& from) {
    for (const auto& node : from.nodes())
      if (node->type() == "VarHandleOp") handles.push_back(node.get());
  };
  collect(graph);
  for (const auto& [name, function] : graph.functions()) collect(*function->body);
  for (const Node* node : handles) {
    const std::string name(VariableName(*node));
    const std::string container = node->attr<std::string>("container");
    const Entry* known = nullptr;
    if (const auto found = by_name_.find(name); found != by_name_.end()) known = &entries_[found->second];
    for (const Entry& entry : added)
      if (entry.name == name) known = &entry;
    const Entry entry{name, container, {VariableDType(*node), node->attr<Shape>("shape")}, {}};
    if (known != nullptr && known->container != container)
      return InvalidArgument("the variable '{}' is in the containers '{}' and '{}'; give one of the two another name",
                             name, known->container, container);
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<VariableResource> variable, Resolve(entry));
    RIVULET_RETURN_IF_ERROR(variable->CheckHandle(*node));
    if (known != nullptr) continue;
    added.push_back(entry);
    added.back().variable = variable;
    held.push_back(std::move(variable));
  }
  for (Entry& entry : added) {
    by_name_.emplace(entry.name, entries_.size());
    entries_.push_back(std::move(entry));
  }
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<VariableResource>> SessionVariables::Find(std::string_view name) const {
  MutexLock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return Resolve(entries_[found->second]);
  std::vector<std::string> known;
  for (const Entry& entry : entries_) known.push_back(entry.name);
  return NotFound("the session has no variable '{}'.{}", name, DidYouMean(name, known));
}

std::vector<std::string> SessionVariables::names() const {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

// ---- arenas

// Runs have any order and size, and freeing and allocating memory causes page faults in every step. So arenas are kept
// and reused for the program that they fit best; their number is the maximum of concurrent runs. Under a budget, idle
// arenas are freed first.
StatusOr<BudgetedBuffer> ArenaPool::Take(size_t bytes) {
  std::vector<BudgetedBuffer> returned;
  {
    MutexLock lock(mutex_);
    auto best = idle_.end();
    for (auto arena = idle_.begin(); arena != idle_.end(); ++arena)
      if (arena->size() >= bytes && (best == idle_.end() || arena->size() < best->size())) best = arena;
    if (best != idle_.end()) {
      BudgetedBuffer taken = std::move(*best);
      idle_.erase(best);
      return taken;
    }
    // An arena that is too small is replaced by the larger one.
    if (!idle_.empty()) {
      returned.push_back(std::move(idle_.back()));
      idle_.pop_back();
    }
  }
  returned.clear();
  StatusOr<BudgetedBuffer> made = BudgetedBuffer::Create(bytes, memory_, "the arena of a program");
  if (made.ok() || !absl::IsResourceExhausted(made.status())) return made;
  {
    MutexLock lock(mutex_);
    returned.swap(idle_);
  }
  if (returned.empty()) return made;
  returned.clear();
  return BudgetedBuffer::Create(bytes, memory_, "the arena of a program");
}

void ArenaPool::Give(BudgetedBuffer arena) {
  MutexLock lock(mutex_);
  idle_.push_back(std::move(arena));
}

// ---- programs

namespace {

// Calls several observers. They nest like brackets: the first begins last and ends first, so that it measures the
// kernel and not the other observers.
class Several final : public RunObserver {
 public:
  void Add(RunObserver* observer) {
    if (observer != nullptr) observers_[count_++] = observer;
  }
  // Null if there are no observers.
  RunObserver* get() { return count_ == 0 ? nullptr : count_ == 1 ? observers_[0] : this; }
  void Begin(const Program& program, int index, const KernelContext& context) override {
    for (int i = count_; i-- > 0;) observers_[i]->Begin(program, index, context);
  }
  Status End(const Program& program, int index, const KernelContext& context) override {
    Status status;
    for (int i = 0; i < count_; ++i) {
      Status each = observers_[i]->End(program, index, context);
      if (status.ok()) status = std::move(each);
    }
    return status;
  }
  void Failed(const Program& program, int index, const Status& status) override {
    for (int i = 0; i < count_; ++i) observers_[i]->Failed(program, index, status);
  }

 private:
  RunObserver* observers_[3] = {};
  int count_ = 0;
};

}  // namespace

// A program's instance for one thread.
struct PartRunner::Worker {
  std::unique_ptr<Instance> instance;
  // The variables of Compiled::uses, looked up at the manager's `generation`.
  std::vector<std::weak_ptr<VariableResource>> variables;
  uint64_t generation = ~uint64_t{0};
};

struct PartRunner::Compiled {
  struct Use {
    std::string name;
    bool needs_value = false, assigned = false, written = false;
  };
  std::shared_ptr<const Program> program;
  std::vector<Use> uses;  // buffers of the program, in order
  Mutex mutex;
  std::vector<Worker> idle GUARDED_BY(mutex);
};

PartRunner::PartRunner(CompileOptions options, std::shared_ptr<SessionVariables> variables,
                       std::shared_ptr<MemoryBudget> memory, size_t max_programs,
                       std::vector<std::shared_ptr<GpuDevice>> gpus)
    : options_(std::move(options)),
      gpus_(std::move(gpus)),
      variables_(std::move(variables)),
      arenas_(std::move(memory)),
      programs_(max_programs) {}

PartRunner::~PartRunner() = default;

size_t PartRunner::programs() const { return programs_.size(); }

StatusOr<std::shared_ptr<const Program>> PartRunner::CompileFor(const std::string& device, const Graph& graph,
                                                                const Signature& signature) const {
  DeviceName name;  // stays empty for nodes that were not placed
  if (!device.empty()) {
    RIVULET_ASSIGN_OR_RETURN(name, ParseDeviceName(device));
  }
  if (name.type != "GPU") return CompileProgram(graph, signature, options_);
  const auto number = static_cast<size_t>(name.id.value_or(0));
  if (number >= gpus_.size())
    return FailedPrecondition("there is nothing behind '{}': the session has {} GPUs", device, gpus_.size());
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const GpuProgram> program, CompileForGpu(graph, signature, options_));
  return NewStagedProgram(std::move(program), gpus_[number]);
}

StatusOr<std::shared_ptr<PartRunner::Compiled>> PartRunner::CompilePart(const PlanPart& part,
                                                                        std::span<const Tensor> inputs) {
  auto compiled = std::make_shared<Compiled>();
  Signature signature;
  for (size_t i = 0; i < inputs.size(); ++i)
    signature.feeds.push_back({part.feeds[i], {inputs[i].dtype(), inputs[i].shape()}});
  signature.fetches = part.fetches;
  signature.targets = part.targets;
  for (const VariableUse& use : part.variables) {
    const std::string name(VariableName(*use.handle));
    RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<VariableResource> variable, variables_->Find(name));
    signature.variables.push_back({name, static_cast<int>(compiled->uses.size()), 0, variable->spec()});
    compiled->uses.push_back({name, use.needs_value, use.assigned, use.written});
  }
  RIVULET_ASSIGN_OR_RETURN(compiled->program, CompileFor(part.device, *part.graph, signature));
  return compiled;
}

// The key contains the shapes of the inputs, not those in the graph: batches
// of any size get one program per size, and OnceCache drops the least
// recently used. Types are not needed in it, because the graph fixes them.
StatusOr<std::shared_ptr<PartRunner::Compiled>> PartRunner::Find(const PlanPart& part, std::string_view key,
                                                                 std::span<const Tensor> inputs) {
  std::string full(key);
  const auto append = [&](const auto& value) { full.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const Tensor& input : inputs) {
    append(input.shape().dims().size());
    for (const int64_t dim : input.shape().dims()) append(dim);
  }
  return programs_.Get(full, [&] { return CompilePart(part, inputs); });
}

StatusOr<std::shared_ptr<const Program>> PartRunner::Compile(const PlanPart& part, std::string_view key,
                                                             std::span<const Tensor> inputs) {
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<Compiled> compiled, Find(part, key, inputs));
  return compiled->program;
}

Status PartRunner::WithReport(Status status, const Program& program) const {
  const MemoryBudget& memory = *variables_->resources().memory();
  return absl::ResourceExhaustedError(ToAbsl(fmt::format(
      "{}\n{}", Message(status), ReportAllocations(program, &variables_->resources(), &memory).ToString())));
}

StatusOr<std::vector<Tensor>> PartRunner::Run(const PlanPart& part, std::string_view key,
                                              std::span<const Tensor> inputs, const RunInfo& info) {
  StatusOr<std::shared_ptr<Compiled>> found = Find(part, key, inputs);
  if (!found.ok()) {
    // Over the budget of PassOptions: the program without a budget shows the use of memory.
    if (info.report_allocations && absl::IsResourceExhausted(found.status()) &&
        options_.passes.memory_budget_bytes > 0) {
      CompileOptions options = options_;
      options.passes.memory_budget_bytes = 0;
      PartRunner unlimited(options, variables_, nullptr, 1, gpus_);
      const auto program = unlimited.Compile(part, key, inputs);
      if (program.ok()) return WithReport(found.status(), **program);
    }
    return found.status();
  }
  Compiled& compiled = **found;
  const Program& program = *compiled.program;

  // An instance belongs to one thread at a time. Instances from the pool keep their tables, so a typical run only binds
  // new feeds.
  Worker worker;
  {
    MutexLock lock(compiled.mutex);
    if (!compiled.idle.empty()) {
      worker = std::move(compiled.idle.back());
      compiled.idle.pop_back();
    }
  }
  if (worker.instance == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(worker.instance, program.Instantiate());
  }

  // The variables, locked in one order for all runs.
  ResourceManager& resources = variables_->resources();
  std::vector<std::shared_ptr<VariableResource>> variables(compiled.uses.size());
  // Looking names up under the manager's lock would make runs of small programs wait for each other. An unchanged
  // generation shows that nothing was removed; pointers are weak, so that an idle worker keeps no variable alive.
  const uint64_t generation = resources.generation();
  for (size_t i = 0; i < variables.size(); ++i) {
    if (worker.generation == generation) variables[i] = worker.variables[i].lock();
    if (variables[i] == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(variables[i], variables_->Find(compiled.uses[i].name));
      worker.variables.resize(variables.size());
      worker.variables[i] = variables[i];
    }
  }
  worker.generation = generation;

  // Before the variables are locked: a run that gets no memory must not delay others.
  StatusOr<BudgetedBuffer> arena = arenas_.Take(program.memory().arena_bytes);
  if (!arena.ok()) return info.report_allocations ? WithReport(arena.status(), program) : arena.status();
  std::vector<Tensor> results;
  std::vector<TensorView> feed_views, fetch_views;
  for (const Tensor& input : inputs) feed_views.push_back(input.view());
  for (size_t i = 0; i < part.fetches.size(); ++i) {
    const TensorSpec& spec = program.fetch_specs()[i];
    StatusOr<Tensor> result = Tensor::Create(spec.dtype, spec.shape);
    if (!result.ok()) {
      arenas_.Give(*std::move(arena));
      const Status status = Annotate(result.status(), fmt::format("the fetch '{}'", part.fetches[i]));
      return info.report_allocations ? WithReport(status, program) : status;
    }
    results.push_back(*std::move(result));
    fetch_views.push_back(results.back().view());
  }
  std::vector<Buffer> buffers;
  for (const auto& variable : variables) buffers.push_back({variable->data(), variable->spec().dtype, 0});
  Bindings bindings;
  bindings.arena = arena->data();
  bindings.buffers = buffers;
  bindings.feeds = feed_views;
  bindings.fetches = fetch_views;
  bindings.rng = {&info.rng, 1};
  bindings.step = {&info.step, 1};
  bindings.deadline = info.deadline;
  bindings.max_loop_steps = info.max_loop_steps;

  // Runs that lock the same variables in different orders could deadlock, so all lock in the order of creation. Locks
  // are held for the whole part, because a program reads a variable in place, anywhere between its first and its last
  // call.
  std::vector<size_t> order(variables.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return variables[a]->order() < variables[b]->order(); });
  for (const size_t i : order) {
    if (compiled.uses[i].written) {
      variables[i]->mutex().lock();
    } else {
      variables[i]->mutex().lock_shared();
    }
  }
  std::optional<RunRecorder> recorder;
  Several observers;
  if (info.trace != nullptr && info.trace->wishes().Times()) observers.Add(&recorder.emplace());
  observers.Add(info.costs);
  observers.Add(info.observer);
  bindings.observer = observers.get();
  const auto run = [&]() -> Status {
    // Checked under the locks, because another run may initialise the variable.
    for (size_t i = 0; i < variables.size(); ++i)
      if (compiled.uses[i].needs_value && !variables[i]->initialized())
        return FailedPrecondition("the variable '{}' is read before it has a value; run the target that initialises it",
                                  compiled.uses[i].name);
    if (info.observer != nullptr && info.observer_mutex != nullptr) {
      MutexLock lock(*info.observer_mutex);
      RIVULET_RETURN_IF_ERROR(worker.instance->Run(bindings, info.cancel));
    } else {
      RIVULET_RETURN_IF_ERROR(worker.instance->Run(bindings, info.cancel));
    }
    for (size_t i = 0; i < variables.size(); ++i)
      if (compiled.uses[i].assigned) variables[i]->set_initialized();
    return absl::OkStatus();
  };
  const Status status = run();
  for (const size_t i : order) {
    if (compiled.uses[i].written) {
      variables[i]->mutex().unlock();
    } else {
      variables[i]->mutex().unlock_shared();
    }
  }
  if (info.trace != nullptr) info.trace->AddPart(part, compiled.program, options_, recorder ? &*recorder : nullptr);
  arenas_.Give(*std::move(arena));
  {
    MutexLock lock(compiled.mutex);
    compiled.idle.push_back(std::move(worker));
  }
  RIVULET_RETURN_IF_ERROR(status);
  return results;
}

}  // namespace rivulet
