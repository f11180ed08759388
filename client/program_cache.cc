#include "client/program_cache.h"

#include <charconv>
#include <set>
#include <utility>

#include "client/trainer.h"
#include "engine/compile/compile.h"
#include "engine/gradients/gradients.h"
#include "engine/gradients/mixed_precision.h"
#include "engine/graph/compose.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "federated/plan/local_rules.h"

namespace rivulet {
namespace {

constexpr char kLocalScope[] = "local";  // where the step graph's nodes go

// Where a flat variable lies: its buffer, and the offset in it. FlatSpec has accepted its name.
// The flat variables of a plan and the variables of its model are two names for the same bytes: "params" is the whole
// trainable segment, and the model's weights are slices of it. That is what lets three small graphs over vectors serve
// every model.
std::pair<int, size_t> PlaceOf(std::string_view name, const ModelLayout& layout) {
  const auto in = [&](int buffer, Segment segment) { return std::pair(buffer, layout.segment_offset(segment)); };
  if (name == "params") return in(kParamsBuffer, Segment::kTrainable);
  if (name == "base_params") return in(kBaseParamsBuffer, Segment::kTrainable);
  if (name == "grads") return in(kGradsBuffer, Segment::kTrainable);
  if (name == "update/delta") return in(kUpdateBuffer, Segment::kTrainable);
  if (name == "shared") return in(kParamsBuffer, Segment::kShared);
  if (name == "base_shared") return in(kBaseParamsBuffer, Segment::kShared);
  if (name == "update/shared_delta") return in(kUpdateBuffer, Segment::kShared);
  if (name == "round") return {kScalarsBuffer, 0};
  int number = 0;
  std::from_chars(name.data() + name.find('/') + 1, name.data() + name.size(), number);
  if (name.starts_with("scalars/")) return {kScalarsBuffer, (static_cast<size_t>(number) + 1) * kScalarStride};
  return in(kFirstSlotBuffer + number, Segment::kTrainable);
}

}  // namespace

std::shared_ptr<ProgramCache> NewProgramCache(std::shared_ptr<const Plan> plan) {
  return std::make_shared<ProgramCache>(std::move(plan));
}

std::shared_ptr<ProgramCache> NewProgramCache(std::shared_ptr<const Plan> plan, CompileOptions options) {
  return std::make_shared<ProgramCache>(std::move(plan), std::move(options));
}

size_t ProgramCache::buffer_bytes(int buffer) const {
  const ModelLayout& layout = *plan_->layout();
  if (buffer == kParamsBuffer || buffer == kBaseParamsBuffer) return layout.arena_bytes();
  if (buffer == kScalarsBuffer) return (static_cast<size_t>(plan_->scalars()) + 1) * kScalarStride;
  const size_t trainable = layout.segment_bytes(Segment::kTrainable);
  return buffer == kUpdateBuffer ? trainable + layout.segment_bytes(Segment::kShared) : trainable;
}

StatusOr<std::vector<VariableBinding>> ProgramCache::BindVariables(const Graph& graph) const {
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
      bindings.push_back({name, gradient ? kGradsBuffer : kParamsBuffer, slice->offset, slice->spec, gradient});
      continue;
    }
    const StatusOr<TensorSpec> flat = FlatSpec(name, layout, plan_->slots(), plan_->scalars());
    if (!flat.ok()) {
      return InvalidArgument("the plan uses a variable '{}', which is neither the model's nor a flat one: {}", name,
                             Message(flat.status()));
    }
    const Shape& shape = node->attr<Shape>("shape");
    if (VariableDType(*node) != flat->dtype || !Shape::Compatible(shape, flat->shape)) {
      return InvalidArgument("the plan's variable '{}' is {}{}, but it stands for {}{}", name,
                             Name(VariableDType(*node)), shape.ToString(), Name(flat->dtype), flat->shape.ToString());
    }
    const auto [buffer, offset] = PlaceOf(name, layout);
    bindings.push_back({name, buffer, offset, *flat, buffer == kGradsBuffer});
  }
  return bindings;
}

// One graph and one program for forward pass, gradients and local rule. Three programs would have to hand every
// gradient over in memory, and the compiler could neither fuse an update with its gradient nor share the arena between
// them.
StatusOr<Graph> ProgramCache::ComposeStep() const {
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
  if (!plan_->loss_scale().empty()) {
    const std::string& name = plan_->loss_scale();
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
  RIVULET_RETURN_IF_ERROR(ImportInto(graph, plan_->step_graph(), kLocalScope, assigned));
  return graph;
}

StatusOr<std::shared_ptr<const Program>> ProgramCache::CompileLocal(const Graph& graph, std::string_view what) {
  Signature signature;
  signature.targets = {kRunTarget};
  RIVULET_ASSIGN_OR_RETURN(signature.variables, BindVariables(graph));
  StatusOr<std::shared_ptr<const Program>> program = CompileProgram(graph, signature, options_);
  if (!program.ok()) return Annotate(program.status(), what);
  return program;
}

StatusOr<std::shared_ptr<const Program>> ProgramCache::Init() {
  MutexLock lock(mutex_);
  if (init_ == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(init_, CompileLocal(plan_->init_graph(), "the plan's init graph"));
  }
  return init_;
}

StatusOr<std::shared_ptr<const Program>> ProgramCache::Final() {
  MutexLock lock(mutex_);
  if (final_ == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(final_, CompileLocal(plan_->final_graph(), "the plan's final graph"));
  }
  return final_;
}

StatusOr<Signature> ProgramCache::StepSignature(const Graph& graph, int64_t batch_size) const {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan_->features()));
  Signature signature;
  signature.feeds = decoder->FeedSpecs(batch_size);
  signature.fetches = {plan_->model().train_loss};
  signature.targets = {fmt::format("{}/{}", kLocalScope, kRunTarget)};
  RIVULET_ASSIGN_OR_RETURN(signature.variables, BindVariables(graph));
  return signature;
}

StatusOr<ProgramCache::StepGraph> ProgramCache::DescribeStep(int64_t batch_size) {
  StatusOr<Graph> composed = ComposeStep();
  if (!composed.ok()) return Annotate(composed.status(), "the plan's training step");
  RIVULET_ASSIGN_OR_RETURN(Signature signature, StepSignature(*composed, batch_size));
  return StepGraph{*std::move(composed), std::move(signature)};
}

// Compiled under the lock: of the trainers that ask for one size at the same time one compiles and the others wait for
// it, which is sooner than doing it themselves.
StatusOr<std::shared_ptr<const Program>> ProgramCache::Step(int64_t batch_size) {
  MutexLock lock(mutex_);
  std::shared_ptr<const Program>& step = steps_[batch_size];
  if (step != nullptr) return step;
  if (!step_graph_.has_value()) {
    StatusOr<Graph> composed = ComposeStep();
    if (!composed.ok()) return Annotate(composed.status(), "the plan's training step");
    step_graph_ = std::move(*composed);
  }
  RIVULET_ASSIGN_OR_RETURN(const Signature signature, StepSignature(*step_graph_, batch_size));
  StatusOr<std::shared_ptr<const Program>> program = CompileProgram(*step_graph_, signature, options_);
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
