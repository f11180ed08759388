#include "client/pass_programs.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "engine/compile/compile.h"
#include "engine/gradients/gradients.h"
#include "engine/gradients/mixed_precision.h"
#include "engine/graph/compose.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "federated/plan/example_source.h"
#include "federated/plan/flat_names.h"
#include "federated/plan/flat_scope.h"

namespace rivulet {
namespace {

constexpr char kLocalScope[] = "local";  // where the step graph's nodes go

constexpr size_t kScalarStride = 64;  // a cache line each

}  // namespace

BufferTable::BufferTable(const Plan& plan) : layout_(plan.layout()) {
  const FlatNames& flats = plan.flat_names();
  const auto add = [&](std::string name, size_t bytes) {
    names_.push_back(std::move(name));
    bytes_.push_back(bytes);
  };
  const size_t trainable = layout_->segment_bytes(Segment::kTrainable);
  add("params", layout_->arena_bytes());
  add("grads", trainable);
  add("base_params", layout_->arena_bytes());
  add("scalars", (static_cast<size_t>(flats.scalars) + 1) * kScalarStride);
  for (int i = 0; i < flats.slots; ++i) add(fmt::format("slots/{}", i), trainable);
  for (const std::string& name : flats.update) add(fmt::format("update/{}", name), trainable);
}

int BufferTable::index(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  RIVULET_CHECK(found != names_.end(), "the plan has no flat vector '{}'", name);
  return static_cast<int>(found - names_.begin());
}

// The flat variables of a plan and the variables of its model are two names for the same bytes: "params" is the whole
// trainable segment, and the model's weights are slices of it. That is what lets small graphs over vectors serve every
// model.
std::pair<int, size_t> BufferTable::PlaceOf(std::string_view flat) const {
  const size_t shared = layout_->segment_offset(Segment::kShared);
  if (flat == "shared") return {kParams, shared};
  if (flat == "base_shared") return {kBaseParams, shared};
  if (flat == "round") return {kScalars, 0};
  constexpr std::string_view kNumbered = "scalars/";
  if (flat.starts_with(kNumbered)) {
    size_t number = 0;
    std::from_chars(flat.data() + kNumbered.size(), flat.data() + flat.size(), number);
    return {kScalars, (number + 1) * kScalarStride};
  }
  return {index(flat), layout_->segment_offset(Segment::kTrainable)};
}

PassPrograms::PassPrograms(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)), options_(plan_->compile_options()), buffers_(*plan_) {}

PassPrograms::PassPrograms(std::shared_ptr<const Plan> plan, CompileOptions options)
    : plan_(std::move(plan)), options_(std::move(options)), buffers_(*plan_) {}

StatusOr<std::vector<VariableBinding>> PassPrograms::BindVariables(const Graph& graph) const {
  const ModelLayout& layout = *plan_->layout();
  constexpr std::string_view kGradients = "grads/";
  std::vector<VariableBinding> bindings;
  std::set<std::string> bound;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "VarHandleOp") continue;
    const std::string name(VariableName(*node));
    if (!bound.insert(name).second) continue;
    const bool gradient = name.starts_with(kGradients);
    const std::string variable = gradient ? name.substr(kGradients.size()) : name;
    const Slice* slice = nullptr;
    for (const Slice& candidate : layout.slices()) {
      if (candidate.name == variable && (!gradient || candidate.segment == Segment::kTrainable)) slice = &candidate;
    }
    if (slice != nullptr) {
      // A step's gradients are nobody's business after it.
      // Being transient, they need not exist: the compiler may use a gradient where it is made and never write it.
      const int buffer = gradient ? BufferTable::kGrads : BufferTable::kParams;
      bindings.push_back({name, buffer, slice->offset, slice->spec, gradient});
      continue;
    }
    const StatusOr<TensorSpec> flat = FlatSpec(name, layout, plan_->flat_names());
    if (!flat.ok()) {
      return InvalidArgument("the plan uses a variable '{}', which is neither the model's nor a flat one: {}", name,
                             Message(flat.status()));
    }
    const Shape& shape = node->attr<Shape>("shape");
    if (VariableDType(*node) != flat->dtype || !Shape::Compatible(shape, flat->shape)) {
      return InvalidArgument("the plan's variable '{}' is {}{}, but it stands for {}{}", name,
                             Name(VariableDType(*node)), shape.ToString(), Name(flat->dtype), flat->shape.ToString());
    }
    const auto [buffer, offset] = buffers_.PlaceOf(name);
    bindings.push_back({name, buffer, offset, *flat, buffer == BufferTable::kGrads});
  }
  return bindings;
}

// One graph and one program for forward pass, gradients and local rule. Three programs would have to hand every
// gradient over in memory, and the compiler could neither fuse an update with its gradient nor share the arena between
// them.
StatusOr<Graph> PassPrograms::ComposeStep(const LocalPass& pass) const {
  const ModelDef& model = plan_->model();
  Graph graph = model.graph.Clone();
  RIVULET_ASSIGN_OR_RETURN(Output loss, graph.FindOutput(model.train_loss));

  std::map<std::string_view, Output> handle_of;
  for (const auto& node : graph.nodes()) {
    if (node->type() == "VarHandleOp") handle_of.emplace(VariableName(*node), node->output());
  }
  std::vector<const Slice*> trainable;
  std::vector<Output> handles;
  for (const Slice& slice : plan_->layout()->slices()) {
    const auto handle = handle_of.find(slice.name);
    if (slice.segment != Segment::kTrainable || handle == handle_of.end()) continue;
    trainable.push_back(&slice);
    handles.push_back(handle->second);
  }
  Scope scope(graph);
  // The loss is scaled before gradients are taken, which scales each of them exactly where the scale is a power of two;
  // the step graph takes it out again.
  if (!pass.loss_scale.empty()) {
    const std::string& name = pass.loss_scale;
    const Output handle =
        scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat64}, {"shape", Shape{}}, {"shared_name", name}}, name);
    const Output scale = scope.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat64}});
    loss = scope.Op("Mul", {loss, scope.Op("Cast", {scale}, {{"DstT", DType::kFloat32}})}, {}, "scaled_loss");
    RIVULET_RETURN_IF_ERROR(scope.status());
  }
  RIVULET_ASSIGN_OR_RETURN(std::vector<Output> gradients, ComputeGradients(graph, loss, handles));
  RIVULET_RETURN_IF_ERROR(WidenWeightGradients(graph, gradients));

  // The step waits for all assignments, since it reads the flat vector of which each is a slice; no edge of data says
  // so.
  std::vector<Node*> assigned;
  for (size_t i = 0; i < trainable.size(); ++i) {
    const std::string name = "grads/" + trainable[i]->name;
    const TensorSpec& spec = trainable[i]->spec;
    const Output handle =
        scope.Op("VarHandleOp", {}, {{"dtype", spec.dtype}, {"shape", spec.shape}, {"shared_name", name}}, name);
    assigned.push_back(scope.AddNode("AssignVariableOp", {handle, gradients[i]}, {}, name + "/assign"));
  }
  for (const std::string& update : model.train_updates) assigned.push_back(graph.Find(update));
  RIVULET_RETURN_IF_ERROR(scope.status());
  RIVULET_RETURN_IF_ERROR(ImportInto(graph, *pass.step, kLocalScope, assigned));
  return graph;
}

StatusOr<std::shared_ptr<const Program>> PassPrograms::CompileFlat(const Graph& graph, std::string_view what) const {
  Signature signature;
  signature.targets = {kRunTarget};
  RIVULET_ASSIGN_OR_RETURN(signature.variables, BindVariables(graph));
  StatusOr<std::shared_ptr<const Program>> program = CompileProgram(graph, signature, options_);
  if (!program.ok()) return Annotate(program.status(), fmt::format("the plan's {} graph", what));
  return program;
}

StatusOr<std::shared_ptr<const Program>> PassPrograms::Begin(TaskKind kind, size_t pass) {
  MutexLock lock(mutex_);
  std::shared_ptr<const Program>& begin = compiled_[{kind, pass}].begin;
  if (begin == nullptr && PassOf(kind, pass).begin != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(begin, CompileFlat(*PassOf(kind, pass).begin, "begin"));
  }
  return begin;
}

StatusOr<std::shared_ptr<const Program>> PassPrograms::End(TaskKind kind, size_t pass) {
  MutexLock lock(mutex_);
  std::shared_ptr<const Program>& end = compiled_[{kind, pass}].end;
  if (end == nullptr && PassOf(kind, pass).end != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(end, CompileFlat(*PassOf(kind, pass).end, "end"));
  }
  return end;
}

StatusOr<Signature> PassPrograms::StepSignature(const Graph& graph, int64_t batch_size) const {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan_->features()));
  Signature signature;
  signature.feeds = decoder->FeedSpecs(batch_size);
  signature.fetches = {plan_->model().train_loss};
  signature.targets = {fmt::format("{}/{}", kLocalScope, kRunTarget)};
  RIVULET_ASSIGN_OR_RETURN(signature.variables, BindVariables(graph));
  return signature;
}

StatusOr<PassPrograms::StepGraph> PassPrograms::DescribeStep(TaskKind kind, size_t pass, int64_t batch_size) {
  StatusOr<Graph> composed = ComposeStep(PassOf(kind, pass));
  if (!composed.ok()) return Annotate(composed.status(), "the plan's training step");
  RIVULET_ASSIGN_OR_RETURN(Signature signature, StepSignature(*composed, batch_size));
  return StepGraph{*std::move(composed), std::move(signature)};
}

// Compiled under the lock: of the trainers that ask for one size at the same time one compiles and the others wait for
// it, which is sooner than doing it themselves.
StatusOr<std::shared_ptr<const Program>> PassPrograms::Step(TaskKind kind, size_t pass, int64_t batch_size) {
  MutexLock lock(mutex_);
  Compiled& compiled = compiled_[{kind, pass}];
  std::shared_ptr<const Program>& step = compiled.steps[batch_size];
  if (step != nullptr) return step;
  if (!compiled.step_graph.has_value()) {
    StatusOr<Graph> composed = ComposeStep(PassOf(kind, pass));
    if (!composed.ok()) return Annotate(composed.status(), "the plan's training step");
    compiled.step_graph = std::move(*composed);
  }
  RIVULET_ASSIGN_OR_RETURN(const Signature signature, StepSignature(*compiled.step_graph, batch_size));
  StatusOr<std::shared_ptr<const Program>> program = CompileProgram(*compiled.step_graph, signature, options_);
  if (!program.ok()) {
    return Annotate(program.status(), fmt::format("the plan's training step at batch size {}", batch_size));
  }
  const TensorSpec& loss = (*program)->fetch_specs()[0];
  if (loss != TensorSpec{DType::kFloat32, Shape{}}) {
    return InvalidArgument("the training loss '{}' is {}{}; it must be a float32 scalar", plan_->model().train_loss,
                           Name(loss.dtype), loss.shape.ToString());
  }
  step = *std::move(program);
  return step;
}

}  // namespace rivulet
