#include <algorithm>
#include <functional>
#include <thread>

#include "engine/compile/compile.h"
#include "engine/graph/variable_name.h"
#include "engine/program/program.h"
#include "engine/program/variable_uses.h"
#include "federated/plan/plan.h"
#include "federated/random/streams.h"
#include "federated/weights/model.h"

namespace rivulet {
namespace {

// Runs `signature`, an init target, once.
Status RunOnce(const Graph& graph, const Signature& signature, const CompileOptions& options,
               std::span<const Buffer> variables, const StreamKey& rng) {
  EnterWorkerThread();
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileProgram(graph, signature, options));
  RIVULET_ASSIGN_OR_RETURN(const auto instance, program->Instantiate());
  RIVULET_ASSIGN_OR_RETURN(AlignedBuffer arena, AlignedBuffer::Create(program->memory().arena_bytes));
  const uint64_t step = 0;
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.buffers = variables;
  bindings.rng = {&rng, 1};
  bindings.step = {&step, 1};
  return instance->Run(bindings);
}

// Runs the plan's own graph with the plan's compile options, so that deployed and simulated runs with one seed start
// with the same bits.
StatusOr<std::shared_ptr<Model>> Initialise(const Plan& plan, uint64_t seed) {
  auto model = std::make_shared<Model>(plan.layout());
  Signature signature;
  signature.targets = {plan.model().init_target};
  for (const Slice& slice : plan.layout()->slices()) {
    signature.variables.push_back({slice.name, 0, slice.offset, slice.spec});
  }
  const Buffer params = {model->arena().data(), DType::kFloat32, 0};
  RIVULET_RETURN_IF_ERROR(RunOnce(plan.model().graph, signature, plan.compile_options(), {&params, 1},
                                  StreamFor(seed, "", Purpose::kInitialise)));
  return model;
}

// The init target may assign more variables than the model's, such as optimiser slots in a third party's graph.
StatusOr<NamedTensors> Initialise(const ModelDef& model) {
  Node* const init = model.graph.Find(model.init_target);
  if (init == nullptr)
    return FailedPrecondition("the graph has no '{}' that gives its variables values", model.init_target);
  const std::vector<Node*> order = model.graph.TopologicalOrder({&init, 1});
  Signature signature;
  signature.targets = {model.init_target};
  std::map<std::string, Tensor, std::less<>> assigned;
  std::vector<Tensor> memory;
  std::vector<Buffer> buffers;
  for (const VariableUse& use : VariableUses(model.graph, std::vector<const Node*>(order.begin(), order.end()))) {
    const std::string name(VariableName(*use.handle));
    if (use.needs_value) return FailedPrecondition("the variable '{}' is read before it has a value", name);
    const TensorSpec spec{VariableDType(*use.handle), use.handle->attr<Shape>("shape")};
    StatusOr<Tensor> value = Tensor::Create(spec.dtype, spec.shape);
    if (!value.ok()) return Annotate(value.status(), fmt::format("the variable '{}'", name));
    signature.variables.push_back({name, static_cast<int>(buffers.size()), 0, spec});
    buffers.push_back({value->data(), spec.dtype, 0});
    if (use.assigned) assigned.emplace(name, *value);  // the same memory
    memory.push_back(*std::move(value));
  }
  RIVULET_RETURN_IF_ERROR(RunOnce(model.graph, signature, {}, buffers, {}));
  NamedTensors values;
  for (const ModelVariable& variable : model.variables)
    if (const auto value = assigned.find(variable.name); value != assigned.end()) values.emplace_back(*value);
  return values;
}

// Runs on a separate thread, so that the caller's floating-point modes are unchanged.
template <typename T>
StatusOr<T> OnAThread(const std::function<StatusOr<T>()>& initialise) {
  StatusOr<T> result = Internal("not run");
  std::thread worker([&] { result = initialise(); });
  worker.join();
  if (!result.ok()) return Annotate(result.status(), "giving the variables their first values");
  return result;
}

}  // namespace

StatusOr<std::shared_ptr<Model>> InitialModel(const Plan& plan, uint64_t seed) {
  if (plan.external()) {
    return FailedPrecondition("plan '{}' has no graph that would give its variables their first values", plan.name());
  }
  return OnAThread<std::shared_ptr<Model>>([&] { return Initialise(plan, seed); });
}

StatusOr<NamedTensors> InitialModel(const ModelDef& model) {
  return OnAThread<NamedTensors>([&] { return Initialise(model); });
}

StatusOr<std::shared_ptr<const Model>> DrawModelFor(const Plan& plan, uint64_t seed, std::string_view flat) {
  return InitialModel(plan, ClientKey(seed, flat));
}

}  // namespace rivulet
