#include "setup/model.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/datasets/table.h"
#include "engine/io/safetensors.h"
#include "engine/models/first_values.h"
#include "engine/models/freeze.h"
#include "engine/models/input_list.h"
#include "engine/models/layer_list.h"
#include "engine/models/lora.h"
#include "engine/models/standardise.h"
#include "engine/onnx/trainable.h"
#include "engine/presets/presets.h"
#include "federated/plan/plan.h"

namespace rivulet {
namespace {

StatusOr<std::vector<InputSpec>> InputsOf(const ModelConfig& config) {
  StatusOr<std::vector<InputSpec>> inputs = InputsFromTables(config.inputs);
  if (!inputs.ok()) return Annotate(inputs.status(), "model.inputs");
  return inputs;
}

StatusOr<ModelDef> FromLayers(const ModelConfig& config) {
  ClassifierOptions options;
  RIVULET_ASSIGN_OR_RETURN(options.inputs, InputsOf(config));
  for (const InputSpec& input : options.inputs)
    if (input.shape.empty())
      return InvalidArgument("model.inputs: '{}' needs a shape, that of one example, such as [28, 28, 1]", input.name);
  if (options.inputs.empty() && config.input.shape.empty())
    return InvalidArgument("model.layers needs model.input.shape, the shape of one example, such as [28, 28, 1]");
  options.input = config.input.shape;
  RIVULET_ASSIGN_OR_RETURN(options.target, TargetKindFromName(config.target));
  options.loss = config.objective;
  options.loss_settings = config.objective_settings;
  options.metrics = config.metrics;
  RIVULET_ASSIGN_OR_RETURN(options.encoding, EncodingFromKind(config.input.kind));
  return ModelFromLayers(options, config.layers);
}

StatusOr<ModelDef> FromGraph(const ModelConfig& config) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(config.graph));
  GraphModelSpec spec;
  spec.image = config.image_input;
  RIVULET_ASSIGN_OR_RETURN(spec.inputs, InputsOf(config));
  spec.label = config.label_input;
  spec.loss = config.loss;
  spec.metrics.clear();
  for (const std::string& tensor : config.metrics)
    spec.metrics.emplace_back(tensor.substr(0, tensor.find(':')), tensor);
  spec.text = config.graph.ends_with(".pbtxt");
  StatusOr<ModelDef> model = ModelFromGraph(bytes, spec);
  if (!model.ok()) return Annotate(model.status(), config.graph);
  return model;
}

StatusOr<ModelDef> FromOnnx(const ModelConfig& config) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(config.onnx));
  onnx::TrainableOptions options;
  options.input = config.input.shape;
  RIVULET_ASSIGN_OR_RETURN(options.encoding, EncodingFromKind(config.input.kind));
  RIVULET_ASSIGN_OR_RETURN(options.inputs, InputsOf(config));
  RIVULET_ASSIGN_OR_RETURN(options.target, TargetKindFromName(config.target));
  options.loss = config.objective;
  options.loss_settings = config.objective_settings;
  options.metrics = config.metrics;
  options.folder = FolderOf(config.onnx);
  options.trainable = config.trainable;
  StatusOr<ModelDef> model = onnx::ModelFromOnnx(bytes, options);
  if (!model.ok()) return Annotate(model.status(), config.onnx);
  return model;
}

// A model file of a run states which of its tensors are shared and untrained, and which belong to its server.
StatusOr<ModelDef> FromArrays(const ModelConfig& config) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(config.arrays));
  const StatusOr<SafetensorsContent> content = ParseSafetensors(bytes);
  if (!content.ok()) return Annotate(content.status(), config.arrays);
  const auto segments = StatedSegments(content->metadata);
  const std::set<std::string> of_server = ServerTensors(content->metadata);
  ModelDef model;
  model.init_target.clear();
  for (const SafetensorsEntry& tensor : content->tensors) {
    if (of_server.contains(tensor.name)) continue;
    const auto segment = segments.find(tensor.name);
    model.variables.push_back(
        {tensor.name, {tensor.dtype, tensor.shape}, segment == segments.end() ? "trainable" : segment->second});
  }
  for (const std::string& name : config.metrics) model.metrics.emplace_back(name, "");
  return model;
}

StatusOr<ModelDef> Whole(const ModelConfig& config) {
  if (!config.preset.empty())
    return Preset(config.preset, {.classes = config.classes,
                                  .input = config.input.shape,
                                  .normalization = config.normalization,
                                  .loss = config.objective,
                                  .loss_settings = config.objective_settings,
                                  .metrics = config.metrics});
  if (!config.onnx.empty()) return FromOnnx(config);
  if (!config.arrays.empty()) return FromArrays(config);
  return config.layers.empty() ? FromGraph(config) : FromLayers(config);
}

// `bytes` are those of the file at `path`.
StatusOr<std::shared_ptr<const Model>> ArraysIn(std::string_view bytes, const std::string& path,
                                                std::shared_ptr<const ModelLayout> layout) {
  StatusOr<std::shared_ptr<Model>> model = ModelFromSafetensors(std::move(layout), bytes);
  if (!model.ok()) return Annotate(model.status(), path);
  return std::shared_ptr<const Model>(*std::move(model));
}

StatusOr<std::shared_ptr<const Model>> ReadArrays(const std::string& path, std::shared_ptr<const ModelLayout> layout) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(path));
  return ArraysIn(bytes, path, std::move(layout));
}

// Trained tensors must fit into an update. No value is converted here: a conversion would silently drop or invent half
// of a model's bits.
Status CompleteArrays(const ModelConfig& config, ModelDef& model) {
  for (const ModelVariable& variable : model.variables) {
    if (variable.segment == "frozen" || variable.segment == Name(Segment::kBase) ||
        variable.spec.dtype == DType::kFloat32) {
      continue;
    }
    return InvalidArgument(
        "{}: tensor '{}' is {}, and updates are float32; convert it, or name it in model.freeze, which sends it to "
        "clients unchanged",
        config.arrays, variable.name, Name(variable.spec.dtype));
  }
  StatusOr<ModelLayout> layout = ModelLayoutOf(model);
  if (!layout.ok()) return Annotate(layout.status(), config.arrays);
  RIVULET_ASSIGN_OR_RETURN(const auto values,
                           ReadArrays(config.arrays, std::make_shared<const ModelLayout>(*std::move(layout))));
  model.initial_model = values->ComputeDigest();
  return absl::OkStatus();
}

// The base's tensors follow the model's own, and every client finds their values in the base.
Status PutOn(const Base& base, const ModelConfig& config, ModelDef& model) {
  for (const ModelVariable& variable : model.variables) {
    if (base.Find(variable.name) == nullptr) continue;
    return InvalidArgument(
        "tensor '{}' is in model.arrays, '{}', and in model.base, '{}'; leave in model.arrays what is trained, and in "
        "model.base what is not",
        variable.name, config.arrays, config.base);
  }
  for (const Base::Tensor& tensor : base.tensors())
    model.variables.push_back({tensor.name, tensor.spec, std::string(Name(Segment::kBase))});
  model.base = base.digest();
  return absl::OkStatus();
}

StatusOr<Tensor> ValueIn(const Base& base, const Base::Tensor& tensor) {
  RIVULET_ASSIGN_OR_RETURN(Tensor value, Tensor::Create(tensor.spec.dtype, tensor.spec.shape));
  RIVULET_RETURN_IF_ERROR(base.Copy(tensor, {value.data(), static_cast<size_t>(tensor.bytes)}));
  return value;
}

// The untrained variables of a graph.
std::set<std::string> FrozenOf(const ModelDef& model) {
  std::set<std::string> frozen;
  for (const ModelVariable& variable : model.variables)
    if (variable.segment == "frozen") frozen.insert(variable.name);
  return frozen;
}

// For a model with a graph: frozen variables are read from the base, and all others take their first values from it.
// `given`: frozen variables with values in the model itself. A frozen variable in no file would keep its random initial
// values, which is an error.
Status PutGraphOn(const Base& base, const ModelConfig& config, const std::set<std::string>& given, ModelDef& model) {
  std::vector<std::string> names;
  std::set<std::string> of_base;
  std::vector<std::pair<std::string, Tensor>> first_values;
  for (const ModelVariable& variable : model.variables) {
    names.push_back(variable.name);
    const Base::Tensor* const tensor = base.Find(variable.name);
    if (tensor == nullptr) {
      if (variable.segment != "frozen" || given.contains(variable.name) || variable.name.ends_with("/lora_A") ||
          !config.weights.empty()) {
        continue;
      }
      return InvalidArgument(
          "variable '{}' is frozen, and the base '{}' does not have it; add it to the base, or train it: "
          "model.lora.modules_to_save, model.freeze",
          variable.name, config.base);
    }
    if (tensor->spec != variable.spec) {
      return InvalidArgument("variable '{}' is {}{}, and the base '{}' has it as {}{}", variable.name,
                             Name(variable.spec.dtype), variable.spec.shape.ToString(), config.base,
                             Name(tensor->spec.dtype), tensor->spec.shape.ToString());
    }
    if (variable.segment == "frozen") {
      of_base.insert(variable.name);
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(Tensor value, ValueIn(base, *tensor));
    first_values.emplace_back(variable.name, std::move(value));
  }
  for (const Base::Tensor& tensor : base.tensors()) {
    if (std::ranges::find(names, tensor.name) != names.end()) continue;
    return NotFound("the base '{}' has a tensor '{}', and the model has no such variable.{}", config.base, tensor.name,
                    DidYouMean(tensor.name, names));
  }
  if (of_base.empty()) {
    return InvalidArgument(
        "the base '{}' has only variables that are trained; freeze some (model.freeze, model.lora), or name the file "
        "in model.weights",
        config.base);
  }
  if (!first_values.empty()) RIVULET_RETURN_IF_ERROR(SetFirstValues(model, first_values));
  RIVULET_RETURN_IF_ERROR(MoveToBase(model, of_base));
  model.base = base.digest();
  return absl::OkStatus();
}

// The values of model.weights become the model's own first values, so the plan contains them. Variables that each
// client keeps for itself are not in such a file.
Status BeginWith(const std::string& path, ModelDef& model) {
  StatusOr<ModelLayout> layout = ModelLayoutOf(model);
  if (!layout.ok()) return layout.status();
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Model> weights,
                           ReadArrays(path, std::make_shared<const ModelLayout>(*std::move(layout))));
  std::vector<std::pair<std::string, Tensor>> values;
  for (const Slice& slice : weights->layout().slices()) {
    if (slice.segment == Segment::kLocal) continue;
    Tensor value(slice.spec.dtype, slice.spec.shape);
    const TensorView view = weights->tensor(slice);
    std::copy_n(view.data, view.bytes(), value.data());
    values.emplace_back(slice.name, std::move(value));
  }
  return Annotate(SetFirstValues(model, values), path);
}

// Standardises the numbers of a table. One-hot features of categories, and indices of categories, are
// unchanged.
Status StandardiseBy(const std::string& path, const std::string& input_feature, ModelDef& model) {
  RIVULET_ASSIGN_OR_RETURN(const std::string json, FileSystem::Default().ReadAll(path));
  RIVULET_ASSIGN_OR_RETURN(const TableColumns columns, ParseTableColumns(json));
  if (columns.standardised)
    return InvalidArgument(
        "the examples were standardised when they were imported; leave model.columns out, or import them without "
        "--standardise");
  std::map<std::string, std::string> fed = {{FeatureOf(model.input, input_feature), model.input.placeholder}};
  for (const ModelInput& input : model.more_inputs) fed.emplace(FeatureOf(input, ""), input.placeholder);
  bool any = false;
  for (const TableFeature& feature : columns.Grouped()) {
    const auto found = fed.find(feature.name);
    if (found == fed.end() || feature.mean.empty()) continue;
    RIVULET_RETURN_IF_ERROR(Standardise(model, found->second, feature.mean, feature.deviation));
    any = true;
  }
  if (any) return absl::OkStatus();
  std::vector<std::string> features;
  for (const auto& [feature, placeholder] : fed) features.push_back(feature);
  return InvalidArgument("it has no numbers of the features that the model is fed with, {}", Join(features, ", "));
}

// Whether a safetensors file has adapters, or only the values of the model that they extend.
StatusOr<bool> HasAdapters(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(path));
  const StatusOr<SafetensorsContent> content = ParseSafetensors(bytes);
  if (!content.ok()) return Annotate(content.status(), path);
  return std::ranges::any_of(content->tensors,
                             [](const SafetensorsEntry& tensor) { return tensor.name.ends_with("/lora_B"); });
}

// Variables that AddLora freezes are sent with every version, unless model.base has them.
Status AddAdapters(const ModelConfig& config, ModelDef& model) {
  const LoraConfig& lora = config.lora;
  return Annotate(AddLora(model, {.targets = lora.targets,
                                  .modules_to_save = lora.modules_to_save,
                                  .rank = lora.rank,
                                  .alpha = lora.alpha,
                                  .dropout = lora.dropout,
                                  .freeze_a = lora.freeze_a,
                                  .rslora = lora.rslora}),
                  "model.lora");
}

}  // namespace

std::string FeatureOf(const ModelInput& input, const std::string& named) {
  return !named.empty() ? named : !input.feature.empty() ? input.feature : input.placeholder;
}

StatusOr<std::shared_ptr<const Base>> OpenBase(const Scenario& scenario) {
  auto base = Base::Open(scenario.model.base);
  if (!base.ok()) return Annotate(base.status(), "model.base");
  return base;
}

StatusOr<ModelDef> ModelOf(const Scenario& scenario, const Base* base) {
  RIVULET_ASSIGN_OR_RETURN(ModelDef model, Whole(scenario.model));
  const std::string& columns = scenario.model.columns;
  if (!columns.empty())
    RIVULET_RETURN_IF_ERROR(Annotate(StandardiseBy(columns, scenario.data.input_feature, model),
                                     fmt::format("model.columns, '{}'", columns)));
  // Weights of a model without adapters are those of its base.
  const std::string& weights = scenario.model.weights;
  bool weights_follow = !weights.empty();
  const std::set<std::string> frozen = FrozenOf(model);
  if (!scenario.model.lora.targets.empty()) {
    if (weights_follow) {
      RIVULET_ASSIGN_OR_RETURN(weights_follow, HasAdapters(weights));
      if (!weights_follow && !scenario.model.base.empty()) {
        return InvalidArgument(
            "model.weights, '{}', has no adapters, and model.base has the values of all other variables; leave out one",
            weights);
      }
      if (!weights_follow) RIVULET_RETURN_IF_ERROR(Annotate(BeginWith(weights, model), "model.weights"));
    }
    RIVULET_RETURN_IF_ERROR(AddAdapters(scenario.model, model));
  }
  RIVULET_RETURN_IF_ERROR(Annotate(Freeze(model, scenario.model.freeze), "model.freeze"));
  RIVULET_RETURN_IF_ERROR(Annotate(MakePersonal(model, scenario.model.personal), "model.personal"));
  if (!scenario.model.base.empty()) {
    std::shared_ptr<const Base> opened;
    if (base == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(opened, OpenBase(scenario));
      base = opened.get();
    }
    RIVULET_RETURN_IF_ERROR(model.has_graph() ? Annotate(PutGraphOn(*base, scenario.model, frozen, model), "model.base")
                                              : PutOn(*base, scenario.model, model));
  }
  if (!model.has_graph()) RIVULET_RETURN_IF_ERROR(CompleteArrays(scenario.model, model));
  if (weights_follow) RIVULET_RETURN_IF_ERROR(Annotate(BeginWith(weights, model), "model.weights"));
  return model;
}

StatusOr<std::shared_ptr<const Model>> ArraysOf(const Scenario& scenario, std::shared_ptr<const ModelLayout> layout,
                                                std::string_view bytes) {
  const std::string& path = scenario.model.arrays;
  return bytes.empty() ? ReadArrays(path, std::move(layout)) : ArraysIn(bytes, path, std::move(layout));
}

Status RequireGraph(const Scenario& scenario) {
  if (scenario.model.arrays.empty()) return absl::OkStatus();
  return InvalidArgument(
      "model.arrays gives a model without a graph, and a graph is needed here, such as model.preset. Clients in Python "
      "can train it: start `rivulet coordinator` and clients with rivulet.run_client, or "
      "rivulet.simulate(client_fn=...) (docs/guide/python.md)");
}

}  // namespace rivulet
