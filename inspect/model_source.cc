#include "inspect/model_source.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

#include "engine/base/file_system.h"
#include "engine/base/nearest.h"
#include "engine/base/shown_text.h"
#include "engine/base/usage_error.h"
#include "engine/graphdef/graph_def.h"
#include "engine/io/safetensors.h"
#include "engine/models/lora.h"
#include "engine/onnx/import.h"
#include "engine/presets/presets.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"
#include "federated/weights/base.h"
#include "federated/weights/model.h"
#include "inspect/run_model.h"
#include "setup/blame_model.h"
#include "setup/model.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

NamedWeights WeightsOf(const Model& model) {
  NamedWeights weights;
  for (int index : model.layout().declaration_order()) {
    const Slice& slice = model.layout().slices()[static_cast<size_t>(index)];
    Tensor value(slice.spec.dtype, slice.spec.shape);
    const TensorView view = model.tensor(slice);
    if (view.bytes() > 0) std::memcpy(value.data(), view.data, view.bytes());
    weights.emplace_back(slice.name, std::move(value));
  }
  return weights;
}

StatusOr<NamedWeights> FirstValuesOf(Scenario scenario) {
  RunSetup setup(std::move(scenario));
  RIVULET_ASSIGN_OR_RETURN(const auto plan, setup.plan());
  RIVULET_ASSIGN_OR_RETURN(const auto first, InitialModel(*plan, static_cast<uint64_t>(setup.scenario().run.seed)));
  return WeightsOf(*first);
}

// Outputs that no node uses, without those of nodes that only have effects.
std::vector<std::string> Leaves(const Graph& graph) {
  std::vector<bool> used(graph.nodes().size(), false);
  for (const auto& node : graph.nodes())
    for (const Output& input : node->inputs()) used[static_cast<size_t>(input.node->id())] = true;
  std::vector<std::string> leaves;
  for (const auto& node : graph.nodes())
    if (!used[static_cast<size_t>(node->id())] && !node->outputs().empty() && !node->inputs().empty() &&
        node->outputs()[0].dtype != DType::kResource)
      leaves.push_back(node->name());
  return leaves;
}

Status Complete(ModelSource& source) {
  source.has_loss = true;
  if (const std::string scores = ScoresOf(source.model); !scores.empty()) {
    source.outputs = {scores};
    return absl::OkStatus();
  }
  return UsageError("{}: no tensor of the graph is known to hold the scores; name the outputs with --output",
                    source.title);
}

StatusOr<ModelSource> FromGraphFile(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(path));
  StatusOr<Graph> graph = path.ends_with(".pbtxt") ? ParseGraphText(bytes) : ParseGraph(bytes);
  if (!graph.ok()) return Annotate(graph.status(), path);
  ModelSource source;
  source.model.graph = *std::move(graph);
  RIVULET_ASSIGN_OR_RETURN(source.model.variables, VariablesOf(source.model.graph));
  source.outputs = Leaves(source.model.graph);
  return source;
}

StatusOr<ModelSource> FromOnnxFile(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(path));
  onnx::ImportOptions options;
  options.folder = FolderOf(path);
  StatusOr<onnx::OnnxModel> model = onnx::ImportOnnx(bytes, options);
  if (!model.ok()) return Annotate(model.status(), path);
  ModelSource source;
  source.model.graph = std::move(model->graph);
  RIVULET_ASSIGN_OR_RETURN(source.model.variables, VariablesOf(source.model.graph));
  for (const onnx::OnnxValue& output : model->outputs) source.outputs.push_back(output.tensor);
  NamedWeights weights;
  for (const onnx::OnnxWeight& weight : model->weights) weights.emplace_back(weight.variable, weight.value);
  source.weights = [weights] { return weights; };
  return source;
}

StatusOr<ModelSource> FromFolder(const std::string& folder) {
  RIVULET_ASSIGN_OR_RETURN(ModelSource source, FromGraphFile(JoinPath(folder, "graph.pb")));
  const std::string weights = JoinPath(folder, "model.safetensors");
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(weights));
  const StatusOr<SafetensorsContent> content = ParseSafetensors(bytes);
  if (!content.ok()) return Annotate(content.status(), weights);
  // `model import` stores the names of the output tensors.
  std::vector<std::string> outputs;
  for (const auto& [key, value] : content->metadata)
    if (key.starts_with("onnx.output.")) outputs.push_back(value);
  if (!outputs.empty()) source.outputs = std::move(outputs);
  source.weights = [weights] { return ReadSafetensors(weights); };
  return source;
}

// model.weights may have adapters too, and the merged weights then replace them.
std::function<StatusOr<ModelDef>()> BaseOf(Scenario scenario) {
  if (scenario.model.lora.targets.empty()) return nullptr;
  scenario.model.lora = {};
  scenario.model.weights.clear();
  return [scenario] { return ModelOf(scenario); };
}

StatusOr<ModelSource> FromScenario(const std::string& path) {
  StatusOr<Scenario> scenario = Scenario::Load(path);
  if (!scenario.ok()) return absl::IsNotFound(scenario.status()) ? scenario.status() : AsUsageError(scenario.status());
  if (const Status graph = RequireGraph(*scenario); !graph.ok()) return AsUsageError(graph);
  ModelSource source;
  source.title = path;
  StatusOr<ModelDef> model = ModelOf(*scenario);
  if (!model.ok()) return BlameModel(*scenario, model.status());
  source.model = *std::move(model);
  source.base = BaseOf(*scenario);
  RIVULET_RETURN_IF_ERROR(Complete(source));
  return source;
}

StatusOr<ModelSource> FromPreset(const std::string& name) {
  StatusOr<ModelDef> model = Preset(name);
  if (!model.ok())
    return UsageError(
        "'{}' is no preset, no run of the history, no folder of `rivulet model import` and no file that ends in .toml, "
        ".pb, .pbtxt or .onnx: {}",
        name, Message(model.status()));
  ModelSource source;
  source.title = name;
  source.model = *std::move(model);
  RIVULET_RETURN_IF_ERROR(Complete(source));
  return source;
}

// The weights of the base that a run's version names; none if it names none.
StatusOr<NamedWeights> BaseWeightsOf(const RunModel& run, const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(run.path));
  const StatusOr<SafetensorsContent> content = ParseSafetensors(bytes);
  if (!content.ok()) return Annotate(content.status(), run.path);
  NamedWeights weights;
  const std::string stated = StatedBase(content->metadata);
  if (stated.empty()) return weights;
  const auto refuse = [&](const Status& status) {
    return FailedPrecondition("run {} needs the base {}: {}; give its file with --base", run.run_id, OneLine(stated),
                              Message(status));
  };
  RIVULET_ASSIGN_OR_RETURN(const Digest wanted, Digest::FromHex(stated));
  const auto base = Base::Open(path);
  if (!base.ok()) return refuse(base.status());
  if (const Status same = CheckIsBase(**base, wanted); !same.ok()) return refuse(same);
  std::set<std::string> stored;  // a base may have initial values of trained variables
  for (const SafetensorsEntry& tensor : content->tensors) stored.insert(tensor.name);
  for (const Base::Tensor& tensor : (*base)->tensors()) {
    if (stored.contains(tensor.name)) continue;
    RIVULET_ASSIGN_OR_RETURN(Tensor value, Tensor::Create(tensor.spec.dtype, tensor.spec.shape));
    RIVULET_RETURN_IF_ERROR((*base)->Copy(tensor, {value.data(), static_cast<size_t>(tensor.bytes)}));
    weights.emplace_back(tensor.name, std::move(value));
  }
  return weights;
}

// The model that a run was configured with, and its weights after one of its rounds, as measured: for a run that
// averages its versions, the average.
StatusOr<ModelSource> FromRun(const RunModel& run, std::optional<int64_t> cluster, const std::string& base) {
  StatusOr<Scenario> scenario =
      Scenario::ParseStored(run.config, fmt::format("the stored configuration of run {}", run.run_id));
  RIVULET_RETURN_IF_ERROR(scenario.status());
  ModelSource source;
  source.title = run.run_id;
  source.weights_alone = !scenario->model.arrays.empty();
  const auto with_base = [run, path = base.empty() ? scenario->model.base
                                                   : base](StatusOr<NamedWeights> weights) -> StatusOr<NamedWeights> {
    RIVULET_RETURN_IF_ERROR(weights.status());
    RIVULET_ASSIGN_OR_RETURN(NamedWeights of_base, BaseWeightsOf(run, path));
    std::ranges::move(of_base, std::back_inserter(*weights));
    return weights;
  };
  source.weights = [path = run.path, with_base] { return with_base(ReadSafetensors(path)); };
  const bool as_stored = !cluster && scenario->server.average == 0;
  if (source.weights_alone && as_stored) return source;  // even if the initial weights are missing
  if (!base.empty()) scenario->model.base = base;
  StatusOr<ModelDef> model = ModelOf(*scenario);
  if (!model.ok()) return BlameModel(*scenario, model.status());
  source.model = *std::move(model);
  source.base = BaseOf(*scenario);
  if (!source.weights_alone) RIVULET_RETURN_IF_ERROR(Complete(source));
  if (as_stored) return source;
  RIVULET_ASSIGN_OR_RETURN(ModelLayout layout, ModelLayoutOf(source.model));
  RIVULET_ASSIGN_OR_RETURN(const auto chosen,
                           ReadRunModel(run, std::make_shared<const ModelLayout>(std::move(layout)), cluster));
  source.weights = [chosen, with_base] { return with_base(WeightsOf(*chosen)); };
  return source;
}

StatusOr<ModelSource> Load(const ModelSourceOptions& options) {
  const auto& [what, weights, outputs, db, cluster, base] = options;
  if (!base.empty() && !NamesRound(what) && !FindRunModel(db, what).ok())
    return UsageError("--base has an effect only on a run of the history, and '{}' is not one", what);
  if (cluster && !NamesRound(what) && !FindRunModel(db, what).ok())
    return UsageError("--cluster has an effect only on a run of the history, and '{}' is not one", what);
  if (what.ends_with(".toml")) return FromScenario(what);
  if (what.ends_with(".pb") || what.ends_with(".pbtxt")) return FromGraphFile(what);
  if (what.ends_with(".onnx")) return FromOnnxFile(what);
  if (FileSystem::Default().Exists(JoinPath(what, "graph.pb"))) return FromFolder(what);
  if (!NamesRound(what)) {
    StatusOr<ModelSource> preset = FromPreset(what);
    if (preset.ok() || !FileSystem::Default().Exists(db)) return preset;
    const StatusOr<RunModel> run = FindRunModel(db, what);
    if (absl::IsNotFound(run.status())) return preset;  // not a run either; the error names the nearest preset
    if (!run.ok()) return run.status();
    return FromRun(*run, cluster, base);
  }
  RIVULET_ASSIGN_OR_RETURN(const RunModel run, FindRunModel(db, what));
  return FromRun(run, cluster, base);
}

}  // namespace

std::string ScoresOf(const ModelDef& model) {
  if (model.graph.Find("logits") != nullptr) return "logits";
  const StatusOr<Output> loss = model.graph.FindOutput(model.eval_loss);
  if (!loss.ok()) return "";
  Node* root = loss->node;
  for (Node* node : model.graph.TopologicalOrder({&root, 1}))
    if (node->type().ends_with("SoftmaxCrossEntropyWithLogits")) return node->input(0).name();
  // A model of numeric targets.
  if (model.label.encoding == FeatureEncoding::kFloat && model.graph.Find("prediction") != nullptr) return "prediction";
  return "";
}

StatusOr<NamedWeights> ReadSafetensors(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(path));
  const StatusOr<SafetensorsContent> content = ParseSafetensors(bytes);
  if (!content.ok()) return Annotate(content.status(), path);
  NamedWeights weights;
  const std::set<std::string> servers = ServerTensors(content->metadata);  // a run's server state, no weights
  for (const SafetensorsEntry& entry : content->tensors) {
    if (servers.contains(entry.name)) continue;
    Tensor value(entry.dtype, entry.shape);
    if (!entry.data.empty()) std::memcpy(value.data(), entry.data.data(), entry.data.size());
    weights.emplace_back(entry.name, std::move(value));
  }
  return weights;
}

StatusOr<ModelSource> WithoutAdapters(const ModelSource& source) {
  if (!source.base)
    return UsageError("{} has no adapters; only a scenario with [model.lora], or its run, has some", source.title);
  const std::vector<LoraAdapter> adapters = LoraAdaptersOf(source.model.graph);
  ModelSource merged;
  merged.title = source.title;
  RIVULET_ASSIGN_OR_RETURN(merged.model, source.base());
  RIVULET_ASSIGN_OR_RETURN(const NamedWeights given, source.weights());
  const auto value = [&](const std::string& name) -> StatusOr<const Tensor*> {
    const auto found = std::ranges::find(given, name, &NamedWeights::value_type::first);
    if (found == given.end()) return FailedPrecondition("{} has no value of '{}'", source.title, name);
    return &found->second;
  };
  NamedWeights weights;
  for (const ModelVariable& variable : merged.model.variables) {
    if (variable.segment == "local") continue;
    RIVULET_ASSIGN_OR_RETURN(const Tensor* base, value(variable.name));
    const auto adapter = std::ranges::find(adapters, variable.name, &LoraAdapter::variable);
    if (adapter == adapters.end()) {
      weights.emplace_back(variable.name, *base);
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(const Tensor* a, value(adapter->a));
    RIVULET_ASSIGN_OR_RETURN(const Tensor* b, value(adapter->b));
    RIVULET_ASSIGN_OR_RETURN(Tensor sum, MergeLora(*adapter, *base, *a, *b));
    weights.emplace_back(variable.name, std::move(sum));
  }
  merged.weights = [weights] { return weights; };
  RIVULET_RETURN_IF_ERROR(Complete(merged));
  return merged;
}

StatusOr<ModelSource> LoadModelSource(const ModelSourceOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(ModelSource source, Load(options));
  source.title = options.what;
  if (!options.outputs.empty()) source.outputs = options.outputs;
  for (const std::string& output : source.outputs) {
    const StatusOr<Output> found = source.model.graph.FindOutput(output);
    if (!found.ok()) return Annotate(AsUsageError(found.status()), fmt::format("--output {}", output));
  }
  if (!options.weights.empty()) {
    // Checked at once: a weight without a variable means another model's file.
    RIVULET_ASSIGN_OR_RETURN(const NamedWeights given, ReadSafetensors(options.weights));
    std::vector<std::string> names;
    for (const ModelVariable& variable : source.model.variables) names.push_back(variable.name);
    for (const auto& [name, value] : given) {
      const auto variable = std::ranges::find(source.model.variables, name, &ModelVariable::name);
      if (variable == source.model.variables.end())
        return NotFound("{} has '{}', which is no variable of {}.{}", options.weights, name, options.what,
                        DidYouMean(name, names));
      if (variable->spec.dtype != value.dtype() || variable->spec.shape != value.shape())
        return InvalidArgument("{} has {}{} for '{}', which is {}{} in {}", options.weights, Name(value.dtype()),
                               value.shape().ToString(), name, Name(variable->spec.dtype),
                               variable->spec.shape.ToString(), options.what);
    }
    source.weights = [given] { return given; };
  } else if (!source.weights && options.what.ends_with(".toml")) {
    const std::string path = options.what;
    source.weights = [path]() -> StatusOr<NamedWeights> {
      RIVULET_ASSIGN_OR_RETURN(Scenario scenario, Scenario::Load(path));
      return FirstValuesOf(std::move(scenario));
    };
  } else if (!source.weights) {
    const auto model = std::make_shared<ModelDef>();
    model->graph = source.model.graph.Clone();
    model->init_target = source.model.init_target;
    model->variables = source.model.variables;
    source.weights = [model]() -> StatusOr<NamedWeights> {
      if (model->variables.empty()) return NamedWeights();
      if (model->graph.Find(model->init_target) == nullptr)
        return FailedPrecondition("the graph has no '{}' that gives its variables values; give a file with --weights",
                                  model->init_target);
      return InitialModel(*model);
    };
  }
  return source;
}

}  // namespace rivulet
