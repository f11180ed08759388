#include "cli/graph/source.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "cli/command.h"
#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/base/file_system.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/variable_name.h"
#include "engine/graphdef/graph_def.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/presets/presets.h"
#include "engine/program/memory_plan.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"
#include "setup/blame_model.h"
#include "setup/model.h"
#include "setup/run_setup.h"
#include "simulations/shipped/shipped_scenarios.h"

namespace rivulet {
namespace {

constexpr int64_t kDefaultBatch = 10;

// Every variable in one buffer, one after the other.
StatusOr<std::vector<VariableBinding>> BindAll(const Graph& graph) {
  std::vector<VariableBinding> bindings;
  std::set<std::string> bound;
  size_t offset = 0;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "VarHandleOp") continue;
    const std::string name(VariableName(*node));
    if (!bound.insert(name).second) continue;
    const Shape& shape = node->attr<Shape>("shape");
    const DType dtype = VariableDType(*node);
    const StatusOr<int64_t> elements = shape.CheckedElements();
    if (!elements.ok())
      return InvalidArgument("variable '{}' has the shape {}; a program needs all of it", name, shape.ToString());
    bindings.push_back({name, 0, offset, {dtype, shape}});
    offset += RoundUp64(static_cast<size_t>(*elements) * SizeOf(dtype));
  }
  return bindings;
}

StatusOr<FeedSpec> FeedOf(const Node& placeholder, int64_t batch) {
  TensorSpec spec = placeholder.outputs()[0];
  if (!spec.shape.known_rank())
    return InvalidArgument("placeholder '{}' has an unknown rank; give it a shape in the graph", placeholder.name());
  for (int axis = 0; axis < spec.shape.rank(); ++axis) {
    if (spec.shape.dim(axis) != kUnknownDim) continue;
    if (axis > 0)
      return InvalidArgument("placeholder '{}' is {}{}; --batch sets only its first size", placeholder.name(),
                             Name(spec.dtype), spec.shape.ToString());
    spec.shape.set_dim(axis, batch);
  }
  return FeedSpec{placeholder.name(), std::move(spec)};
}

int64_t ParametersOf(const std::vector<ModelVariable>& variables) {
  int64_t parameters = 0;
  for (const ModelVariable& variable : variables)
    if (variable.segment == "trainable" || variable.segment == "shared") parameters += variable.spec.shape.elements();
  return parameters;
}

// Adds gradients of `loss` and plain SGD; the signature then includes the step.
Status AddTraining(GraphSource& source, const std::string& loss, const std::vector<ModelVariable>& variables) {
  Graph& graph = source.graph;
  const StatusOr<Output> loss_output = graph.FindOutput(loss);
  if (!loss_output.ok()) return Annotate(AsUsageError(loss_output.status()), "the loss to train on");
  std::unordered_map<std::string, Output> handle_of;
  for (const auto& node : graph.nodes())
    if (node->type() == "VarHandleOp") handle_of.emplace(VariableName(*node), node->output());
  std::vector<Output> handles;
  for (const ModelVariable& variable : variables) {
    const auto handle = handle_of.find(variable.name);
    if (variable.segment == "trainable" && handle != handle_of.end()) handles.push_back(handle->second);
  }
  if (handles.empty()) return InvalidArgument("the graph has no trainable variable");
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Output> gradients, ComputeGradients(graph, *loss_output, handles));
  RIVULET_ASSIGN_OR_RETURN(const Node* step, ApplyGradients(Scope(graph), OptimizerSpec(), handles, gradients));
  source.signature.targets = {step->name()};
  return absl::OkStatus();
}

StatusOr<GraphSource> FromModel(ModelDef model, std::string title, const GraphSourceOptions& options, int64_t batch) {
  GraphSource source;
  source.parameters = ParametersOf(model.variables);
  source.graph = std::move(model.graph);
  std::vector<ModelInput> inputs = {model.input, model.label};
  inputs.insert(inputs.end(), model.more_inputs.begin(), model.more_inputs.end());
  for (const ModelInput& input : inputs) {
    const Node* placeholder = source.graph.Find(input.placeholder);
    if (placeholder == nullptr) return NotFound("the model has no input '{}'", input.placeholder);
    RIVULET_ASSIGN_OR_RETURN(FeedSpec feed, FeedOf(*placeholder, batch));
    source.signature.feeds.push_back(std::move(feed));
  }
  if (options.training) {
    source.signature.fetches = {model.train_loss};
    RIVULET_RETURN_IF_ERROR(AddTraining(source, model.train_loss, model.variables));
    source.signature.targets.insert(source.signature.targets.end(), model.train_updates.begin(),
                                    model.train_updates.end());
  } else {
    source.signature.fetches = {model.eval_loss};
    for (const auto& [name, tensor] : model.metrics) source.signature.fetches.push_back(tensor);
  }
  source.title = std::move(title);
  source.init = model.init_target;
  RIVULET_ASSIGN_OR_RETURN(source.signature.variables, BindAll(source.graph));
  return source;
}

StatusOr<GraphSource> FromScenario(const GraphSourceOptions& options, int64_t& batch) {
  StatusOr<Scenario> scenario = LoadByFileOrName(options.what);
  if (!scenario.ok()) return absl::IsNotFound(scenario.status()) ? scenario.status() : AsUsageError(scenario.status());
  if (const Status graph = RequireGraph(*scenario); !graph.ok()) return AsUsageError(graph);
  batch = options.batch.value_or(scenario->client.batch_size);
  if (!options.training) {
    StatusOr<ModelDef> model = ModelOf(*scenario);
    if (!model.ok()) return BlameModel(*scenario, model.status());
    return FromModel(*std::move(model), scenario->run.name, options, batch);
  }
  RunSetup setup(*std::move(scenario));
  const auto plan_of_all = setup.plan();
  if (!plan_of_all.ok()) return BlameModel(setup.scenario(), plan_of_all.status());
  const auto plan = *plan_of_all;
  RIVULET_ASSIGN_OR_RETURN(const auto model, setup.model());
  GraphSource source;
  source.title = setup.scenario().run.name;
  source.parameters = ParametersOf(model->variables);
  RIVULET_ASSIGN_OR_RETURN(PassPrograms::StepGraph step, PassPrograms(plan).DescribeStep(TaskKind::kTrain, 0, batch));
  source.graph = std::move(step.graph);
  source.signature = std::move(step.signature);
  source.kernels = plan->compile_options().kernels;
  return source;
}

StatusOr<GraphSource> FromFile(const GraphSourceOptions& options, int64_t batch) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(options.what));
  StatusOr<Graph> graph = options.what.ends_with(".pbtxt") ? ParseGraphText(bytes) : ParseGraph(bytes);
  if (!graph.ok()) return Annotate(graph.status(), options.what);
  GraphSource source;
  source.title = options.what;
  source.graph = *std::move(graph);
  const StatusOr<std::vector<ModelVariable>> variables = VariablesOf(source.graph);
  if (!variables.ok()) {
    // As for a local rule's variables: its model is not known yet.
    if (options.only_look && !options.training && options.fetches.empty()) return source;
    return variables.status();
  }
  source.parameters = ParametersOf(*variables);
  if (options.training) {
    source.signature.fetches = {options.loss};
    RIVULET_RETURN_IF_ERROR(AddTraining(source, options.loss, *variables));
  } else if (!options.fetches.empty()) {
    for (const std::string& fetch : options.fetches) {
      const StatusOr<Output> output = source.graph.FindOutput(fetch);
      if (!output.ok()) return Annotate(AsUsageError(output.status()), fmt::format("--fetch {}", fetch));
      source.signature.fetches.push_back(fetch);
    }
  } else {
    std::vector<bool> used(source.graph.nodes().size(), false);
    for (const auto& node : source.graph.nodes())
      for (const Output& input : node->inputs()) used[static_cast<size_t>(input.node->id())] = true;
    for (const auto& node : source.graph.nodes()) {
      if (used[static_cast<size_t>(node->id())] || node->outputs().empty() || node->inputs().empty()) continue;
      if (node->outputs()[0].dtype != DType::kResource) source.signature.fetches.push_back(node->name());
    }
    if (source.signature.fetches.empty())
      return InvalidArgument("{}: every tensor has a consumer; name the tensors to compute with --fetch", options.what);
  }
  // Only placeholders that the fetches need: others may have unknown shapes.
  std::vector<Node*> roots;
  for (const std::string& fetch : source.signature.fetches) {
    RIVULET_ASSIGN_OR_RETURN(const Output output, source.graph.FindOutput(fetch));
    roots.push_back(output.node);
  }
  for (const std::string& target : source.signature.targets) roots.push_back(source.graph.Find(target));
  for (const Node* node : source.graph.TopologicalOrder(roots)) {
    if (node->type() != "Placeholder") continue;
    RIVULET_ASSIGN_OR_RETURN(FeedSpec feed, FeedOf(*node, batch));
    source.signature.feeds.push_back(std::move(feed));
  }
  if (source.graph.Find("init") != nullptr) source.init = "init";
  RIVULET_ASSIGN_OR_RETURN(source.signature.variables, BindAll(source.graph));
  return source;
}

}  // namespace

StatusOr<GraphSource> LoadGraphSource(const GraphSourceOptions& options) {
  int64_t batch = options.batch.value_or(kDefaultBatch);
  StatusOr<GraphSource> source = GraphSource();
  if (IsScenario(options.what)) {
    source = FromScenario(options, batch);
  } else if (options.what.ends_with(".pb") || options.what.ends_with(".pbtxt")) {
    source = FromFile(options, batch);
  } else {
    StatusOr<ModelDef> model = Preset(options.what);
    if (!model.ok()) {
      return UsageError(
          "'{}' is no preset, no name of 'rivulet scenarios', and no file that ends in .pb, .pbtxt or .toml: {}",
          options.what, Message(model.status()));
    }
    source = FromModel(*std::move(model), options.what, options, batch);
  }
  if (!source.ok()) return source;
  source->title += fmt::format("{}, batch {}", options.training ? ", training step" : "", batch);
  return source;
}

}  // namespace rivulet
