#include "engine/session/session.h"

#include <algorithm>
#include <map>
#include <shared_mutex>

#include "engine/base/mutex.h"
#include "engine/base/nearest.h"
#include "engine/graph/inference.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"

namespace rivulet {
namespace {

constexpr size_t kAlignment = 64;

// Compiled for one set of names and feed shapes.
struct CompiledRun {
  std::shared_ptr<const Program> program;
  bool writes = false;
  std::vector<size_t> reads;     // variables that must have a value before
  std::vector<size_t> assigned;  // that have one after
  Mutex mutex;
  std::vector<std::unique_ptr<Instance>> idle;  // guarded by mutex; each run takes one
  std::vector<AlignedBuffer> arenas;            // likewise
};

struct SessionVariable {
  std::string name;
  TensorSpec spec;
  size_t offset = 0;
  bool initialized = false;
};

std::string Key(const Session::Feeds& feeds, const std::vector<std::string>& fetches,
                const std::vector<std::string>& targets) {
  std::string key;
  for (const auto& [name, tensor] : feeds)
    key += fmt::format("{}={}{};", name, Name(tensor.dtype()), tensor.shape().ToString());
  for (const std::string& name : fetches) key += fmt::format("|{}", name);
  for (const std::string& name : targets) key += fmt::format("^{}", name);
  return key;
}

}  // namespace

struct Session::State {
  Graph graph;
  SessionConfig config;
  std::vector<SessionVariable> variables;
  AlignedBuffer storage;
  mutable std::shared_mutex variables_mutex;  // shared: reads values and flags; exclusive: changes them

  Mutex cache_mutex;
  std::map<std::string, std::shared_ptr<CompiledRun>> cache GUARDED_BY(cache_mutex);
  std::atomic<uint64_t> step{0};

  SessionVariable* Find(std::string_view name) {
    const auto found = std::ranges::find(variables, name, &SessionVariable::name);
    return found == variables.end() ? nullptr : &*found;
  }
  Status Missing(std::string_view name) const {
    std::vector<std::string> names;
    for (const SessionVariable& variable : variables) names.push_back(variable.name);
    return NotFound("the session has no variable '{}'.{}", name, DidYouMean(name, names));
  }
  std::byte* Data(const SessionVariable& variable) { return storage.data() + variable.offset; }

  Status AddVariables();
  StatusOr<std::vector<Node*>> Roots(const Feeds& feeds, const std::vector<std::string>& fetches,
                                     const std::vector<std::string>& targets) const;
  Status DescribeEffects(const Feeds& feeds, const std::vector<Node*>& roots, CompiledRun& run);
  StatusOr<std::shared_ptr<CompiledRun>> Compile(const Feeds& feeds, const std::vector<std::string>& fetches,
                                                 const std::vector<std::string>& targets);
};

Status Session::State::AddVariables() {
  size_t offset = 0;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "VarHandleOp") continue;
    SessionVariable variable{std::string(VariableName(*node)), {VariableDType(*node), node->attr<Shape>("shape")}};
    if (const SessionVariable* same = Find(variable.name)) {
      if (same->spec != variable.spec)
        return InvalidArgument("the variable '{}' is both {}{} and {}{}", variable.name, Name(same->spec.dtype),
                               same->spec.shape.ToString(), Name(variable.spec.dtype), variable.spec.shape.ToString());
      continue;
    }
    const StatusOr<int64_t> elements = variable.spec.shape.CheckedElements();
    if (!elements.ok()) return Annotate(elements.status(), fmt::format("the variable '{}'", variable.name));
    const size_t bytes = static_cast<size_t>(*elements) * SizeOf(variable.spec.dtype);
    if (SizeOf(variable.spec.dtype) == 0)
      return InvalidArgument("the variable '{}' is {}, which has no values", variable.name, Name(variable.spec.dtype));
    variable.offset = offset;
    offset += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    variables.push_back(std::move(variable));
  }
  if (offset > size_t{1} << 40) return ResourceExhausted("the graph's variables take {} bytes", offset);
  storage = AlignedBuffer(offset);
  return absl::OkStatus();
}

StatusOr<std::vector<Node*>> Session::State::Roots(const Feeds& feeds, const std::vector<std::string>& fetches,
                                                   const std::vector<std::string>& targets) const {
  std::vector<Node*> roots;
  for (const std::string& name : fetches) {
    RIVULET_ASSIGN_OR_RETURN(const Output output, graph.FindOutput(name));
    roots.push_back(output.node);
  }
  for (const std::string& name : targets) {
    Node* node = graph.Find(name);
    if (node == nullptr) return graph.FindOutput(name).status();  // names the nearest
    roots.push_back(node);
  }
  if (roots.empty()) return InvalidArgument("a run needs a fetch or a target");
  for (const auto& [name, tensor] : feeds) {
    RIVULET_ASSIGN_OR_RETURN(const Output output, graph.FindOutput(name));
    if (tensor.empty()) return InvalidArgument("the feed of '{}' is no tensor", name);
    if (output.dtype() != tensor.dtype() || !Shape::Compatible(output.shape(), tensor.shape()))
      return InvalidArgument("'{}' is {}{}, but is fed {}{}", name, Name(output.dtype()), output.shape().ToString(),
                             Name(tensor.dtype()), tensor.shape().ToString());
  }
  return roots;
}

// Which variables a run reads and writes. A fed tensor cuts off what computes it.
Status Session::State::DescribeEffects(const Feeds& feeds, const std::vector<Node*>& roots, CompiledRun& run) {
  std::vector<Output> fed;
  for (const auto& [name, tensor] : feeds) {
    RIVULET_ASSIGN_OR_RETURN(const Output output, graph.FindOutput(name));
    fed.push_back(output);
  }
  std::vector<bool> needed(graph.nodes().size());
  std::vector<Node*> stack = roots;
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    if (needed[static_cast<size_t>(node->id())]) continue;
    needed[static_cast<size_t>(node->id())] = true;
    for (const Output& input : node->inputs())
      if (std::ranges::find(fed, input) == fed.end()) stack.push_back(input.node);
    for (Node* before : node->control_inputs()) stack.push_back(before);
  }
  for (Node* node : graph.TopologicalOrder(roots)) {
    if (!needed[static_cast<size_t>(node->id())]) continue;
    for (const Output& input : node->inputs()) {
      if (input.node->type() != "VarHandleOp") continue;
      const size_t variable = static_cast<size_t>(Find(VariableName(*input.node)) - variables.data());
      const bool assigns = node->type() == "AssignVariableOp";
      const bool assigned_before = std::ranges::find(run.assigned, variable) != run.assigned.end();
      if (assigns && !assigned_before) run.assigned.push_back(variable);
      if (!assigns && !assigned_before) run.reads.push_back(variable);
      run.writes = run.writes || node->type() != "ReadVariableOp";
    }
  }
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<CompiledRun>> Session::State::Compile(const Feeds& feeds,
                                                               const std::vector<std::string>& fetches,
                                                               const std::vector<std::string>& targets) {
  const std::string key = Key(feeds, fetches, targets);
  MutexLock lock(cache_mutex);
  std::shared_ptr<CompiledRun>& cached = cache[key];
  if (cached != nullptr) return cached;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Node*> roots, Roots(feeds, fetches, targets));
  auto run = std::make_shared<CompiledRun>();
  RIVULET_RETURN_IF_ERROR(DescribeEffects(feeds, roots, *run));
  Signature signature;
  for (const auto& [name, tensor] : feeds) signature.feeds.push_back({name, {tensor.dtype(), tensor.shape()}});
  signature.fetches = fetches;
  signature.targets = targets;
  for (const SessionVariable& variable : variables)
    signature.variables.push_back({variable.name, 0, variable.offset, variable.spec});
  RIVULET_ASSIGN_OR_RETURN(run->program,
                           Program::Compile(graph, signature, CompileOptions{config.kernels, config.passes}));
  cached = run;
  return run;
}

Session::Session() : state_(std::make_unique<State>()) {}
Session::~Session() = default;

StatusOr<std::unique_ptr<Session>> Session::Create(Graph graph, const SessionConfig& config) {
  std::unique_ptr<Session> session(new Session());
  session->state_->graph = std::move(graph);
  session->state_->config = config;
  RIVULET_RETURN_IF_ERROR(session->state_->AddVariables());
  return session;
}

StatusOr<std::vector<Tensor>> Session::Run(const Feeds& feeds, const std::vector<std::string>& fetches,
                                           const std::vector<std::string>& targets, const CancellationToken& cancel) {
  EnterWorkerThread();
  State& state = *state_;
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<CompiledRun> run, state.Compile(feeds, fetches, targets));

  std::unique_ptr<Instance> instance;
  AlignedBuffer arena;
  {
    MutexLock lock(run->mutex);
    if (!run->idle.empty()) {
      instance = std::move(run->idle.back());
      arena = std::move(run->arenas.back());
      run->idle.pop_back();
      run->arenas.pop_back();
    }
  }
  if (instance == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(instance, run->program->Instantiate());
    arena = AlignedBuffer(run->program->memory().arena_bytes);
  }

  std::vector<TensorView> feed_views, fetch_views;
  for (const auto& [name, tensor] : feeds) feed_views.push_back(tensor.view());
  std::vector<Tensor> results;
  for (const TensorSpec& spec : run->program->fetch_specs()) {
    results.emplace_back(spec.dtype, spec.shape);
    fetch_views.push_back(results.back().view());
  }
  const Buffer buffer{state.storage.data(), DType::kFloat32, 0};
  StreamKey rng;
  rng.key.words = {static_cast<uint32_t>(state.config.seed), static_cast<uint32_t>(state.config.seed >> 32)};
  const uint64_t step = state.step.fetch_add(1);
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.buffers = {&buffer, 1};
  bindings.feeds = feed_views;
  bindings.fetches = fetch_views;
  bindings.rng = {&rng, 1};
  bindings.step = {&step, 1};

  std::shared_lock<std::shared_mutex> shared(state.variables_mutex, std::defer_lock);
  std::unique_lock<std::shared_mutex> exclusive(state.variables_mutex, std::defer_lock);
  if (run->writes) {
    exclusive.lock();
  } else {
    shared.lock();
  }
  for (size_t variable : run->reads)
    if (!state.variables[variable].initialized)
      return FailedPrecondition("the variable '{}' is read before it has a value; run the target that initialises it",
                                state.variables[variable].name);
  RIVULET_RETURN_IF_ERROR(instance->Run(bindings, cancel));
  for (size_t variable : run->assigned) state.variables[variable].initialized = true;
  if (run->writes) {
    exclusive.unlock();
  } else {
    shared.unlock();
  }

  MutexLock lock(run->mutex);
  run->idle.push_back(std::move(instance));
  run->arenas.push_back(std::move(arena));
  return results;
}

const Graph& Session::graph() const { return state_->graph; }

std::vector<std::string> Session::variables() const {
  std::vector<std::string> names;
  for (const SessionVariable& variable : state_->variables) names.push_back(variable.name);
  return names;
}

StatusOr<Tensor> Session::GetVariable(std::string_view name) const {
  const SessionVariable* variable = state_->Find(name);
  if (variable == nullptr) return state_->Missing(name);
  std::shared_lock<std::shared_mutex> lock(state_->variables_mutex);
  if (!variable->initialized) return FailedPrecondition("the variable '{}' has no value yet", name);
  Tensor value(variable->spec.dtype, variable->spec.shape);
  std::memcpy(value.data(), state_->Data(*variable), value.bytes());
  return value;
}

Status Session::SetVariable(std::string_view name, const Tensor& value) {
  SessionVariable* variable = state_->Find(name);
  if (variable == nullptr) return state_->Missing(name);
  if (value.empty() || value.dtype() != variable->spec.dtype || value.shape() != variable->spec.shape)
    return InvalidArgument("the variable '{}' is {}{}, and cannot be set to {}{}", name, Name(variable->spec.dtype),
                           variable->spec.shape.ToString(), Name(value.dtype()), value.shape().ToString());
  std::unique_lock<std::shared_mutex> lock(state_->variables_mutex);
  std::memcpy(state_->Data(*variable), value.data(), value.bytes());
  variable->initialized = true;
  return absl::OkStatus();
}

}  // namespace rivulet
