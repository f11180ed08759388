#include "federated/plan/compose_step.h"

#include <map>
#include <set>
#include <utility>

#include "engine/compile/compile.h"
#include "engine/gradients/example_gradients.h"
#include "engine/gradients/gradients.h"
#include "engine/gradients/mixed_precision.h"
#include "engine/graph/compose.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "federated/plan/compose_pass.h"
#include "federated/plan/example_noise.h"
#include "federated/plan/example_source.h"
#include "federated/plan/flat_names.h"

namespace rivulet {
namespace {

constexpr char kLocalScope[] = "local";  // scope of the step graph's nodes

using Handles = std::map<std::string, Output, std::less<>>;

// The trained variables and their handles.
struct Trained {
  std::vector<const Slice*> slices;
  std::vector<Output> handles;
};
Trained TrainedOf(const ModelLayout& layout, const Handles& handle_of) {
  Trained trained;
  for (const Slice& slice : layout.slices()) {
    const auto handle = handle_of.find(slice.name);
    if (!IsTrained(slice.segment) || handle == handle_of.end()) continue;
    trained.slices.push_back(&slice);
    trained.handles.push_back(handle->second);
  }
  return trained;
}

// Adds nodes that assign the gradients to "<to><variable>", and returns them.
std::vector<Node*> Assign(const Scope& scope, const Trained& trained, std::span<const Output> gradients,
                          const std::string& to) {
  std::vector<Node*> assigned;
  for (size_t i = 0; i < trained.slices.size(); ++i) {
    const std::string name = to + trained.slices[i]->name;
    const TensorSpec& spec = trained.slices[i]->spec;
    const Output handle =
        scope.Op("VarHandleOp", {}, {{"dtype", spec.dtype}, {"shape", spec.shape}, {"shared_name", name}}, name);
    assigned.push_back(scope.AddNode("AssignVariableOp", {handle, gradients[i]}, {}, name + "/assign"));
  }
  return assigned;
}

// Differentiates the loss by one instance's trainable variables, and returns the nodes that assign it to "<to>…".
StatusOr<std::vector<Node*>> AddGradients(const ModelLayout& layout, Graph& graph, Output loss,
                                          const Handles& handle_of, const std::string& loss_scale,
                                          const std::string& to) {
  const Trained trained = TrainedOf(layout, handle_of);
  Scope scope(graph);
  // Scales the loss before gradients are taken, which scales each exactly if the scale is a power of two; the step
  // graph divides by it again.
  if (!loss_scale.empty()) {
    const Output handle = scope.Op(
        "VarHandleOp", {}, {{"dtype", DType::kFloat64}, {"shape", Shape{}}, {"shared_name", loss_scale}}, loss_scale);
    const Output scale = scope.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat64}});
    loss = scope.Op("Mul", {loss, scope.Op("Cast", {scale}, {{"DstT", DType::kFloat32}})}, {}, "scaled_loss");
    RIVULET_RETURN_IF_ERROR(scope.status());
  }
  RIVULET_ASSIGN_OR_RETURN(std::vector<Output> gradients, ComputeGradients(graph, loss, trained.handles));
  RIVULET_RETURN_IF_ERROR(WidenWeightGradients(graph, gradients));
  std::vector<Node*> assigned = Assign(scope, trained, gradients, to);
  RIVULET_RETURN_IF_ERROR(scope.status());
  return assigned;
}

// Binds each variable to a separate buffer, which is enough to find errors.
StatusOr<std::vector<VariableBinding>> BindApart(const Plan& plan, const Graph& graph) {
  std::vector<VariableBinding> bindings;
  std::set<std::string> bound;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "VarHandleOp") continue;
    const std::string name(VariableName(*node));
    if (!bound.insert(name).second) continue;
    TensorSpec spec{VariableDType(*node), node->attr<Shape>("shape")};
    if (!spec.shape.IsFullyKnown()) {
      RIVULET_ASSIGN_OR_RETURN(spec, FlatSpec(name, *plan.layout(), plan.flat_names()));
    }
    bindings.push_back({name, static_cast<int>(bindings.size()), 0, std::move(spec)});
  }
  return bindings;
}

// Checks both halves of a step that protects single examples.
Status CheckExampleStep(const Plan& plan, const LocalPass& pass, const ExampleNoise& noise) {
  RIVULET_RETURN_IF_ERROR(CheckExampleTraining(plan));
  const int64_t rows = ExampleRows(pass.batch_size);
  RIVULET_ASSIGN_OR_RETURN(const ComposedStep sum, ComposeClippedSum(plan, pass, rows, noise.clip));
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan.features()));
  Signature signature;
  signature.feeds = decoder->FeedSpecs(rows);
  signature.feeds.push_back({kPresentRows, {DType::kFloat32, Shape{rows}}});
  signature.targets = sum.targets;
  RIVULET_ASSIGN_OR_RETURN(signature.variables, BindApart(plan, sum.graph));
  RIVULET_RETURN_IF_ERROR(CompileProgram(sum.graph, signature, plan.compile_options()).status());
  RIVULET_ASSIGN_OR_RETURN(const ComposedStep rule, ComposeRule(pass));
  Signature of_rule;
  of_rule.targets = rule.targets;
  RIVULET_ASSIGN_OR_RETURN(of_rule.variables, BindApart(plan, rule.graph));
  return CompileProgram(rule.graph, of_rule, plan.compile_options()).status();
}

Status CheckStep(const Plan& plan, const LocalPass& pass) {
  RIVULET_ASSIGN_OR_RETURN(const ComposedStep step, ComposeStep(plan, pass));
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan.features()));
  Signature signature;
  signature.feeds = decoder->FeedSpecs(pass.batch_size);
  for (const PassScalar& scalar : pass.scalars) signature.fetches.push_back(scalar.tensor);
  signature.targets = step.targets;
  RIVULET_ASSIGN_OR_RETURN(signature.variables, BindApart(plan, step.graph));
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileProgram(step.graph, signature, plan.compile_options()));
  for (size_t i = 0; i < pass.scalars.size(); ++i) {
    const TensorSpec& spec = program->fetch_specs()[i];
    if (spec == TensorSpec{DType::kFloat32, Shape{}}) continue;
    return InvalidArgument("its {} '{}' is {}{}; it must be a float32 scalar", pass.scalars[i].name,
                           signature.fetches[i], Name(spec.dtype), spec.shape.ToString());
  }
  return absl::OkStatus();
}

}  // namespace

// One graph and one program for forward pass, gradients and local rule. Three programs would pass every
// gradient through memory, and the compiler could neither fuse an update with its gradient nor share one
// arena.
StatusOr<ComposedStep> ComposeStep(const Plan& plan, const LocalPass& pass) {
  const ModelDef& model = plan.model();
  RIVULET_ASSIGN_OR_RETURN(ForwardGraph forward, ComposeForward(model, pass));
  ComposedStep step{std::move(forward.graph), {}};
  // The step must wait for all assignments: it reads the flat vector that contains their slices, a dependency that no
  // data edge expresses.
  std::vector<Node*> before;
  for (size_t i = 0; i < pass.models.size(); ++i) {
    if (pass.models[i].buffer != pass.gradient_by) continue;
    RIVULET_ASSIGN_OR_RETURN(
        before, AddGradients(*plan.layout(), step.graph, forward.loss, forward.handles[i], pass.loss_scale, "grads/"));
    break;
  }
  for (size_t i = 0; i < pass.models.size() && !pass.other_gradient_by.empty(); ++i) {
    const ModelInstance& instance = pass.models[i];
    if (instance.buffer != pass.other_gradient_by) continue;
    const std::string own = instance.prefix.empty() ? model.train_loss : instance.prefix + "/" + model.train_loss;
    RIVULET_ASSIGN_OR_RETURN(const Output loss, step.graph.FindOutput(own));
    RIVULET_ASSIGN_OR_RETURN(
        const std::vector<Node*> others,
        AddGradients(*plan.layout(), step.graph, loss, forward.handles[i], pass.loss_scale, "other_grads/"));
    before.insert(before.end(), others.begin(), others.end());
    break;
  }
  if (pass.training && pass.models[0].buffer == "params") {
    for (const std::string& update : model.train_updates) before.push_back(step.graph.Find(update));
  }
  if (pass.step != nullptr) {
    RIVULET_RETURN_IF_ERROR(ImportInto(step.graph, *pass.step, kLocalScope, before));
    step.targets = {fmt::format("{}/{}", kLocalScope, kRunTarget)};
  } else {
    for (const Node* node : before) step.targets.push_back(node->name());
  }
  return step;
}

StatusOr<ComposedStep> ComposeClippedSum(const Plan& plan, const LocalPass& pass, int64_t rows, double clip) {
  RIVULET_ASSIGN_OR_RETURN(const ForwardGraph forward, ComposeForward(plan.model(), pass));
  ComposedStep step;
  RIVULET_ASSIGN_OR_RETURN(step.graph, WithBatchOf(forward.graph, rows));
  Handles handle_of;
  for (const auto& [name, handle] : forward.handles.at(0)) {
    handle_of.emplace(name, step.graph.Find(handle.node->name())->output());
  }
  const Trained trained = TrainedOf(*plan.layout(), handle_of);
  Scope scope(step.graph);
  const Output present = scope.Placeholder(kPresentRows, DType::kFloat32, Shape{rows});
  RIVULET_RETURN_IF_ERROR(scope.status());
  RIVULET_ASSIGN_OR_RETURN(const Output loss, step.graph.FindOutput(forward.loss.name()));
  RIVULET_ASSIGN_OR_RETURN(
      const ClippedGradients clipped,
      ComputeClippedGradients(step.graph, loss, trained.handles,
                              {.examples = rows, .norm = static_cast<float>(clip), .present = present}));
  for (const Node* node : Assign(scope, trained, clipped.sums, "grads/")) {
    RIVULET_RETURN_IF_ERROR(scope.status());
    step.targets.push_back(node->name());
  }
  return step;
}

StatusOr<ComposedStep> ComposeRule(const LocalPass& pass) {
  ComposedStep step;
  RIVULET_RETURN_IF_ERROR(ImportInto(step.graph, *pass.step, kLocalScope));
  step.targets = {fmt::format("{}/{}", kLocalScope, kRunTarget)};
  return step;
}

Status CheckSteps(const Plan& plan) {
  if (plan.external()) return absl::OkStatus();
  if (const auto noise = ExampleNoiseOf(plan)) {
    return Annotate(CheckExampleStep(plan, plan.training().passes.at(0), *noise), "the plan's training step");
  }
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    const LocalProgram* program = plan.program(kind);
    for (size_t i = 0; program != nullptr && i < program->passes.size(); ++i) {
      const LocalPass& pass = program->passes[i];
      RIVULET_RETURN_IF_ERROR(Annotate(
          CheckStep(plan, pass), fmt::format("the plan's {} step at batch size {}",
                                             kind == TaskKind::kTrain ? "training" : "evaluation", pass.batch_size)));
    }
  }
  return absl::OkStatus();
}

}  // namespace rivulet
