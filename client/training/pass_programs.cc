#include "client/training/pass_programs.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/vlog.h"
#include "engine/compile/compile.h"
#include "engine/compile/compile_gpu.h"
#include "engine/compile/compile_lanes.h"
#include "engine/graph/variable_name.h"
#include "federated/plan/example_noise.h"
#include "federated/plan/example_source.h"
#include "federated/plan/flat_names.h"
#include "federated/plan/flat_scope.h"

namespace rivulet {
namespace {

std::string_view StepName(TaskKind kind) {
  return kind == TaskKind::kTrain ? "the plan's training step" : "the plan's evaluation step";
}

// Its index among the layout's base variables.
std::optional<size_t> BaseVariable(const ModelLayout& layout, std::string_view name) {
  const auto found = std::ranges::find(layout.base_variables(), name, &VariableSpec::name);
  if (found == layout.base_variables().end()) return std::nullopt;
  return static_cast<size_t>(found - layout.base_variables().begin());
}

}  // namespace

PassPrograms::PassPrograms(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)), options_(plan_->compile_options()), buffers_(*plan_) {}

PassPrograms::PassPrograms(std::shared_ptr<const Plan> plan, CompileOptions options)
    : plan_(std::move(plan)), options_(std::move(options)), buffers_(*plan_) {}

StatusOr<std::vector<VariableBinding>> PassPrograms::BindVariables(const Graph& graph, bool keep_gradients) const {
  const ModelLayout& layout = *plan_->layout();
  constexpr std::string_view kGradients = "grads/", kOther = "other_grads/", kBase = "base_params/";
  std::vector<VariableBinding> bindings;
  std::set<std::string> bound;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "VarHandleOp") continue;
    const std::string name(VariableName(*node));
    if (!bound.insert(name).second) continue;
    const bool gradient = name.starts_with(kGradients);
    const bool other = name.starts_with(kOther);
    const bool base = name.starts_with(kBase);
    std::string variable = gradient ? name.substr(kGradients.size())
                           : other  ? name.substr(kOther.size())
                           : base   ? name.substr(kBase.size())
                                    : name;
    int kept = -1;  // the buffer of a client's, a rule's or a broadcast vector
    const auto look = [&](const std::string& buffer) {
      if (!name.starts_with(buffer + "/")) return;
      variable = name.substr(buffer.size() + 1);
      kept = buffers_.index(buffer);
    };
    const FlatNames& flats = plan_->flat_names();
    for (const StateVector& state : flats.state) look(fmt::format("{}{}", kStatePrefix, state.name));
    for (int i = 0; i < flats.slots; ++i) look(fmt::format("{}{}", kSlotPrefix, i));
    for (const std::string& vector : flats.broadcast) look(fmt::format("{}{}", kBroadcastPrefix, vector));
    const Slice* slice = nullptr;
    for (const Slice& candidate : layout.slices()) {
      const bool whole = !gradient && !other && kept < 0;  // the others cover only trained variables
      if (candidate.name == variable && (whole || IsTrained(candidate.segment))) slice = &candidate;
    }
    if (slice != nullptr) {
      // A step's gradients are not read after it. Being transient, they need not exist: the compiler may use a gradient
      // where it is made and never write it.
      const int buffer = gradient    ? BufferTable::kGrads
                         : other     ? buffers_.index("other_grads")
                         : base      ? BufferTable::kBaseParams
                         : kept >= 0 ? kept
                                     : BufferTable::kParams;
      bindings.push_back({name, buffer, slice->offset, slice->spec, (gradient || other) && !keep_gradients});
      continue;
    }
    if (const std::optional<size_t> of_base =
            kept < 0 && !gradient && !other ? BaseVariable(layout, variable) : std::nullopt) {
      bindings.push_back({name, buffers_.base(*of_base), 0, layout.base_variables()[*of_base].spec});
      continue;
    }
    const StatusOr<TensorSpec> flat = FlatSpec(name, layout, plan_->flat_names());
    if (!flat.ok()) {
      return InvalidArgument("the plan uses a variable '{}', which is neither the model's nor a flat one: {}", name,
                             Message(flat.status()));
    }
    const Shape& shape = node->attr<Shape>("shape");
    if (VariableDType(*node) != flat->dtype || !Shape::Compatible(shape, flat->shape)) {
      return InvalidArgument("the plan's variable '{}' is {}{}, but its flat variable is {}{}", name,
                             Name(VariableDType(*node)), shape.ToString(), Name(flat->dtype), flat->shape.ToString());
    }
    const auto [buffer, offset] = buffers_.PlaceOf(name);
    const bool of_gradient = buffer == BufferTable::kGrads || name == "other_grads";
    bindings.push_back({name, buffer, offset, *flat, of_gradient && !keep_gradients});
  }
  return bindings;
}

StatusOr<Signature> PassPrograms::FlatSignature(const Graph& graph) const {
  Signature signature;
  signature.targets = {kRunTarget};
  RIVULET_ASSIGN_OR_RETURN(signature.variables, BindVariables(graph));
  return signature;
}

StatusOr<std::shared_ptr<const Program>> PassPrograms::CompileFlat(const Graph& graph, std::string_view what) const {
  RIVULET_ASSIGN_OR_RETURN(const Signature signature, FlatSignature(graph));
  StatusOr<std::shared_ptr<const Program>> program = CompileProgram(graph, signature, options_);
  if (!program.ok()) return Annotate(program.status(), fmt::format("the plan's {} graph", what));
  return program;
}

StatusOr<std::shared_ptr<const GpuProgram>> PassPrograms::CompileFlatForGpu(const Graph& graph,
                                                                            std::string_view what) const {
  RIVULET_ASSIGN_OR_RETURN(const Signature signature, FlatSignature(graph));
  StatusOr<std::shared_ptr<const GpuProgram>> program = CompileForGpu(graph, signature, options_);
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

StatusOr<std::shared_ptr<const Program>> PassPrograms::ClippedSum() {
  MutexLock lock(mutex_);
  std::shared_ptr<const Program>& program = compiled_[{TaskKind::kTrain, 0}].clipped_sum;
  if (program != nullptr) return program;
  RIVULET_RETURN_IF_ERROR(CheckExampleTraining(*plan_));
  const LocalPass& pass = PassOf(TaskKind::kTrain, 0);
  const int64_t rows = ExampleRows(pass.batch_size);
  const std::optional<ExampleNoise> noise = ExampleNoiseOf(*plan_);
  if (!noise) return FailedPrecondition("plan '{}' protects no single examples", plan_->name());
  auto composed = ComposeClippedSum(*plan_, pass, rows, noise->clip);
  if (!composed.ok()) return Annotate(composed.status(), StepName(TaskKind::kTrain));
  RIVULET_ASSIGN_OR_RETURN(Signature signature, StepSignature(pass, *composed, rows, false));
  signature.feeds.push_back({kPresentRows, {DType::kFloat32, Shape{rows}}});
  RIVULET_ASSIGN_OR_RETURN(signature.variables, BindVariables(composed->graph, /*keep_gradients=*/true));
  auto compiled = CompileProgram(composed->graph, signature, options_);
  if (!compiled.ok()) return Annotate(compiled.status(), StepName(TaskKind::kTrain));
  program = *std::move(compiled);
  return program;
}

StatusOr<std::shared_ptr<const Program>> PassPrograms::Rule() {
  MutexLock lock(mutex_);
  std::shared_ptr<const Program>& program = compiled_[{TaskKind::kTrain, 0}].rule;
  if (program != nullptr) return program;
  RIVULET_ASSIGN_OR_RETURN(const ComposedStep composed, ComposeRule(PassOf(TaskKind::kTrain, 0)));
  Signature signature;
  signature.targets = composed.targets;
  RIVULET_ASSIGN_OR_RETURN(signature.variables, BindVariables(composed.graph, /*keep_gradients=*/true));
  auto compiled = CompileProgram(composed.graph, signature, options_);
  if (!compiled.ok()) return Annotate(compiled.status(), "the plan's step graph");
  program = *std::move(compiled);
  return program;
}

StatusOr<std::shared_ptr<const GpuProgram>> PassPrograms::GpuBegin(TaskKind kind, size_t pass) {
  MutexLock lock(mutex_);
  std::shared_ptr<const GpuProgram>& begin = compiled_[{kind, pass}].gpu_begin;
  if (begin == nullptr && PassOf(kind, pass).begin != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(begin, CompileFlatForGpu(*PassOf(kind, pass).begin, "begin"));
  }
  return begin;
}

StatusOr<std::shared_ptr<const GpuProgram>> PassPrograms::GpuEnd(TaskKind kind, size_t pass) {
  MutexLock lock(mutex_);
  std::shared_ptr<const GpuProgram>& end = compiled_[{kind, pass}].gpu_end;
  if (end == nullptr && PassOf(kind, pass).end != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(end, CompileFlatForGpu(*PassOf(kind, pass).end, "end"));
  }
  return end;
}

Status PassPrograms::Compose(TaskKind kind, size_t pass, Compiled& compiled) const {
  if (compiled.step.has_value()) return absl::OkStatus();
  StatusOr<ComposedStep> composed = ComposeStep(*plan_, PassOf(kind, pass));
  if (!composed.ok()) return Annotate(composed.status(), StepName(kind));
  compiled.step = *std::move(composed);
  return absl::OkStatus();
}

Status PassPrograms::CheckScalars(TaskKind kind, size_t pass, const Signature& signature,
                                  std::span<const TensorSpec> fetched) const {
  for (size_t i = 0; i < fetched.size(); ++i) {
    const TensorSpec& spec = fetched[i];
    if (spec == TensorSpec{DType::kFloat32, Shape{}}) continue;
    return InvalidArgument("{}'s {} '{}' is {}{}; it must be a float32 scalar", StepName(kind),
                           PassOf(kind, pass).scalars[i].name, signature.fetches[i], Name(spec.dtype),
                           spec.shape.ToString());
  }
  return absl::OkStatus();
}

StatusOr<Signature> PassPrograms::StepSignature(const LocalPass& pass, const ComposedStep& step, int64_t batch_size,
                                                bool from_base) const {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan_->features()));
  Signature signature;
  signature.feeds = decoder->FeedSpecs(batch_size);
  for (const PassScalar& scalar : pass.scalars) signature.fetches.push_back(scalar.tensor);
  signature.targets = step.targets;
  RIVULET_ASSIGN_OR_RETURN(signature.variables, BindVariables(step.graph));
  if (from_base) {
    signature.copies = {{BufferTable::kParams, BufferTable::kBaseParams, buffers_.bytes(BufferTable::kParams)}};
  }
  return signature;
}

StatusOr<PassPrograms::StepGraph> PassPrograms::DescribeStep(TaskKind kind, size_t pass, int64_t batch_size) {
  StatusOr<ComposedStep> composed = ComposeStep(*plan_, PassOf(kind, pass));
  if (!composed.ok()) return Annotate(composed.status(), StepName(kind));
  RIVULET_ASSIGN_OR_RETURN(Signature signature, StepSignature(PassOf(kind, pass), *composed, batch_size, false));
  return StepGraph{std::move(composed->graph), std::move(signature)};
}

// Compiled under the lock: among trainers that ask for one size at the same time one compiles and the others wait,
// which is faster than compiling it themselves.
StatusOr<std::shared_ptr<const Program>> PassPrograms::Step(TaskKind kind, size_t pass, int64_t batch_size,
                                                            bool from_base) {
  MutexLock lock(mutex_);
  Compiled& compiled = compiled_[{kind, pass}];
  std::shared_ptr<const Program>& step = compiled.steps[{batch_size, from_base}];
  if (step != nullptr) return step;
  RIVULET_RETURN_IF_ERROR(Compose(kind, pass, compiled));
  RIVULET_ASSIGN_OR_RETURN(Signature signature,
                           StepSignature(PassOf(kind, pass), *compiled.step, batch_size, from_base));
  StatusOr<std::shared_ptr<const Program>> program = CompileProgram(compiled.step->graph, signature, options_);
  if (!program.ok()) {
    return Annotate(program.status(), fmt::format("{} at batch size {}", StepName(kind), batch_size));
  }
  RIVULET_RETURN_IF_ERROR(CheckScalars(kind, pass, signature, (*program)->fetch_specs()));
  step = *std::move(program);
  return step;
}

StatusOr<std::shared_ptr<const GpuProgram>> PassPrograms::GpuStep(TaskKind kind, size_t pass, int64_t batch_size) {
  MutexLock lock(mutex_);
  Compiled& compiled = compiled_[{kind, pass}];
  std::shared_ptr<const GpuProgram>& step = compiled.gpu_steps[batch_size];
  if (step != nullptr) return step;
  RIVULET_RETURN_IF_ERROR(Compose(kind, pass, compiled));
  RIVULET_ASSIGN_OR_RETURN(const Signature signature,
                           StepSignature(PassOf(kind, pass), *compiled.step, batch_size, false));
  StatusOr<std::shared_ptr<const GpuProgram>> program = CompileForGpu(compiled.step->graph, signature, options_);
  if (!program.ok()) {
    return Annotate(program.status(), fmt::format("{} at batch size {}", StepName(kind), batch_size));
  }
  RIVULET_RETURN_IF_ERROR(CheckScalars(kind, pass, signature, (*program)->fetch_specs()));
  step = *std::move(program);
  return step;
}

// Tried once for each batch size. A caller that gets none runs the step alone, and gets its error there.
std::shared_ptr<const LaneProgram> PassPrograms::Lanes(TaskKind kind, size_t pass, int64_t batch_size) {
  MutexLock lock(mutex_);
  Compiled& compiled = compiled_[{kind, pass}];
  const auto [found, added] = compiled.lanes.try_emplace(batch_size);
  if (!added) return found->second;
  if (!Compose(kind, pass, compiled).ok()) return nullptr;
  const auto signature = StepSignature(PassOf(kind, pass), *compiled.step, batch_size, true);
  if (!signature.ok()) return nullptr;
  auto lanes = CompileLanes(compiled.step->graph, *signature, options_);
  if (lanes.ok()) {
    found->second = *std::move(lanes);
  } else {
    RIVULET_VLOG(1, "{} is run one client at a time: {}", StepName(kind), Message(lanes.status()));
  }
  return found->second;
}

}  // namespace rivulet
